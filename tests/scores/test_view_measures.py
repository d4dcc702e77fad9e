"""Tests gradscore.scores.view_measures against definitions written out, and their laws."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradscore.scores.view_measures import consistency, effective_rank, paper_gsnr


def products_of(gradients: np.ndarray) -> np.ndarray:
    """Return the inner products of (g_1, g_2 - g_1, ...) of each row, from gradients [n, views, p]."""
    basis = gradients.copy()
    basis[:, 1:] -= gradients[:, :1]
    return basis @ basis.transpose(0, 2, 1)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("views", [2, 3, 5])
def test_consistency_is_the_mean_cosine_between_successive_views(views: int) -> None:
    gradients = np.random.default_rng(0).normal(size=(4, views, 7))
    expected = [np.mean([cosine(g[r], g[r + 1]) for r in range(views - 1)]) for g in gradients]
    np.testing.assert_allclose(consistency(products_of(gradients)), expected)


def test_consistency_of_equal_views_is_one_of_opposed_ones_minus_one_and_of_none_missing() -> None:
    g = np.random.default_rng(1).normal(size=5)
    gradients = np.stack([np.stack([g, 2 * g]), np.stack([g, -g]), np.stack([g, 0 * g])])
    np.testing.assert_allclose(consistency(products_of(gradients)), [1.0, -1.0, np.nan], rtol=1e-12)
    assert np.isnan(consistency(products_of(gradients[:, :1]))).all()


def test_paper_gsnr_is_the_relative_drop_over_the_members_spread() -> None:
    first, last = np.array([[4.0, 1.0], [6.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(paper_gsnr(first, last, 1e-12, "drop"), [0.6, -2.0])
    np.testing.assert_allclose(paper_gsnr(first, last, 1e-12, "variance"), [0.3, -1.0])
    np.testing.assert_allclose(paper_gsnr(first, last, 1e-12, "std"), np.array([0.6, -2.0]) / np.sqrt(2))


def test_one_member_has_no_spread_but_a_drop() -> None:
    one = np.array([[2.0]]), np.array([[1.0]])
    assert paper_gsnr(*one, 1e-12, "drop") == pytest.approx(0.5)
    assert np.isnan(paper_gsnr(*one, 1e-12, "variance"))
    assert np.isnan(paper_gsnr(*one, 1e-12, "std"))


def rank_by_definition(matrix: np.ndarray) -> float:
    sigma = np.linalg.svd(matrix, compute_uv=False)
    share = sigma / sigma.sum()
    share = share[share > 1e-12]
    return float(np.exp(-(share * np.log(share)).sum()))


def test_effective_rank_is_the_exponential_of_the_entropy_of_singular_values() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.normal(size=(3, 4, 9)), generator.normal(size=(3, 6, 4))
    expected = [np.mean([rank_by_definition(a[i]), rank_by_definition(b[i])]) for i in range(3)]
    found = effective_rank([torch.from_numpy(a), torch.from_numpy(b)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@given(rank=st.integers(1, 4), scale=st.floats(1e-6, 1e6))
def test_effective_rank_of_equal_directions_is_their_number_at_any_scale(rank: int, scale: float) -> None:
    matrix = torch.zeros(1, 4, 7, dtype=torch.float64)
    matrix[0, :rank, :rank] = scale * torch.eye(rank, dtype=torch.float64)
    assert effective_rank([matrix]).item() == pytest.approx(rank, rel=1e-6)


def test_matrices_that_are_zero_have_no_rank() -> None:
    zero, one = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
    assert effective_rank([zero, one]).item() == pytest.approx(1.0, abs=1e-5)
    assert effective_rank([zero, zero]).isnan().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_has_no_rank_and_its_neighbours_have(bad: float) -> None:
    """A NaN made eigvalsh raise, and one bad row ended the whole run."""
    matrices = torch.eye(2).repeat(3, 1, 1)
    matrices[1, 0, 0] = bad
    found = effective_rank([matrices])
    assert found.isnan().tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == pytest.approx([2.0, 2.0])
