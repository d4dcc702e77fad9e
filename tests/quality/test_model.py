"""Tests quality/model.py: the formula against a slow twin, and missing values."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gradscore.errors import TableError
from gradscore.quality.model import (
    Feature,
    Fit,
    QualityModel,
    apply,
    normal_scores,
)

SCORES = (0.0, 1.0, 2.0)
MODEL = QualityModel(
    features=(
        Feature("loss", "low", SCORES, (1.0, 1.5, 3.0)),
        Feature("alignment", "high", SCORES, (0.3, 0.1, -0.2)),
    ),
    intercept=1.5,
    slope=0.5,
    bootstrap=(
        Fit(1.4, 0.4, ((1.1, 1.4, 2.5), (0.3, 0.2, -0.1))),
        Fit(1.7, 0.6, ((0.9, 1.6, 4.0), (0.4, 0.1, -0.3))),
        Fit(1.5, 0.0, ((1.0, 1.5, 3.0), (0.3, 0.1, 0.1))),
    ),
    fitted_on={"dataset": "数据.jsonl"},
    evidence={"all": 0.9},
)


def slow_score(badness: float, knots: list[float]) -> float:
    """Slow and obviously right: 0, 1 and 2 at the knots, straight lines between them, flat beyond."""
    if badness <= knots[0]:
        return 0.0
    for below, (low, high) in enumerate(itertools.pairwise(knots)):
        if low <= badness < high:
            return below + (badness - low) / (high - low)
    return float(len(knots) - 1)


def slow_quality(loss: float, alignment: float, fit: Fit) -> float:
    """Slow and obviously right: the formula of the module's first lines for one row and one fit."""
    u1 = slow_score(loss, list(fit.values[0]))
    u2 = slow_score(-alignment, [-value for value in fit.values[1]])
    return 1 / (1 + math.exp(-(fit.intercept - fit.slope * (u1**2 + u2**2))))


@given(st.floats(0, 1e6), st.floats(-1, 1))
def test_quality_is_the_formula(loss: float, alignment: float) -> None:
    assume(alignment != 0.1)  # where two knots of the last fit meet; see below
    found = apply(MODEL, {"loss": [loss], "alignment": [alignment]})
    own, *fits = (slow_quality(loss, alignment, fit) for fit in (MODEL.own, *MODEL.bootstrap))
    assert found.quality[0] == pytest.approx(own, rel=1e-9)
    assert found.low[0] == pytest.approx(min(own, float(np.quantile(fits, 0.025))), rel=1e-9)
    assert found.high[0] == pytest.approx(max(own, float(np.quantile(fits, 0.975))), rel=1e-9)
    assert 0 <= found.low[0] <= found.quality[0] <= found.high[0] <= 1


def test_a_value_that_many_sound_rows_share_lies_in_the_middle_of_them() -> None:
    found = normal_scores(
        np.array([0.9, 1.0, 1.1]), (0.5, 1.0, 1.0, 1.0, 2.0), (0, 0.5, 1.0, 1.5, 2.0), "low"
    )
    assert found[1] == 1.0
    assert found[0] < 0.5
    assert found[2] > 1.5
    np.testing.assert_array_equal(
        normal_scores(np.array([-0.9, -1.0, -1.1]), (-0.5, -1, -1, -1, -2), (0, 0.5, 1, 1.5, 2), "high"),
        found,
    )


def test_a_row_without_a_value_has_no_quality_and_its_neighbours_have() -> None:
    frame = pd.DataFrame({"loss": [1.0, np.nan, 2.0], "alignment": [0.1, 0.2, np.nan]})
    found = apply(MODEL, frame)
    for values in found:
        assert np.isfinite(values).tolist() == [True, False, False]


def test_a_column_that_is_null_by_nature_counts_nothing() -> None:
    optional = replace(MODEL, features=(MODEL.features[0], replace(MODEL.features[1], is_optional=True)))
    columns = {"loss": [1.0, 1.0, np.nan], "alignment": [0.3, np.nan, 0.1]}  # 0.3 is the median
    quality = apply(optional, columns).quality
    assert quality[0] == quality[1]
    assert np.isnan(quality[2])


def test_a_table_without_rows_has_no_qualities() -> None:
    assert [len(values) for values in apply(MODEL, {"loss": [], "alignment": []})] == [0, 0, 0]


def test_rows_in_blocks_are_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    columns = {"loss": rng.random(20), "alignment": rng.random(20)}
    whole = apply(MODEL, columns)
    monkeypatch.setattr("gradscore.quality.model.ROWS_PER_BLOCK", 7)
    for found, expected in zip(apply(MODEL, columns), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_absent_column_is_an_error_that_says_how_to_get_it() -> None:
    with pytest.raises(
        TableError, match=r"does not have: alignment; it has: loss\. Score with --measures alignment"
    ):
        apply(MODEL, {"loss": [1.0]})
