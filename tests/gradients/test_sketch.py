"""Tests gradscore.gradients.sketch: unbiased, linear, and the same wherever it is computed."""

import pytest
import torch
from torch import Tensor

from gradscore.gradients.sketch import CountSketch

NAMES = ("first", "second")


def vectors(seed: int, n: int = 1) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, size, generator=generator, dtype=torch.float64) for size in (30, 50))


def test_each_coordinate_goes_to_one_bucket_with_a_sign() -> None:
    sketch = CountSketch(8)
    for k in range(30):
        one = torch.zeros(1, 30, dtype=torch.float64)
        one[0, k] = 3.0
        found = sketch.of(("first",), (one,))
        assert found.shape == (1, 8)
        assert sorted(found.abs().flatten().tolist()) == [0.0] * 7 + [3.0]


def test_inner_products_are_unbiased_with_the_stated_error() -> None:
    """Means over 3,000 seeds lie within four standard errors; the spread of ||sketch||^2 is about sqrt(2/size)."""
    a, b = vectors(0), vectors(1)
    # Coordinates that lean to one side, so that without signs the product would be far too large.
    a, b = tuple(v + 1 for v in a), tuple(v + 1 for v in b)
    flat_a, flat_b = torch.cat(a, 1)[0], torch.cat(b, 1)[0]
    products = []
    for seed in range(3000):
        sketch = CountSketch(16, seed)
        products.append((sketch.of(NAMES, a) * sketch.of(NAMES, b)).sum())
    found = torch.stack(products)
    assert abs(found.mean() - flat_a @ flat_b) < 4 * found.std() / len(found) ** 0.5
    # Var = (|a|^2 |b|^2 + <a, b>^2 - 2 sum a_i^2 b_i^2) / size for random signs and buckets.
    variance = flat_a.square().sum() * flat_b.square().sum() + (flat_a @ flat_b) ** 2
    variance = (variance - 2 * (flat_a**2 * flat_b**2).sum()) / 16
    assert found.std().item() == pytest.approx(variance.sqrt().item(), rel=0.1)


def test_is_linear_and_rows_are_apart() -> None:
    sketch, both = CountSketch(8), vectors(2, n=2)
    whole = sketch.of(NAMES, both)
    for n in range(2):
        torch.testing.assert_close(sketch.of(NAMES, tuple(v[n : n + 1] for v in both))[0], whole[n])
    summed = tuple(v.sum(0, keepdim=True) for v in both)
    torch.testing.assert_close(sketch.of(NAMES, summed)[0], whole.sum(0))


def test_parameters_are_told_apart_by_name_and_their_order_does_not_matter() -> None:
    a = vectors(3)
    forward = CountSketch(8).of(NAMES, a)
    torch.testing.assert_close(CountSketch(8).of(NAMES[::-1], a[::-1]), forward)
    assert not torch.allclose(CountSketch(8).of(("first", "third"), a), forward)
    assert not torch.allclose(CountSketch(8, seed=1).of(NAMES, a), forward)
