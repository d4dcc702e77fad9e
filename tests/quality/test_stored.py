"""Tests quality/stored.py: what is written is read, and damage is found when the file is read."""

import json
import math
from pathlib import Path

import pytest

from gradscore.errors import TableError
from gradscore.quality.stored import read_quality, write_quality
from tests.quality.test_model import MODEL


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
