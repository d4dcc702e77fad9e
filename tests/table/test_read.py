"""Tests gradscore.table.read: a finished table comes back, and everything else says what it is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradscore.errors import TableError
from gradscore.records import SilentReporter, SourceRecord
from gradscore.table.parts import PartWriter
from gradscore.table.read import read_table
from gradscore.table.run import RunFolder
from tests.table.rows import IDENTITY, scored, write_table


def write_shard(folder: Path, shard: str, indices: list[int], **identity: Any) -> Path:
    full = {**IDENTITY, **identity, "data": {"shard": shard}}
    output = folder / f"shard-{shard.replace('/', '-of-')}.parquet"
    return write_table(output, [scored(i) for i in indices], shard=shard, identity=full)


def test_values_metadata_and_source_come_back(tmp_path: Path) -> None:
    path = write_table(tmp_path / "scores.parquet", [scored(0, category="a"), scored(1, status="too_long")])
    table = read_table(path)
    assert len(table) == 2
    np.testing.assert_array_equal(table.numbers("gsnr"), [1.0, np.nan])
    assert table.numbers("n_tokens").tolist() == [12.0, 12.0]
    assert table.texts("category").tolist() == ["a", None]
    assert table.metadata["noise_floor"] == 0.5
    assert table.source == SourceRecord("/data/rows.jsonl", "jsonl", ("instruction", "output"), 5)
    assert "gsnr" in table.numeric_columns
    assert not {"status", "truncated", "layer_norms"} & set(table.numeric_columns)


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    path = write_table(tmp_path / "scores.parquet", [scored(0)])
    assert read_table(path, ["gsnr", "row_key"]).arrow.column_names == ["gsnr", "row_key"]
    scalars = read_table(path, lists=False)
    assert not {"layer_norms", "sketch"} & set(scalars.arrow.column_names)
    assert "layer_norms" in scalars.schema.names
    with pytest.raises(TableError, match=r"has no column gsnrr; it has: row_index, row_key"):
        read_table(path, ["gsnrr"])


def test_what_is_no_table_says_so(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no score table at .*absent\.parquet"):
        read_table(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(TableError, match=r"is not a Parquet file"):
        read_table(tmp_path / "text.parquet")
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(TableError, match=r"is not a Parquet file"):
        read_table(tmp_path / "empty.parquet")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "other.parquet")
    with pytest.raises(TableError, match=r"not a gradscore table; it has the columns: a, b"):
        read_table(tmp_path / "other.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TableError, match=r"holds no score table"):
        read_table(tmp_path / "folder")


@pytest.mark.parametrize("column", ["row_index", "row_key", "side", "status"])
def test_a_table_that_lost_what_rows_are_told_apart_by_is_refused(tmp_path: Path, column: str) -> None:
    """`report` and `compare` ended in a KeyError."""
    path = write_table(tmp_path / "scores.parquet", [scored(0)])
    table = pq.read_table(path)
    pq.write_table(table.drop_columns([column]), path)
    with pytest.raises(
        TableError, match=rf"lacks {column}, by which its rows are told apart; it has the columns: "
    ):
        read_table(path)


def test_a_truncated_file_says_so(tmp_path: Path) -> None:
    path = write_table(tmp_path / "scores.parquet", [scored(index) for index in range(50)])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TableError, match=r"is cut short or damaged \(\d+ bytes\)"):
        read_table(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "scores.parquet", [scored(0)])
    table = pq.read_table(path)
    footer = {**json.loads(table.schema.metadata[b"gradscore"]), "format_version": 99}
    pq.write_table(table.replace_schema_metadata({"gradscore": json.dumps(footer)}), path)
    with pytest.raises(TableError, match=r"table format 99; this release reads up to 1\. Install a newer"):
        read_table(path)


@pytest.mark.parametrize("name", ["scores.parquet", "scores"])
def test_an_unfinished_run_says_how_to_finish(tmp_path: Path, name: str) -> None:
    run = RunFolder.open(tmp_path / name, IDENTITY, config_mapping={})
    writer = PartWriter(run, SilentReporter())
    writer.add([scored(0)])
    writer.flush()
    with pytest.raises(TableError, match=r"is not finished: its rows so far are in .*scores\.run.* again"):
        read_table(tmp_path / name)


def test_a_folder_without_its_manifest_or_a_file_is_not_finished(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "scores", [scored(0)])
    manifest = (folder / "_manifest.json").read_text()
    (folder / "_manifest.json").unlink()
    with pytest.raises(TableError, match=r"_manifest\.json is missing"):
        read_table(folder)
    (folder / "_manifest.json").write_text(manifest.replace('"rows": 1', '"rows": 2'))
    with pytest.raises(TableError, match=r"holds 1 rows, _manifest\.json says 2"):
        read_table(folder)
    (folder / "_manifest.json").write_text("{}")
    with pytest.raises(TableError, match="is not the manifest of a score table"):
        read_table(folder)
    (folder / "_manifest.json").write_text(manifest)
    (folder / "part-00000.parquet").unlink()
    with pytest.raises(
        TableError, match=r"part-00000\.parquet is listed in _manifest\.json but is not there"
    ):
        read_table(folder)


def test_the_shards_of_one_run_read_as_one_table(tmp_path: Path) -> None:
    write_shard(tmp_path, "0/2", [0, 2, 4])
    write_shard(tmp_path, "1/2", [1, 3])
    table = read_table(tmp_path)
    assert table.arrow["row_index"].to_pylist() == [0, 1, 2, 3, 4]
    assert read_table(tmp_path, ["gsnr"]).numbers("gsnr").tolist() == table.numbers("gsnr").tolist()


def test_shards_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_shard(tmp_path, "0/3", [0])
    write_shard(tmp_path, "2/3", [2])
    with pytest.raises(TableError, match=r"holds 0/3, 2/3 and lacks 1/3"):
        read_table(tmp_path)
    other = write_shard(tmp_path, "1/3", [1], seed=7)
    with pytest.raises(
        TableError, match=r"come from different runs:\n  - seed: \(absent\) in the first, 7 in the second"
    ):
        read_table(tmp_path)
    other.unlink()
    double = write_shard(tmp_path, "1/3", [1]).rename(tmp_path / "again.parquet")
    write_shard(tmp_path, "1/3", [1])
    with pytest.raises(TableError, match=r"are both shard 1/3"):
        read_table(tmp_path)
    double.unlink()
    (tmp_path / "shard-1-of-3.parquet").unlink()
    write_shard(tmp_path, "1/3", [2])
    with pytest.raises(TableError, match=r"1 rows are in more than one shard"):
        read_table(tmp_path)
