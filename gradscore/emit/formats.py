"""Write rows in the format that the output's suffix names, same columns and same order.

JSON Lines and JSON stream. Parquet keeps the Arrow types of a Parquet source by filtering its record
batches; from any other source it is built from the values. CSV and such a Parquet file need to know every
column before the first row is written, so the kept rows are held as Arrow, about the size of the data.
"""

import csv
import datetime
import decimal
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gradscore.emit.outputs import Outputs
from gradscore.errors import DatasetError
from gradscore.records import Row

ROWS_PER_BATCH = 10_000
DELIMITERS = {"csv": ",", "tsv": "\t"}


def write_json_lines(rows: Iterable[Row], path: Path, *, is_gzipped: bool) -> None:
    """Write one row per line; rows of a JSON Lines source are written byte for byte."""
    with open_bytes(path, is_gzipped=is_gzipped) as stream:
        for row in rows:
            stream.write(row.raw if row.raw is not None else to_json(row))
            stream.write(b"\n")


def write_json_array(rows: Iterable[Row], path: Path, *, is_gzipped: bool) -> None:
    """Write one JSON array, a row per line."""
    with open_bytes(path, is_gzipped=is_gzipped) as stream:
        stream.write(b"[")
        for number, row in enumerate(rows):
            stream.write(b",\n" if number else b"\n")
            stream.write(to_json(row))
        stream.write(b"\n]\n")


def write_delimited(
    rows: Iterable[Row], path: Path, outputs: Outputs, columns: Sequence[str]
) -> tuple[str, ...]:
    """Write a header and one record per row, and return the columns whose nested values became JSON text."""
    nested: set[str] = set()
    batches = []
    for batch in _batches(rows):
        names = _column_names(columns, batch)
        texts = {name: [_cell(row, name, nested) for row in batch] for name in names}
        batches.append(_table(texts, pa.string()))
    table = pa.concat_tables(batches, promote_options="default")
    with (
        open_bytes(path, is_gzipped=outputs.is_gzipped) as stream,
        io.TextIOWrapper(stream, encoding="utf-8", newline="") as text,
    ):
        writer = csv.writer(_LineFeeds(text), delimiter=DELIMITERS[outputs.format], lineterminator="\r\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=ROWS_PER_BATCH):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return tuple(name for name in table.column_names if name in nested)


def write_parquet(rows: Iterable[Row], path: Path, columns: Sequence[str]) -> None:
    """Write rows of a source without Arrow types as Parquet; types are taken from the values.

    Raises:
        DatasetError: a column holds values of different kinds.
    """
    batches = []
    for batch in _batches(rows):
        names = _column_names(columns, batch)
        batches.append(_table({name: [row.content.get(name) for row in batch] for name in names}))
    try:
        table = pa.concat_tables(batches, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DatasetError(
            f"The kept rows do not fit into one Parquet schema: {error}. Write .jsonl instead."
        ) from error
    pq.write_table(table, path, compression="zstd")


def filter_parquet(source: Path, path: Path, keep: NDArray[np.bool_]) -> None:
    """Write the rows of a Parquet file for which `keep` is True, with the file's own schema and metadata."""
    start = 0
    with (
        pq.ParquetFile(source) as file,
        pq.ParquetWriter(path, file.schema_arrow, compression="zstd") as writer,
    ):
        for batch in file.iter_batches():
            kept = batch.filter(pa.array(keep[start : start + batch.num_rows]))
            start += batch.num_rows
            if kept.num_rows:
                writer.write_batch(kept)


@dataclass(frozen=True, slots=True)
class _LineFeeds:
    """Ends records with a line feed alone.

    Before Python 3.13 the csv writer quotes a carriage return inside a field only if the line end has one.
    """

    stream: TextIO

    def write(self, record: str) -> None:
        self.stream.write(record.removesuffix("\r\n") + "\n")


@contextmanager
def open_bytes(path: Path, *, is_gzipped: bool) -> Iterator[BinaryIO]:
    """Yield a binary stream; gzip output has no name and time in it, so equal rows give equal bytes."""
    with path.open("wb") as stream:
        if not is_gzipped:
            yield stream
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # typeshed: GzipFile is no BinaryIO, but behaves as one


def to_json(row: Row) -> bytes:
    """Return a row's content as one line of JSON.

    Raises:
        DatasetError: a value has no JSON form.
    """
    return _encode(row, row.content)


def _encode(row: Row, value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise DatasetError(
            f"Row {row.row_index} holds a value that JSON text cannot carry ({error}). Write .parquet instead."
        ) from error
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate: UTF-8 has no form for it, an escape has
        return json.dumps(value, allow_nan=False, default=_plain).encode("ascii")


def _plain(value: Any) -> Any:
    """Return a value that only Arrow formats know as JSON knows it."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"it is of type {type(value).__name__}")


def _cell(row: Row, name: str, nested: set[str]) -> str | None:
    """Return one CSV field; columns with nested values are noted in `nested`."""
    value = row.content.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (Mapping, list, tuple, np.ndarray)):
        nested.add(name)
    if isinstance(value, float):
        return repr(value)  # unlike JSON, CSV has words for NaN and infinity
    text = _encode(row, value).decode("utf-8")
    return json.loads(text) if text.startswith('"') else text  # a date is text without quotes


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows in batches; no rows are one empty batch, so that the columns are still written."""
    iterator = iter(rows)
    yield list(islice(iterator, ROWS_PER_BATCH))
    while batch := list(islice(iterator, ROWS_PER_BATCH)):
        yield batch


def _column_names(columns: Sequence[str], batch: Sequence[Row]) -> list[str]:
    """Return the source's columns, and after them those that only some rows of the batch have."""
    return list(dict.fromkeys([*columns, *(name for row in batch for name in row.content)]))


def _table(columns: Mapping[str, list[Any]], kind: pa.DataType | None = None) -> pa.Table:
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError, OverflowError) as error:
            raise DatasetError(
                f"Column {name!r} holds values that one column of this format cannot carry ({error}). "
                "Write .jsonl instead."
            ) from error
    return pa.table(arrays)
