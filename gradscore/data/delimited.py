"""Read CSV and TSV, record by record: quotes, line ends inside quotes, and every field as text."""

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from gradscore.data.raw_row import RawRow
from gradscore.data.text_files import open_bytes
from gradscore.errors import DatasetError

DELIMITERS = {"csv": ",", "tsv": "\t"}


def read_delimited(path: Path, delimiter: str) -> Iterator[RawRow]:
    """Yield the rows under the header line; blank lines are no rows, an empty field is empty text.

    A record with another number of fields than the header, or with broken quotes, is a row with a problem.

    Raises:
        DatasetError: the header has unnamed or repeated columns.
    """
    # The process-wide limit of 128 KiB per field would refuse a long text; it is only ever raised.
    csv.field_size_limit(sys.maxsize)
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
        records = csv.reader(text, delimiter=delimiter, strict=True)
        header = _read_header(path, records)
        if header is None:
            return
        while True:
            line = records.line_num + 1
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                yield RawRow(None, f"line {line}: broken record ({error})", f"line {line}".encode())
                continue
            if fields:
                yield _to_row(header, fields, line)


def _read_header(path: Path, records: Iterator[list[str]]) -> list[str] | None:
    try:
        header = next((fields for fields in records if fields), None)
    except csv.Error as error:
        raise DatasetError(f"{path} has a broken header line: {error}. Repair its first line.") from error
    if header is not None and ("" in header or len(set(header)) < len(header)):
        raise DatasetError(
            f"{path} needs a first line that names every column once; it is: {header}. "
            "Add or repair the header line."
        )
    return header


def _to_row(header: list[str], fields: list[str], line: int) -> RawRow:
    raw = "\x1f".join(fields).encode("utf-8", "surrogateescape")
    if len(fields) != len(header):
        return RawRow(None, f"line {line}: {len(fields)} fields, but the header has {len(header)}", raw)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return RawRow(None, f"line {line}: not UTF-8 ({error.reason})", raw)
    return RawRow(dict(zip(header, fields, strict=True)))
