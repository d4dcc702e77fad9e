"""Tests gradscore.gradients.reduction: what is kept is the same whether a gradient is formed or not, in every engine."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.layers import embedding_gradient, linear_gradient
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Kept, Reduction, every_kth
from gradscore.gradients.vmap import VmapEngine
from tests import cases
from tests.reference import row_gradients

PROJECTED = Reduction(Projections(side=3))
REDUCTIONS = {
    "plain": Reduction(),
    "stride": Reduction(stride=3),
    "projection": PROJECTED,
    "projected norms": Reduction(Projections(side=3), exact_norms=False),
    "scales": Reduction(Projections(side=3), scales={"w": 2.5}),
}


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def assert_kept_equal(found: Kept, expected: Kept) -> None:
    torch.testing.assert_close(found.norm_squared, expected.norm_squared)
    torch.testing.assert_close(found.vector, expected.vector)


@pytest.mark.parametrize("name", REDUCTIONS)
@given(t=st.integers(1, 4), d_in=st.integers(1, 6), d_out=st.integers(1, 6), transposed=st.booleans())
def test_linear_equals_formed(name: str, t: int, d_in: int, d_out: int, transposed: bool) -> None:
    reduction = REDUCTIONS[name]
    x, e = normal(0, (2, t, d_in), (2, t, d_out))
    gradient = linear_gradient(e, x) if transposed else linear_gradient(x, e)
    assert_kept_equal(reduction.linear("w", x, e, transposed), reduction.formed("w", gradient))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_embedding_equals_formed(name: str) -> None:
    (e,) = normal(0, (2, 5, 4))
    ids = torch.tensor([[1, 1, 0, 6, 1], [2, 3, 4, 5, 6]])
    expected = REDUCTIONS[name].formed("w", embedding_gradient(ids, e, 7))
    assert_kept_equal(REDUCTIONS[name].embedding("w", ids, e, 7), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (7,), (5, 4), (2, 3, 4)])
def test_as_many_numbers_are_kept_as_announced(name: str, shape: tuple[int, ...]) -> None:
    (gradient,) = normal(1, (2, *shape))
    kept = REDUCTIONS[name].formed("w", gradient)
    assert kept.vector.shape == (2, REDUCTIONS[name].n_kept(torch.Size(shape)))
    assert kept.norm_squared.shape == (2,)


def test_exact_norms_are_of_the_whole_gradient_and_projected_ones_of_the_vector() -> None:
    (gradient,) = normal(2, (3, 5, 4))
    exact = PROJECTED.formed("w", gradient)
    projected = REDUCTIONS["projected norms"].formed("w", gradient)
    torch.testing.assert_close(exact.norm_squared, gradient.square().sum((1, 2)))
    torch.testing.assert_close(projected.norm_squared, projected.vector.square().sum(1))
    assert torch.equal(exact.vector, projected.vector)


@pytest.mark.parametrize("stride", [2, 10])
def test_a_stride_keeps_the_expected_norm(stride: int) -> None:
    """Over 400 random gradients of 1,000 coordinates the mean squared norm is kept within four standard errors."""
    (gradient,) = normal(3, (400, 1000))
    kept = Reduction(stride=stride).formed("w", gradient)
    torch.testing.assert_close(kept.vector, gradient[:, ::stride] * stride**0.5)
    error = kept.norm_squared.std() / 400**0.5
    assert abs(kept.norm_squared.mean() - 1000) < 4 * error


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6))
def test_a_stride_counts_every_column_and_row_alike(rows: int, columns: int, k: int) -> None:
    kept = torch.zeros(rows * columns)
    kept[every_kth(torch.Size((rows, columns)), k)] = 1
    for counts, length in (
        (kept.view(rows, columns).sum(0), rows),
        (kept.view(rows, columns).sum(1), columns),
    ):
        assert counts.max() - counts.min() <= 1
        assert length // k <= counts.min() <= counts.max() <= -(-length // k)


@pytest.mark.parametrize("name", ["plain", "projection"])
def test_scales_divide_vectors_and_norms(name: str) -> None:
    (gradient,) = normal(4, (2, 5, 4))
    plain = REDUCTIONS[name]
    scaled = Reduction(plain.projections, scales={"w": 4.0})
    before = plain.formed("w", gradient)
    after = scaled.formed("w", gradient)
    assert_kept_equal(after, Kept(before.norm_squared / 16, before.vector / 4))
    assert_kept_equal(scaled.formed("another", gradient), plain.formed("another", gradient))


def test_sums_of_parts_are_those_of_the_sum() -> None:
    first, second = normal(5, (2, 5, 4), (2, 5, 4))
    for name in ("plain", "stride", "projected norms"):
        reduction = REDUCTIONS[name]
        assert reduction.adds_up(torch.Size((5, 4)))
        parts = [reduction.formed("w", part) for part in (first, second)]
        assert_kept_equal(reduction.sum(parts), reduction.formed("w", first + second))
    assert not PROJECTED.adds_up(torch.Size((5, 4)))
    assert PROJECTED.adds_up(torch.Size((5,)))


def test_half_precision_is_kept_in_float32() -> None:
    (gradient,) = normal(6, (2, 5, 4))
    for reduction in (Reduction(), Reduction(stride=3), Reduction(Projections(side=3))):
        kept = reduction.formed("w", gradient.bfloat16())
        assert (kept.norm_squared.dtype, kept.vector.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("norms", ["exact", "projected"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_all_engines_give_the_same_projections(name: str, norms: str) -> None:
    model = cases.architecture(name)
    parameters = counted_parameters(model, "linear")
    reduction = Reduction(Projections(side=4, seed=7), exact_norms=norms == "exact")
    batch = cases.batch()
    engines: list[type[GradientEngine]] = [HooksEngine, VmapEngine, LoopEngine]
    hooks, vmap, loop = (engine(model, parameters, reduction).gradients(batch) for engine in engines)
    assert {vector.shape[1] for vector in hooks.vectors} == {16}
    for other in (vmap, loop):
        torch.testing.assert_close(hooks.norms_squared, other.norms_squared, rtol=1e-8, atol=1e-12)
        for found, expected in zip(hooks.vectors, other.vectors, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    if norms == "exact":
        for n, gradients in enumerate(row_gradients(model, list(batch.rows), [p.name for p in parameters])):
            expected = torch.stack([gradients[p.name].square().sum() for p in parameters])
            torch.testing.assert_close(hooks.norms_squared[n], expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("engine", [HooksEngine, VmapEngine, LoopEngine])
def test_stride_and_scales_hold_in_every_engine(engine: type[GradientEngine]) -> None:
    model = cases.with_lora(cases.architecture("llama"))
    parameters = counted_parameters(model, "lora")
    scales = {parameter.name: 1.0 + i for i, parameter in enumerate(parameters)}
    plain = engine(model, parameters, Reduction()).gradients(cases.batch())
    thinned = engine(model, parameters, Reduction(stride=5, scales=scales)).gradients(cases.batch())
    for i, (vector, whole) in enumerate(zip(thinned.vectors, plain.vectors, strict=True)):
        kept = every_kth(model.get_parameter(parameters[i].name).shape, 5)
        torch.testing.assert_close(vector, whole[:, kept] * (whole.shape[1] / len(kept)) ** 0.5 / (1.0 + i))
        torch.testing.assert_close(thinned.norms_squared[:, i], vector.square().sum(1))
