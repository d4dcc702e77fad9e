"""Many unsorted parts become one sorted table, in memory for 50,000 rows whatever the table's size.

Batches are made by length, so every part holds rows from all over the dataset. The join is a bucket sort
on disk: each part is read once and dealt into buckets by row index, then each bucket is sorted and
written. It costs one extra write of the uncompressed rows and needs no Python object per row.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.table.alignment import Alignment
from gradscore.table.aside import flush_to_disk, storage_error, written_aside
from gradscore.table.derived import Derived
from gradscore.table.run import MANIFEST
from gradscore.table.schema import FORMAT_VERSION, METADATA_KEY, column_dictionary, table_schema

RowId: TypeAlias = tuple[int, str | None]
Complete: TypeAlias = Callable[[pa.Table], pa.Table]
"""Fills in or appends columns that follow from the others, in a table of some rows."""
SIDES = (None, "chosen", "rejected")
ROWS_PER_BUCKET = 50_000
ROWS_PER_FILE = 250_000
_SAFE = "All scores are safe in the run folder; nothing has to be scored again."


def footer_schema(
    metadata: Mapping[str, Any], measures: Sequence[str] = (), derived: Sequence[Derived] = ()
) -> pa.Schema:
    """Return the table's schema with the footer metadata in it, the column dictionary included.

    Raises:
        ValueError: the metadata is not plain JSON, or holds NaN.
    """
    more = tuple(column for part in derived for column in part.columns)
    content = {"format_version": FORMAT_VERSION, **metadata, "columns": column_dictionary(measures, more)}
    text = json.dumps(content, allow_nan=False)
    return table_schema(measures, more).with_metadata({METADATA_KEY: text.encode()})


def write_table(
    parts: Sequence[Path],
    output: Path,
    run_folder: Path,
    *,
    metadata: Mapping[str, Any],
    wanted: AbstractSet[RowId],
    measures: Sequence[str] = (),
    derived: Sequence[Derived] = (),
) -> None:
    """Write the wanted rows of all parts, sorted by (row_index, side), as a finished table at `output`.

    An output that ends in `.parquet` becomes one file, any other a folder of files with a manifest.

    Raises:
        StorageError: the table cannot be written; parts and an older table are untouched.
    """
    schema = footer_schema(metadata, measures, derived)
    sorting, aside = run_folder / "sorting", run_folder / "finished"
    try:
        for folder in (sorting, aside):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        buckets = _deal(parts, sorting, wanted, table_schema(measures))
        alignment = Alignment.of(map(_sorted_bucket, buckets), measures)
        complete = [alignment.fill, *(part.append_to for part in derived)]
        if output.suffix == ".parquet":
            _write_file(buckets, output, schema, complete, what=f"the score table of {len(wanted)} rows")
        else:
            _write_folder(buckets, aside, schema=schema, complete=complete, n_rows=len(wanted))
            _replace_folder(aside, output, run_folder / "replaced")
    except OSError as error:
        raise storage_error(error, output, what="the finished score table", safe=_SAFE) from error
    finally:
        for folder in (sorting, aside):
            shutil.rmtree(folder, ignore_errors=True)


def _deal(parts: Sequence[Path], folder: Path, wanted: AbstractSet[RowId], schema: pa.Schema) -> list[Path]:
    """Write the wanted rows of all parts into bucket files of ascending, disjoint row-index ranges."""
    codes = np.sort(np.array([index * 3 + SIDES.index(side) for index, side in wanted], dtype=np.int64))
    starts = np.unique(codes[::ROWS_PER_BUCKET] // 3) * 3  # both sides of a pair share a bucket
    paths = [folder / f"bucket-{number:05d}.arrow" for number in range(len(starts))]
    writers = [pa.ipc.new_file(path, schema) for path in paths]
    seen: list[NDArray[np.int64]] = []
    try:
        collected: list[pa.Table] = []
        for position, part in enumerate(parts):
            collected.append(pq.read_table(part, schema=schema))
            is_last = position == len(parts) - 1
            # Small parts are gathered first: one bucket gets few large batches, not many tiny ones.
            if is_last or sum(table.num_rows for table in collected) >= ROWS_PER_BUCKET:
                table = pa.concat_tables(collected)
                found = _row_codes(table)
                seen.append(found)
                bucket = np.where(np.isin(found, codes), np.searchsorted(starts, found, side="right") - 1, -1)
                for number in np.unique(bucket[bucket >= 0]):
                    writers[number].write_table(table.filter(pa.array(bucket == number)))
                collected = []
    finally:
        for writer in writers:
            writer.close()
    n_missing = len(codes) - int(np.isin(codes, np.concatenate(seen) if seen else codes[:0]).sum())
    if n_missing:
        raise TableError(
            f"{n_missing} of {len(codes)} rows are no longer among the parts on disk; was another process working on "
            "this run? Give the same command again, alone: the missing rows are scored then."
        )
    return paths


def _row_codes(table: pa.Table) -> NDArray[np.int64]:
    """Return one number per row that orders rows by (row_index, side)."""
    side = pc.fill_null(pc.add(pc.index_in(table["side"], pa.array(SIDES[1:])), 1), 0)
    return np.asarray(table["row_index"].to_numpy() * 3 + side.to_numpy(), dtype=np.int64)


def _sorted_bucket(path: Path) -> pa.Table:
    """Return a bucket's rows in order; of rows that are there twice, the one written first."""
    with pa.OSFile(str(path), "rb") as file:
        table = pa.ipc.open_file(file).read_all()
    _, order = np.unique(_row_codes(table), return_index=True)
    return table.take(pa.array(order))


def _write_file(
    buckets: Sequence[Path], path: Path, schema: pa.Schema, complete: Sequence[Complete], *, what: str
) -> int:
    """Write sorted buckets as one Parquet file, a row group each, and return the number of rows."""
    n_rows = 0
    with (
        written_aside(path, what=what, safe=_SAFE) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for bucket in buckets:
            table = _sorted_bucket(bucket)
            for step in complete:
                table = step(table)
            writer.write_table(table.select(schema.names).cast(schema))
            n_rows += table.num_rows
    return n_rows


def _write_folder(
    buckets: Sequence[Path], folder: Path, *, schema: pa.Schema, complete: Sequence[Complete], n_rows: int
) -> None:
    """Write sorted buckets as Parquet files of at most 250,000 rows into `folder`, its manifest last."""
    files = []
    step = max(1, ROWS_PER_FILE // ROWS_PER_BUCKET)
    for number, start in enumerate(range(0, max(1, len(buckets)), step)):
        name = f"part-{number:05d}.parquet"
        what = f"part {number} of the score table"
        rows = _write_file(buckets[start : start + step], folder / name, schema, complete, what=what)
        files.append({"name": name, "rows": rows})
    manifest = {"format": "gradscore", "format_version": FORMAT_VERSION, "rows": n_rows, "files": files}
    with written_aside(folder / MANIFEST, what="the manifest", safe=_SAFE) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _replace_folder(new: Path, output: Path, old: Path) -> None:
    """Move `new` to `output`; a folder there is moved to `old` first and deleted last.

    Unlike a file, a folder with content cannot be replaced in a single step.
    """
    if output.exists():
        shutil.rmtree(old, ignore_errors=True)
        output.rename(old)
    new.rename(output)
    flush_to_disk(output.parent)
    shutil.rmtree(old, ignore_errors=True)
