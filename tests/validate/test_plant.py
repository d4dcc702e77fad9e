"""Tests validate/plant.py: what is planted is what is said, elsewhere nothing changes, and twice is the same."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradscore.config import DataConfig
from gradscore.errors import DatasetError
from gradscore.validate.faults import FAULT_KINDS, choose_kinds
from gradscore.validate.plant import FAULT_COLUMN, PlantedSample, plant, planted_bytes, read_sample


def rows_of(n: int) -> list[dict[str, Any]]:
    """Return alpaca rows with numbers in their answers; every tenth is Chinese."""
    return [
        {
            "instruction": f"Describe the number {i}",
            "output": f"数字 {i} 很好，大家都喜欢它。"
            if i % 10 == 9
            else f"The number {i} is a fine one, liked by all.",
            "kind": "ab"[i % 2],
            "id": i,
        }
        for i in range(n)
    ]


def dataset(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def planted(
    path: Path, kinds: str | None = None, contamination: float = 0.3, seed: int = 0, **data: Any
) -> PlantedSample:
    config = DataConfig(dataset=str(path), seed=seed, **data)
    rows, schema = read_sample(config)
    return plant(rows, schema, choose_kinds(kinds), contamination, seed)


def test_kinds_come_in_equal_parts_and_the_share_is_met(tmp_path: Path) -> None:
    sample = planted(dataset(tmp_path, rows_of(150)))
    assert sample.counts == dict.fromkeys(FAULT_KINDS, 5)
    assert len(sample.contents) == 150
    assert sample.messages == ()


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_a_fault_are_as_they_were_and_others_are_not(tmp_path: Path, seed: int) -> None:
    rows = rows_of(120)
    sample = planted(dataset(tmp_path, rows), seed=seed)
    for row, content, fault in zip(rows, sample.contents, sample.faults, strict=True):
        assert content[FAULT_COLUMN] == fault
        without = {name: value for name, value in content.items() if name != FAULT_COLUMN}
        if fault is None:
            assert without == row
        elif fault in ("duplicate", "contradiction"):
            original = rows[content["id"]]
            assert sample.faults[content["id"]] is None, "the original stays"
            assert (without == original) == (fault == "duplicate")
            assert {**without, "output": None} == {**original, "output": None}
        else:
            assert without["output"] != row["output"]
            assert {**without, "output": None} == {**row, "output": None}


def test_the_same_seed_gives_the_same_bytes_and_the_file_of_the_user_is_untouched(tmp_path: Path) -> None:
    path = dataset(tmp_path, rows_of(100))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).write_bytes(planted_bytes(planted(path, seed=seed)))
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    lines = [json.loads(line) for line in a.decode().splitlines()]
    assert list(lines[0]) == ["instruction", "output", "kind", "id", "fault"]


def test_a_sample_is_drawn_and_knows_where_its_rows_stood(tmp_path: Path) -> None:
    rows = rows_of(400)
    sample = planted(dataset(tmp_path, rows), kinds="truncated")
    assert len(sample.contents) == 300, "by default"
    assert [content["id"] for content in sample.contents] == list(sample.source_indices)
    assert len(planted(dataset(tmp_path, rows), kinds="truncated", sample=50).contents) == 50


def test_kinds_that_no_row_offers_are_named_and_the_others_fill_the_share(tmp_path: Path) -> None:
    rows = [
        {"question": f"Who is {name}?", "answer": f"A friend of {name}, from school."}
        for name in "abcdefghijklmnopqrstuvwxyz"
    ]
    sample = planted(dataset(tmp_path, rows), kinds="off_by_one,wrong_language,refusal", contamination=0.5)
    assert sample.counts == {"refusal": 13}
    assert [message.split(";")[0] for message in sample.messages] == [
        "Not planted: off_by_one (the last number of the answer is one more or less)",
        "Not planted: wrong_language (the answer of a row in another script)",
    ]


def test_plain_text_gets_the_faults_that_show_in_text_alone(tmp_path: Path) -> None:
    rows = [{"text": f"Number {i} is here and there are more of them."} for i in range(40)]
    sample = planted(dataset(tmp_path, rows))
    assert set(sample.counts) == {"truncated", "word_salad", "duplicate", "off_by_one", "markup"}
    assert "Not planted in plain text: swapped." in sample.messages


def test_a_fault_column_of_the_user_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    rows = [{**row, "fault": "typo"} for row in rows_of(30)]
    sample = planted(dataset(tmp_path, rows), kinds="swapped")
    assert Counter(content["fault"] for content in sample.contents) == {None: 21, "swapped": 9}
    assert "has a column 'fault' of its own" in sample.messages[0]


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"at least 20 rows that have an answer; .* 19 such rows were chosen\. Pass"
    ):
        planted(dataset(tmp_path, rows_of(19)))


@pytest.mark.parametrize(("kinds", "contamination"), [("duplicate", 0.3), ("wrong_language,duplicate", 0.01)])
def test_faults_that_no_row_shows_are_refused_before_anything_is_scored(
    tmp_path: Path, kinds: str, contamination: float
) -> None:
    path = dataset(tmp_path, [row for row in rows_of(40) if row["id"] % 10 != 9])
    with pytest.raises(
        DatasetError, match=r"No fault that a row shows could be planted.* Name other --kinds"
    ):
        planted(path, kinds, contamination)
