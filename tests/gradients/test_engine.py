"""Tests gradscore.gradients.engine: what can be asked of the gradients of a batch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradscore.gradients.engine import SampleGradients


def made(seed: int, n: int = 3) -> SampleGradients:
    """Return random gradients of two parameters, with exact norms."""
    generator = torch.Generator().manual_seed(seed)
    vectors = tuple(torch.randn(n, size, generator=generator, dtype=torch.float64) for size in (4, 6))
    norms_squared = torch.stack([vector.square().sum(1) for vector in vectors], 1)
    return SampleGradients(torch.rand(n, generator=generator).double(), norms_squared, vectors)


def flat(gradients: SampleGradients) -> torch.Tensor:
    return torch.cat(gradients.vectors, 1)


def test_products_are_those_of_the_concatenated_vectors() -> None:
    a, b = made(0), made(1)
    torch.testing.assert_close(a.inner(b), (flat(a) * flat(b)).sum(1))
    torch.testing.assert_close(a.norm(), flat(a).norm(dim=1))
    torch.testing.assert_close(a.inner(a), a.norm() ** 2)
    torch.testing.assert_close(flat(a.minus(b)), flat(a) - flat(b))
    direction = tuple(vector[0] for vector in b.vectors)
    torch.testing.assert_close(a.project_on(direction), flat(a) @ torch.cat(direction))


def test_other_parameters_are_refused() -> None:
    a = made(0)
    shorter = SampleGradients(a.losses, a.norms_squared, a.vectors[:1])
    with pytest.raises(ValueError, match="shorter"):
        a.inner(shorter)


@given(st.floats(1e-3, 1e3), st.integers(0, 2**31))
def test_clipping_bounds_norms_and_keeps_directions(max_norm: float, seed: int) -> None:
    before = made(seed)
    after = before.clipped(max_norm)
    torch.testing.assert_close(after.norm(), before.norm().clamp(max=max_norm))
    torch.testing.assert_close(flat(after).norm(dim=1), before.norm().clamp(max=max_norm))
    cosine = torch.nn.functional.cosine_similarity(flat(before), flat(after))
    torch.testing.assert_close(cosine, torch.ones_like(cosine))
    torch.testing.assert_close(flat(after.clipped(max_norm)), flat(after))
    assert torch.equal(after.losses, before.losses)


def test_a_zero_gradient_stays_zero_when_clipped() -> None:
    zero = SampleGradients(torch.ones(1), torch.zeros(1, 2), (torch.zeros(1, 4), torch.zeros(1, 6)))
    clipped = zero.clipped(1.0)
    assert flat(clipped).tolist() == [[0.0] * 10]
    assert clipped.norm().tolist() == [0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["losses", "norms_squared", "vectors"])
def test_one_number_that_is_not_finite_marks_its_row_alone_also_after_clipping(
    where: str, bad: float
) -> None:
    gradients = made(2)
    field = gradients.vectors[1] if where == "vectors" else getattr(gradients, where)
    field[1] = bad
    assert gradients.is_finite().tolist() == [True, False, True]
    clipped = gradients.clipped(0.1)
    assert clipped.is_finite().tolist() == [True, False, True]
    torch.testing.assert_close(flat(clipped)[[0, 2]].norm(dim=1), torch.full((2,), 0.1, dtype=torch.float64))


def test_rows_are_picked_by_a_mask() -> None:
    gradients = made(3)
    picked = gradients.at(torch.tensor([True, False, True]))
    assert torch.equal(flat(picked), flat(gradients)[[0, 2]])
    assert torch.equal(picked.losses, gradients.losses[[0, 2]])
    assert torch.equal(picked.norms_squared, gradients.norms_squared[[0, 2]])
