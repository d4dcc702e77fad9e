"""Tests gradscore.emit.dataset and its manifest: kept rows, dropped rows with reasons, all or nothing."""

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradscore.errors import StorageError
from tests.emit.cases import filter_to, score

LINES = [
    b'{"text": "zero", "n": 0}',
    b'{"n":1.0,"text":"one"}',
    b'{"text": "tw\xc3\xb6"}',
    b'{"text": "three"}',
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(LINES[0] + b"\r\n" + LINES[1] + b"\n\n" + LINES[2] + b"\n" + LINES[3])
    return path


def test_kept_lines_are_byte_equal_and_in_source_order(tmp_path: Path, dataset: Path) -> None:
    summary = filter_to(score(dataset, tmp_path, keep=[3, 1]), tmp_path / "kept.jsonl")
    assert (tmp_path / "kept.jsonl").read_bytes() == LINES[1] + b"\n" + LINES[3] + b"\n"
    assert (summary.n_kept, summary.n_dropped) == (2, 2)


def test_every_dropped_row_has_its_reason(tmp_path: Path, dataset: Path) -> None:
    dataset.write_bytes(dataset.read_bytes() + b"\n{broken")
    table = score(dataset, tmp_path, keep=[0], only=[0, 2, 4])
    summary = filter_to(table, tmp_path / "kept.jsonl")
    dropped = pd.read_parquet(tmp_path / "kept.dropped.parquet")
    assert dropped["row_index"].tolist() == [1, 2, 3, 4]
    assert dropped["reason_code"].tolist() == ["not_scored", "threshold", "not_scored", "status"]
    assert dropped["reason"][1] == "dropped: gsnr 0 under --min-gsnr 0.5"
    assert dropped["reason"][3].startswith("dropped: status invalid: line 6 column 2: broken JSON")
    assert dropped["category"].isna().tolist() == [True, False, True, True]
    assert dropped["rank"].isna().all()
    assert summary.reasons == {"kept": 1, "threshold": 1, "status": 1, "not_scored": 2}


def test_rows_past_the_cut_keep_rank_and_score(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[0])
    filter_to(table, tmp_path / "kept.jsonl", min_gsnr=None, top_k="1", normalize="zscore")
    dropped = pq.read_table(tmp_path / "kept.dropped.parquet").to_pylist()
    assert sorted(row["rank"] for row in dropped) == [2, 3, 4]
    assert [round(row["score"], 3) for row in dropped] == [-0.577] * 3


def test_the_manifest_tells_what_was_done(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[0, 2])
    filter_to(table, tmp_path / "kept.jsonl")
    manifest = json.loads((tmp_path / "kept.manifest.json").read_text())
    assert manifest["config"] == {"filter": {"min_gsnr": 0.5}}
    assert manifest["source"]["dataset"] == str(dataset)
    assert manifest["counts"] == {
        "kept": 2,
        "dropped": 2,
        "reasons": {"kept": 2, "threshold": 2},
        "categories": {"c": {"kept": 2, "dropped": 2}},
    }
    assert manifest["table"]["sha256"] == hashlib.sha256(table.path.read_bytes()).hexdigest()
    for entry in manifest["files"].values():
        content = (tmp_path / entry["name"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    assert {"gradscore", "python", "numpy", "pandas", "pyarrow"} == set(manifest["versions"])


def test_filtering_twice_gives_the_same_files(tmp_path: Path, dataset: Path) -> None:
    table = score(dataset, tmp_path, keep=[0, 2])
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        filter_to(table, tmp_path / name)
    first, second = (
        json.loads((tmp_path / f"{n}.manifest.json").read_text())["files"] for n in ("one", "two")
    )
    assert [first[key]["sha256"] for key in first] == [second[key]["sha256"] for key in second]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet", "csv", "tsv"])
def test_a_filtered_file_filters_again_to_itself(tmp_path: Path, dataset: Path, suffix: str) -> None:
    kept = tmp_path / f"kept.{suffix}"
    filter_to(score(dataset, tmp_path, keep=[0, 1]), kept)
    (tmp_path / "second").mkdir()
    again = tmp_path / "second" / f"again.{suffix}"
    filter_to(score(kept, tmp_path / "second", keep=[0, 1]), again)
    if suffix == "parquet":
        assert pq.read_table(again).equals(pq.read_table(kept))
    else:
        assert again.read_bytes() == kept.read_bytes()


def test_a_parquet_source_keeps_its_schema(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b", "c"], "n": pa.array([1, None, 3], pa.int16())})
    pq.write_table(table, tmp_path / "rows.parquet")
    filter_to(score(tmp_path / "rows.parquet", tmp_path, keep=[0, 2]), tmp_path / "kept.parquet")
    assert pq.read_table(tmp_path / "kept.parquet").equals(table.take(pa.array([0, 2])))


def test_a_csv_source_with_quotes_and_line_ends_comes_back(tmp_path: Path) -> None:
    records = ['"say ""hi""","two\nlines"', "plain,"]
    (tmp_path / "rows.csv").write_text("b,a\n" + "\n".join(records) + "\ndropped,x\n")
    filter_to(score(tmp_path / "rows.csv", tmp_path, keep=[0, 1]), tmp_path / "kept.csv")
    assert (tmp_path / "kept.csv").read_text() == "b,a\n" + "\n".join(records) + "\n"


def test_nested_values_in_csv_are_said(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user"}]}\n')
    summary = filter_to(score(tmp_path / "rows.jsonl", tmp_path, keep=[0]), tmp_path / "kept.csv")
    assert summary.messages == ("Nested values were written as JSON text in: messages.",)


@pytest.mark.parametrize("writer", ["kept", "dropped"])
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    table = score(dataset, tmp_path, keep=[0])
    filter_to(table, tmp_path / "kept.jsonl")
    names = ("kept.jsonl", "kept.dropped.parquet", "kept.manifest.json")
    before = {name: (tmp_path / name).read_bytes() for name in names}

    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = {"kept": "write_json_lines", "dropped": "write_dropped"}[writer]
    monkeypatch.setattr(f"gradscore.emit.dataset.{target}", full)
    with pytest.raises(
        StorageError, match=rf"Writing \d {writer} rows .* is full\. The score table and the dataset"
    ):
        filter_to(table, tmp_path / "kept.jsonl", overwrite=True)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    assert not list(tmp_path.glob("*.tmp"))
