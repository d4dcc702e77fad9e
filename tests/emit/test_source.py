"""Tests gradscore.emit.source: the dataset is found again, and any change in it is named."""

import json
from pathlib import Path

import pytest

from gradscore.emit.source import read_categories, reopen_source
from gradscore.errors import DatasetError
from tests.emit.cases import filter_to, score


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "meta": {"kind": text[0]}}) + "\n" for text in texts))
    return path


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "rows.jsonl", ["a0", "b1", "a2", "b3"])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a0", "XX", "a2", "YY"], r"2 rows changed \(row 1, 3\)"),
        (["a0", "b1"], r"2 rows are missing \(row 2, 3\)"),
        (["a0", "b1", "a2", "b3", "c4"], r"1 rows were added \(row 4\)"),
        (["a2", "b1", "a0", "b3"], r"2 rows changed \(row 0, 2\)"),
        (["b1", "a2", "b3"], r"3 rows changed \(row 0, 1, 2\); 1 rows are missing \(row 3\)"),
        ([f"n{i}" for i in range(12)], r"4 rows changed .*; 8 rows were added \(row 4, 5, 6, 7, 8, \.\.\.\)"),
    ],
)
@pytest.mark.parametrize("name", ["kept.jsonl", "kept.csv", "kept.parquet"])
def test_a_changed_source_is_named_and_nothing_is_written(
    tmp_path: Path, dataset: Path, texts: list[str], found: str, name: str
) -> None:
    table = score(dataset, tmp_path, keep=[0])
    write_lines(dataset, texts)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DatasetError, match=found + r"; it had 4 rows\. Nothing was written"):
        filter_to(table, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def test_a_row_that_became_unreadable_counts_as_changed(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[0])
    dataset.write_text(dataset.read_text().replace('"b1"', '"b1'))
    with pytest.raises(DatasetError, match=r"1 rows changed \(row 1\)"):
        filter_to(table, tmp_path / "kept.jsonl")


def test_a_source_that_is_gone_is_asked_for_and_a_moved_one_is_taken(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[1])
    moved = dataset.rename(tmp_path / "moved.jsonl")
    with pytest.raises(DatasetError, match=r"no longer at .*rows\.jsonl\. Pass --dataset with its new place"):
        reopen_source(table)
    filter_to(table, tmp_path / "kept.jsonl", dataset=moved)
    assert json.loads((tmp_path / "kept.jsonl").read_text())["text"] == "b1"


def test_the_same_rows_in_another_format_are_the_same_source(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[1, 2])
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    filter_to(table, tmp_path / "kept.json", dataset=tmp_path / "rows.json")
    assert json.loads((tmp_path / "kept.json").read_text()) == rows[1:3]


def test_categories_come_from_a_column_of_the_dataset(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[], only=[1, 2])
    source = reopen_source(table)
    assert read_categories(source, table, "meta.kind") == ["b", "a"]
    with pytest.raises(DatasetError, match="'topic' is in no row"):
        read_categories(source, table, "topic")
