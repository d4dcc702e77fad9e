"""Tests quality/model.py: the formula against a slow twin, missing values, the file, and its errors."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

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
    read_quality,
    write_quality,
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


def test_what_is_written_is_read_and_can_be_read_by_people(tmp_path: Path) -> None:
    path = tmp_path / "quality.json"
    write_quality(MODEL, path)
    assert read_quality(path) == MODEL
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["features"][0] == {
        "name": "loss",
        "better": "low",
        "scores": [0.0, 1.0, 2.0],
        "values": [1.0, 1.5, 3.0],
        "is_optional": False,
    }
    assert "数据.jsonl" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is no quality model"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"format": "other"}', "is no quality model"),
        ('{"format": "gradscore quality", "format_version": 9}', "has format 9; this release reads up to 2"),
        (
            '{"format": "gradscore quality", "format_version": 1}',
            "format 1, which this release no longer reads",
        ),
        ('{"format": "gradscore quality", "format_version": 2}', r"is damaged \(KeyError\('features'\)\)"),
        ('{"format": "gradscore quality"}', r"is damaged \(format_version is None\)"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "quality.json"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        read_quality(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"features": []}, "its features are none"),
        ({"bootstrap": []}, "it has no bootstrap fits"),
        ({"bootstrap": {}}, "is no list"),
        ({"slope": -1}, "farther out would have the higher quality"),
        ({"intercept": 10**400}, "OverflowError"),
        ({"intercept": True}, "True is no number"),
        ({"intercept": "2.0"}, "'2.0' is no number"),
        ({"fitted_on": {"settings": [1]}}, "AttributeError"),
        ({"fitted_on": {"language_model": "x"}}, "AttributeError"),
        ({"evidence": {"best_column": "quality"}}, "TypeError"),
        ({"evidence": {"best_column": {"name": "a", "better": "low", "auroc": None}}}, "TypeError"),
        ({"evidence": {"auroc": {"all": {"value": "x"}}}}, "'x' is no number"),
        (
            {"bootstrap": [{"intercept": 1, "slope": 1, "values": [[1]]}]},
            "not one value for each score, in every bootstrap",
        ),
        ({"bootstrap": [[0.1]]}, "TypeError"),
        ({"slope": math.nan}, "one of its numbers is not finite"),
        ({"fitted_on": None}, "TypeError"),
    ],
)
def test_damage_is_found_when_the_file_is_read_and_not_after_hours_of_scoring(
    tmp_path: Path, damage: dict[str, object], message: str
) -> None:
    path = tmp_path / "quality.json"
    write_quality(MODEL, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(TableError, match=rf"is damaged \(.*{message}.*Run `gradscore validate` again"):
        read_quality(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"better": ""}, "loss is better ''"),
        ({"scores": [0, 2, 1]}, r"scores of loss do not rise: \[0\.0, 2\.0, 1\.0\]"),
        ({"values": [1, 3, 2]}, r"values of loss do not go one way: \[1\.0, 3\.0, 2\.0\]"),
        ({"values": [1, 2, "wide"]}, "'wide' is no number"),
        ({"scores": "012"}, "'012' is no list"),
        ({"scores": [0, 1, 1e999]}, "one of its numbers is not finite"),
        ({"is_optional": "no"}, "is_optional 'no'"),
        ({"name": 5}, "a feature is named 5"),
        ({"name": "alignment"}, "its features are alignment, alignment"),
    ],
)
def test_a_damaged_feature_is_found(tmp_path: Path, damage: dict[str, object], message: str) -> None:
    path = tmp_path / "quality.json"
    write_quality(MODEL, path)
    content = json.loads(path.read_text())
    content["features"][0] |= damage
    path.write_text(json.dumps(content))
    with pytest.raises(TableError, match=message):
        read_quality(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"cannot be read: No such file.* Give the quality\.json"):
        read_quality(tmp_path / "none.json")
