"""GSNR against its definition on explicit gradients, and the laws it must obey (gradscore.scores.moments)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.scores.moments import gsnr_floor, jackknife_error, moments, view_weights

EPSILON = 1e-12


def products(gradients: np.ndarray) -> np.ndarray:
    """Return the inner products of first view and differences, from gradients [n, views, p]."""
    basis = gradients.copy()
    basis[:, 1:] -= gradients[:, :1]
    return np.einsum("nip,njp->nij", basis, basis)


def slow_gsnr(gradients: np.ndarray, momentum: float, epsilon: float) -> float:
    """Return GSNR of one row as the formula is written, from gradients [views, p]: slow and obviously right."""
    mean, square, total = np.zeros(gradients.shape[1]), 0.0, 0.0
    for r, g in enumerate(gradients):
        weight = momentum ** (len(gradients) - 1 - r)
        mean, square, total = mean + weight * g, square + weight * (g @ g), total + weight
    mean, square = mean / total, square / total
    return float(np.linalg.norm(mean) / np.sqrt(max(square - mean @ mean, 0) + epsilon**2))


@given(st.integers(2, 6), st.integers(1, 9), st.floats(0.1, 1.0), st.integers(0, 2**32 - 1))
def test_equals_the_formula_on_explicit_gradients(views: int, p: int, momentum: float, seed: int) -> None:
    gradients = np.random.default_rng(seed).normal(size=(3, views, p))
    found = moments(products(gradients), momentum, EPSILON).gsnr
    expected = [slow_gsnr(row, momentum, EPSILON) for row in gradients]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_moving_average_weights_are_the_bias_corrected_recursion() -> None:
    average = np.zeros(4)
    for r in range(4):  # the recursion average <- beta average + (1 - beta) e_r, divided by 1 - beta^R
        average = 0.9 * average + 0.1 * np.eye(4)[r]
    np.testing.assert_allclose(view_weights(4, 0.9), average / (1 - 0.9**4))


@pytest.mark.parametrize(("views", "floor"), [(2, 1.0), (5, 0.5)])
def test_floor_with_equal_weights_is_one_over_root_of_views_less_one(views: int, floor: float) -> None:
    assert gsnr_floor(views, 1.0) == pytest.approx(floor)


def test_floor_of_one_view_is_undefined() -> None:
    assert gsnr_floor(1, 0.9) is None


@pytest.mark.parametrize("momentum", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("views", [2, 4, 8])
def test_pure_noise_reads_the_floor_and_unbiased_reads_near_zero(views: int, momentum: float) -> None:
    noise = np.random.default_rng(0).normal(size=(40, views, 20_000))
    found = moments(products(noise), momentum, EPSILON)
    np.testing.assert_allclose(found.gsnr, gsnr_floor(views, momentum), rtol=0.05)
    assert found.gsnr_unbiased.mean() < 0.1


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_unbiased_converges_to_the_known_ratio_where_plain_gsnr_does_not(ratio: float) -> None:
    rng, p = np.random.default_rng(1), 20_000
    signal = rng.normal(size=(40, 1, p))
    signal *= ratio * np.sqrt(p) / np.linalg.norm(signal, axis=2, keepdims=True)
    found = moments(products(signal + rng.normal(size=(40, 4, p))), 0.9, EPSILON)
    np.testing.assert_allclose(found.gsnr_unbiased.mean(), ratio, rtol=0.03)
    assert found.gsnr.mean() > 1.1 * ratio


def test_identical_views_have_signal_over_epsilon() -> None:
    gradient = np.random.default_rng(2).normal(size=(3, 1, 7))
    found = moments(products(np.repeat(gradient, 4, axis=1)), 0.9, EPSILON)
    np.testing.assert_allclose(found.gsnr, np.linalg.norm(gradient, axis=(1, 2)) / EPSILON)
    assert np.isfinite(found.gsnr_unbiased).all()
    np.testing.assert_allclose(found.gsnr_se, 0.0, atol=1e-2)


@given(st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_scaling_the_loss_changes_nothing(scale: float, seed: int) -> None:
    gradients = np.random.default_rng(seed).normal(size=(2, 4, 5))
    plain, scaled = (moments(products(factor * gradients), 0.9, EPSILON) for factor in (1.0, scale))
    for name in ("gsnr", "gsnr_unbiased", "gsnr_se"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-6, atol=1e-9)


def test_nearly_equal_views_keep_their_digits_in_float32() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(1, 1, 100_000))
    views = base + 1e-4 * rng.normal(size=(1, 4, 100_000))
    found = moments(products(views.astype(np.float32)).astype(np.float64), 0.9, EPSILON).gsnr
    np.testing.assert_allclose(found, slow_gsnr(views[0], 0.9, EPSILON), rtol=1e-3)


def test_jackknife_equals_leaving_each_view_out_by_hand() -> None:
    gradients = np.random.default_rng(4).normal(size=(1, 4, 6))
    weights = view_weights(4, 1.0)
    left_out = [slow_gsnr(np.delete(gradients[0], r, axis=0), 1.0, EPSILON) for r in range(4)]
    expected = np.sqrt(3 / 4 * ((np.array(left_out) - np.mean(left_out)) ** 2).sum())
    np.testing.assert_allclose(jackknife_error(products(gradients), weights, EPSILON), expected, rtol=1e-6)


def test_jackknife_needs_three_views() -> None:
    assert jackknife_error(np.ones((1, 2, 2)), view_weights(2, 0.9), EPSILON) is None
