"""Tests gradscore.gradients.projection: without forming a gradient as with it, and unbiased."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradscore.gradients.layers import embedding_gradient, linear_gradient
from gradscore.gradients.projection import Projections

SIDE = 4


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_of_a_linear_map_is_that_of_its_formed_gradient(
    n: int, t: int, d_in: int, d_out: int, seed: int
) -> None:
    x, e = normal(seed, (n, t, d_in), (n, t, d_out))
    projections = Projections(SIDE, seed)
    found = projections.of_linear("w", x, e)
    assert found.shape == (n, SIDE, SIDE)
    torch.testing.assert_close(found, projections.of_gradient("w", linear_gradient(x, e)))


def test_of_an_embedding_is_that_of_its_formed_gradient() -> None:
    (e,) = normal(0, (3, 6, 5))
    ids = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(1))
    projections = Projections(SIDE)
    expected = projections.of_gradient("w", embedding_gradient(ids, e, 7))
    torch.testing.assert_close(projections.of_embedding("w", ids, e, 7), expected)


def test_is_p_g_q_transposed() -> None:
    (gradient,) = normal(0, (2, 6, 9))
    projections = Projections(SIDE)
    p = projections.matrix("w", 6, "out", gradient).T
    q = projections.matrix("w", 9, "in", gradient).T
    torch.testing.assert_close(projections.of_gradient("w", gradient)[1], p @ gradient[1] @ q.T)


def test_leading_axes_of_a_stack_of_experts_count_as_one() -> None:
    (gradient,) = normal(0, (2, 3, 5, 6))
    projections = Projections(SIDE)
    torch.testing.assert_close(
        projections.of_gradient("w", gradient), projections.of_gradient("w", gradient.reshape(2, 15, 6))
    )


def test_inner_products_are_unbiased_with_the_stated_spread() -> None:
    """Means over 4,000 seeds lie within four standard errors; for rank one, Var ||R||^2 is about 4/a ||G||^4."""
    g, h = normal(3, (1, 8, 1), (1, 1, 9))
    first = g @ h
    first = first / first.norm()
    (noise,) = normal(4, (1, 8, 9))
    second = first + 0.3 * noise
    squares, inner = [], []
    for seed in range(4000):
        projections = Projections(8, seed)
        a, b = (projections.of_gradient("w", gradient) for gradient in (first, second))
        squares.append(a.square().sum())
        inner.append((a * b).sum())
    for values, expected in ((torch.stack(squares), 1.0), (torch.stack(inner), (first * second).sum())):
        error = values.std() / len(values) ** 0.5
        assert abs(values.mean() - expected) < 4 * error
    # Exactly: (1 + 2/a)^2 - 1 = 4/a + 4/a^2 for a rank-one gradient.
    assert torch.stack(squares).std().item() == pytest.approx((4 / 8 + 4 / 64) ** 0.5, rel=0.1)


def test_matrices_follow_from_seed_name_and_side_alone() -> None:
    (like,) = normal(0, (1,))

    def matrix(seed: int = 0, name: str = "w", which: str = "in") -> Tensor:
        return Projections(SIDE, seed).matrix(name, 6, which, like)

    state = torch.random.get_rng_state()
    assert torch.equal(matrix(), matrix())
    for other in (matrix(seed=1), matrix(name="v"), matrix(which="out")):
        assert not torch.equal(matrix(), other)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("shape", "side", "applies"),
    [
        ((5, 4), 4, True),
        ((4, 4), 4, False),
        ((100,), 4, False),
        ((2, 3, 4), 4, True),
        ((100, 100), 0, False),
        ((), 1, False),
    ],
)
def test_what_is_no_shorter_is_not_projected(shape: tuple[int, ...], side: int, applies: bool) -> None:
    assert Projections(side).applies_to(torch.Size(shape)) is applies
