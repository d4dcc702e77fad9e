"""Tests gradscore.scores.fold_measures: each row is judged by the member that never trained on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.scores.fold_measures import fold_cosine, fold_measures
from gradscore.scores.member import MemberScores
from gradscore.scores.moments import Moments

N_ROWS, N_VIEWS = 5, 3


def member(seed: int, *, with_moments: bool = True) -> MemberScores:
    rng = np.random.default_rng(seed)
    gsnr = rng.uniform(1, 5, N_ROWS)
    return MemberScores(
        losses=rng.uniform(0.5, 3, (N_ROWS, N_VIEWS)),
        norms=rng.uniform(0.5, 3, (N_ROWS, N_VIEWS)),
        group_norms=np.ones((N_ROWS, N_VIEWS, 1)),
        is_finite=np.ones(N_ROWS, dtype=bool),
        moments=Moments(gsnr, gsnr, None) if with_moments else None,
        products=None,
        sketch=None,
    )


@given(st.integers(2, 4), st.lists(st.integers(0, 3), min_size=N_ROWS, max_size=N_ROWS))
def test_equals_a_plain_loop_over_rows(n_members: int, folds: list[int]) -> None:
    members = [member(seed) for seed in range(n_members)]
    fold = np.array(folds) % n_members
    found = fold_measures(members, fold)
    for row, f in enumerate(fold):
        out = members[f]
        others = [m.losses[row, -1] for i, m in enumerate(members) if i != f]
        assert found["loss_out"][row] == out.losses[row, -1]
        assert found["memorised"][row] == pytest.approx(out.losses[row, -1] - np.mean(others))
        assert found["grad_norm_out"][row] == out.norms[row, -1]
        drop = (out.norms[row, 0] - out.norms[row, -1]) / out.norms[row, 0]
        assert found["norm_drop_out"][row] == pytest.approx(drop)
        assert out.moments is not None
        assert found["gsnr_out"][row] == out.moments.gsnr[row]


def test_one_view_has_no_gsnr() -> None:
    members = [member(seed, with_moments=False) for seed in range(2)]
    assert "gsnr_out" not in fold_measures(members, np.zeros(N_ROWS, dtype=int))


def test_a_row_that_members_agree_on_is_not_memorised() -> None:
    found = fold_measures([member(1), member(1)], np.array([0, 1, 0, 1, 0]))
    np.testing.assert_allclose(found["memorised"], 0, atol=1e-15)


def test_no_first_gradient_has_no_drop() -> None:
    quiet = member(0)
    quiet.norms[:, 0] = 0
    assert not np.isfinite(fold_measures([quiet, quiet], np.zeros(N_ROWS, dtype=int))["norm_drop_out"]).any()


@given(st.integers(2, 4), st.integers(0, 100))
def test_the_cosine_of_folds_equals_that_of_plain_vectors(n_members: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradients = rng.standard_normal((n_members, N_ROWS, 7))
    fold = rng.integers(0, n_members, N_ROWS)
    found = fold_cosine(np.einsum("mnd,knd->nmk", gradients, gradients), fold)
    for row, f in enumerate(fold):
        own = gradients[f, row]
        others = gradients[[m for m in range(n_members) if m != f], row].sum(0)
        cosine = own @ others / np.linalg.norm(own) / np.linalg.norm(others)
        assert found[row] == pytest.approx(cosine, abs=1e-9)


def test_a_zero_gradient_has_no_cosine() -> None:
    assert np.isnan(fold_cosine(np.zeros((1, 2, 2)), np.array([0]))).all()
