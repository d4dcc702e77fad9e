"""Tests gradscore.table.merge: buckets, files, footer and manifest of the finished table."""

import errno
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from gradscore.errors import StorageError, TableError
from gradscore.records import SilentReporter
from gradscore.table import merge
from gradscore.table.parts import PartWriter
from gradscore.table.read import read_table
from gradscore.table.run import RunFolder
from tests.table.rows import IDENTITY, metadata, scored, write_table


@pytest.mark.parametrize("name", ["scores.parquet", "scores"])
def test_pandas_reads_the_table_with_one_row_per_scored_row(tmp_path: Path, name: str) -> None:
    output = write_table(
        tmp_path / name, [scored(index) for index in (3, 0, 2)] + [scored(1, status="too_long")]
    )
    frame = pd.read_parquet(output)
    assert frame["row_index"].tolist() == [0, 1, 2, 3]
    assert frame["gsnr"].isna().tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", ["scores.parquet", "scores"])
def test_a_table_of_many_buckets_and_files_is_sorted_and_whole(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "ROWS_PER_BUCKET", 3)
    monkeypatch.setattr(merge, "ROWS_PER_FILE", 6)
    ids = [(index, side) for index in range(10) for side in ("rejected", "chosen")]
    output = write_table(tmp_path / name, [scored(index, side=side) for index, side in reversed(ids)])
    table = read_table(output)
    found = list(zip(table.arrow["row_index"].to_pylist(), table.texts("side"), strict=True))
    assert found == sorted(ids)
    if output.is_dir():
        files = sorted(path.name for path in output.iterdir())
        assert files[0] == "_manifest.json"
        assert len(files) > 3
        assert pd.read_parquet(output).shape[0] == 20


def test_the_footer_has_the_given_metadata_and_the_column_dictionary(tmp_path: Path) -> None:
    output = write_table(tmp_path / "scores.parquet", [scored(0)], timing={"seconds": 1.5})
    footer = json.loads(pq.read_schema(output).metadata[b"gradscore"])
    assert footer["format_version"] == 1
    assert footer["timing"] == {"seconds": 1.5}
    assert {entry["name"]: entry["unit"] for entry in footer["columns"]}["loss"] == "nats per target token"


def test_metadata_that_json_cannot_hold_is_refused_and_parts_stay(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_table(tmp_path / "scores.parquet", [scored(0)], noise_floor=float("nan"))
    assert len(list((tmp_path / "scores.run" / "parts").iterdir())) == 1


def test_a_table_without_rows_is_a_table(tmp_path: Path) -> None:
    assert len(read_table(write_table(tmp_path / "scores.parquet", []))) == 0
    assert len(read_table(write_table(tmp_path / "scores", []))) == 0


@pytest.mark.parametrize("name", ["scores.parquet", "scores"])
def test_a_full_disk_leaves_the_old_table_and_all_parts(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = write_table(tmp_path / name, [scored(0)])
    run = RunFolder.open(output, IDENTITY, config_mapping={}, overwrite=True)
    writer = PartWriter(run, SilentReporter())
    writer.add([scored(0), scored(1)])
    writer.flush()

    class FullWriter:
        def __init__(self, *args: Any, **options: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetWriter", FullWriter)
        with pytest.raises(StorageError, match=r"is full\. All scores are safe in the run folder"):
            writer.finish(metadata(), {(0, None), (1, None)})
    assert len(read_table(output)) == 1
    assert sorted(path.name for path in run.path.iterdir()) == ["config.yaml", "parts", "run.json", "views"]
    writer.finish(metadata(), {(0, None), (1, None)})
    assert len(read_table(output)) == 2
    assert not run.parts.exists()


def test_a_table_that_lacks_a_row_is_never_finished(tmp_path: Path) -> None:
    """Two processes on one run once replaced each other's parts, and the table came out short."""
    run = RunFolder.open(tmp_path / "scores.parquet", IDENTITY, config_mapping={})
    writer = PartWriter(run, SilentReporter())
    writer.add([scored(i) for i in range(3)])
    writer.flush()
    writer.add([scored(i) for i in range(3, 6)])
    writer.flush()
    next(run.parts.glob("part-*.parquet")).unlink()
    with pytest.raises(TableError, match="3 of 6 rows are no longer among the parts on disk"):
        writer.finish(metadata(), {(i, None) for i in range(6)})
    assert not run.output.exists()
    assert len(list(run.parts.glob("part-*.parquet"))) == 1


def test_two_writers_on_one_run_keep_each_others_parts(tmp_path: Path) -> None:
    run = RunFolder.open(tmp_path / "scores.parquet", IDENTITY, config_mapping={})
    writers = [PartWriter(run, SilentReporter()) for _ in range(2)]
    for number, writer in enumerate(writers):
        writer._paths = lambda: []  # both look at the folder before either has written
        writer.add([scored(number)])
        writer.flush()
    assert len(list(run.parts.glob("part-000000-*.parquet"))) == 2
