"""Tests gradscore.scores.rows: means over members with their spread, and never a number where there is no score."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from gradscore.records import NO_TARGET_TOKENS, NON_FINITE, EncodedRow, ScoredRow
from gradscore.scores.member import MemberScores
from gradscore.scores.moments import Moments
from gradscore.scores.rows import with_scores, without_scores
from tests import cases

IDENTITY = ("row_index", "row_key", "category", "side", "n_tokens", "n_target_tokens", "truncated")
SCORES = {field.name for field in dataclasses.fields(ScoredRow)} - {
    *IDENTITY, "source", "status", "n_views", "measures",
}  # fmt: skip
ROWS = [
    dataclasses.replace(row, category="sums", side="chosen", truncated=True) for row in cases.rows((9, 5))
]


def member(offset: float = 0.0, views: int = 3, sketch: bool = False) -> MemberScores:
    """Return the scores of two rows; `offset` tells members apart."""
    base = np.array([1.0, 2.0]) + offset
    moments = Moments(gsnr=base, gsnr_unbiased=base / 2, gsnr_se=base / 10 if views > 2 else None)
    steps = np.arange(views)
    return MemberScores(
        losses=base[:, None] + steps,
        norms=base[:, None] + 10 * steps,
        group_norms=np.stack([base, 2 * base], 1)[:, None] * (1 + steps)[:, None],
        is_finite=np.array([True, True]),
        moments=moments if views > 1 else None,
        sketch=np.stack([base, -base], 1) if sketch else None,
    )


def assert_no_scores(row: ScoredRow) -> None:
    assert row.n_views == 0
    assert {name: getattr(row, name) for name in SCORES} == dict.fromkeys(SCORES)
    assert row.measures == {}


def score(members: Sequence[MemberScores], rows: Sequence[EncodedRow] = ROWS) -> list[ScoredRow]:
    return with_scores(rows, members, "data.jsonl")


def test_identity_is_carried_over() -> None:
    for row, scored in zip(ROWS, score([member()]), strict=True):
        assert all(getattr(scored, name) == getattr(row, name) for name in IDENTITY)
        assert (scored.source, scored.status) == ("data.jsonl", "ok")


def test_one_member() -> None:
    first = score([member(sketch=True)])[0]
    assert (first.n_views, first.loss, first.loss_first, first.loss_last) == (3, 2.0, 1.0, 3.0)
    assert (first.grad_norm, first.grad_norm_first, first.grad_norm_last) == (11.0, 1.0, 21.0)
    assert (first.gsnr, first.gsnr_unbiased, first.gsnr_se) == (1.0, 0.5, 0.1)
    assert first.gsnr_spread is None
    assert first.layer_norms == (2.0, 4.0)  # mean over views
    assert first.view_layer_norms is None
    assert first.sketch == (1.0, -1.0)


def test_members_have_a_mean_a_spread_and_the_error_of_the_mean() -> None:
    first = score([member(0.0, sketch=True), member(2.0, sketch=True), member(4.0, sketch=True)])[0]
    assert first.n_views == 3
    assert first.loss == pytest.approx(4.0)
    assert first.grad_norm_last == pytest.approx(23.0)
    assert first.gsnr == pytest.approx(3.0)
    assert first.gsnr_unbiased == pytest.approx(1.5)
    assert first.gsnr_spread == pytest.approx(2.0)  # of 1, 3, 5 with n - 1
    assert first.gsnr_se == pytest.approx(np.sqrt(0.1**2 + 0.3**2 + 0.5**2) / 3)
    assert first.layer_norms == pytest.approx((6.0, 12.0))
    assert first.sketch == pytest.approx((3.0, -3.0))


def test_layer_norms_are_kept_view_by_view_for_the_rows_that_were_chosen() -> None:
    members = [member(0.0), member(2.0)]
    first, second = with_scores(ROWS, members, "data.jsonl", detailed={ROWS[1].row_key})
    assert first.view_layer_norms is None
    assert second.view_layer_norms == (3.0, 6.0, 6.0, 12.0, 9.0, 18.0)  # oldest view first, mean over members
    assert second.layer_norms == (6.0, 12.0)


def test_two_views_have_no_error_and_one_view_has_no_gsnr() -> None:
    two, one = score([member(views=2)])[0], score([member(views=1)])[0]
    assert (two.gsnr, two.gsnr_se) == (1.0, None)
    assert (one.gsnr, one.gsnr_unbiased, one.gsnr_se, one.gsnr_spread) == (None, None, None, None)
    assert (one.n_views, one.loss, one.grad_norm) == (1, 1.0, 1.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_under_one_member_has_no_scores(bad: float) -> None:
    broken = member(2.0)
    broken.losses[0] = broken.norms[0] = bad
    assert broken.moments is not None
    broken.moments.gsnr[0] = bad
    broken = dataclasses.replace(broken, is_finite=np.array([False, True]))
    first, second = score([member(), broken])
    assert first.status == NON_FINITE
    assert_no_scores(first)
    assert second == score([member(), member(2.0)])[1]


def test_a_row_without_scores_keeps_its_reason() -> None:
    row = dataclasses.replace(ROWS[0], status=NO_TARGET_TOKENS)
    assert without_scores(row, "data.jsonl").status == NO_TARGET_TOKENS
    assert without_scores(row, "data.jsonl", NON_FINITE).status == NON_FINITE
    assert_no_scores(without_scores(row, "data.jsonl"))


def test_measures_are_numbers_or_missing_and_a_row_without_scores_has_none() -> None:
    found = {"el2n": np.array([0.5, np.nan]), "perplexity": np.array([np.inf, 2.0])}
    first, second = with_scores(ROWS, [member()], "data.jsonl", found)
    assert first.measures == {"el2n": 0.5, "perplexity": None}
    assert second.measures == {"el2n": None, "perplexity": 2.0}
    broken = dataclasses.replace(member(), is_finite=np.array([False, True]))
    assert_no_scores(with_scores(ROWS, [broken], "data.jsonl", found)[0])
