"""Open a dataset of any supported format, and read the rows that are asked for, in source order.

`row_index` counts rows from 0: blank lines are no rows, but a row that cannot be read is one, so an index
means the same with and without --skip-bad-rows. Only a JSON array is held in memory; every other format
streams, and every call of `rows` is a fresh pass.
"""

import difflib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from gradscore.config import DataConfig
from gradscore.data import arrow
from gradscore.data.delimited import DELIMITERS, read_delimited
from gradscore.data.fields import MISSING, is_null, look_up, to_text
from gradscore.data.json_array import json_layout, load_json_array, read_json_array
from gradscore.data.json_lines import count_json_lines, read_json_lines
from gradscore.data.keys import bytes_key, row_key
from gradscore.data.raw_row import RawRow
from gradscore.data.select import choose
from gradscore.errors import DatasetError
from gradscore.records import Row, SourceRecord

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
}
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class RowSource:
    """An open dataset: its record, and its rows as often as they are asked for."""

    record: SourceRecord
    raw_rows: Callable[[], Iterator[RawRow]]
    """Starts a pass over the rows as the format's reader gives them."""
    skip_bad_rows: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield every row of the source, from the first.

        Raises:
            DatasetError: a row cannot be read and bad rows are not skipped, or the file is cut off.
        """
        try:
            for index, raw_row in enumerate(self.raw_rows()):
                yield self._to_row(index, raw_row)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.record.dataset, error) from error

    def _to_row(self, index: int, raw_row: RawRow) -> Row:
        raw = raw_row.raw if self.record.format == "jsonl" else None
        if raw_row.content is not None:
            try:
                return Row(index, row_key(raw_row.content), raw_row.content, raw=raw)
            except RecursionError:
                raw_row = replace(raw_row, problem=f"row {index} is nested too deeply")
        if not self.skip_bad_rows:
            raise DatasetError(
                f"A row of {self.record.dataset} cannot be read: {raw_row.problem}. "
                "Repair it, or pass --skip-bad-rows to record such rows with a status and go on."
            )
        return Row(index, bytes_key(raw_row.raw or b""), {}, problem=raw_row.problem, raw=raw)


def open_source(config: DataConfig) -> RowSource:
    """Return the dataset that `--dataset` names: a local file, a save_to_disk folder, or a Hub name.

    Raises:
        DatasetError: there is no such dataset, it is empty, or it is not what its name says.
    """
    if config.dataset is None:
        raise DatasetError("No dataset was given. Pass --dataset with a file, a folder or a Hub name.")
    path = Path(config.dataset).expanduser()
    try:
        if path.is_dir():
            source = _open_folder(path, config)
        elif path.exists():
            source = _open_file(path.resolve())
        else:
            source = _open_by_name(path, config)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(config.dataset, error) from error
    if source.record.n_rows == 0:
        raise DatasetError(f"{config.dataset} has no rows. Check that it is the file you meant.")
    source = replace(source, skip_bad_rows=config.skip_bad_rows)
    return source if source.record.columns else _with_columns_of_first_row(source)


def read_rows(source: RowSource, config: DataConfig) -> Iterator[Row]:
    """Return the rows that --limit, --sample and --shard choose, with their category, in source order.

    Raises:
        DatasetError: no row of the source has the category field.
    """
    field = config.category_field
    if field is not None and not _has_field(source, field):
        raise DatasetError(
            f"The category field {field!r} is in no row of {source.record.dataset}; its columns are: "
            f"{', '.join(source.record.columns)}. Pass one of them as --category-field, or a dotted path inside one."
        )
    return _read_chosen(source, config)


def _read_chosen(source: RowSource, config: DataConfig) -> Iterator[Row]:
    chosen = choose(source.record.n_rows, config)
    for row in islice(source.rows(), chosen.last + 1):
        if chosen.has(row.row_index):
            yield (
                row
                if config.category_field is None
                else replace(row, category=category_of(row.content, config.category_field))
            )


def category_of(content: Mapping[str, Any], field: str) -> str | None:
    """Return a row's category as text; None where the field is absent, null or empty text."""
    value = look_up(content, field)
    return None if value is MISSING or is_null(value) or value == "" else to_text(value)


def _has_field(source: RowSource, field: str) -> bool:
    # Stops at the first row that has it: nearly always the first row of all.
    return any(look_up(row.content, field) is not MISSING for row in source.rows())


def _open_file(path: Path) -> RowSource:
    name = path.name.removesuffix(".gz")
    format = FORMATS.get(Path(name).suffix.lower())
    if format is None or (format == "parquet" and path.suffix == ".gz"):
        raise DatasetError(
            f"The format of {path} cannot be told from its suffix. Known are: {', '.join(FORMATS)}, and .gz of "
            "the text formats. Rename the file or convert it."
        )
    if format in ("json", "jsonl"):
        format = json_layout(path)
    if format == "parquet":
        file = arrow.open_parquet(path)
        columns = tuple(file.schema_arrow.names)
        return RowSource(
            SourceRecord(str(path), format, columns, file.metadata.num_rows), lambda: arrow.read_parquet(path)
        )
    if format == "json":
        values = load_json_array(path)
        return RowSource(SourceRecord(str(path), format, (), len(values)), lambda: read_json_array(values))
    if format == "jsonl":
        record = SourceRecord(str(path), format, (), count_json_lines(path))
        return RowSource(record, lambda: read_json_lines(path))
    n_rows = sum(1 for _ in read_delimited(path, DELIMITERS[format]))
    record = SourceRecord(str(path), format, (), n_rows)
    return RowSource(record, lambda: read_delimited(path, DELIMITERS[format]))


def _open_folder(folder: Path, config: DataConfig) -> RowSource:
    if arrow.is_saved_dataset(folder):
        dataset = arrow.load_saved(folder, config.split)
        return _from_dataset(dataset, str(folder.resolve()), "saved", config)
    return _load_by_name(str(folder.resolve()), config)


def _open_by_name(path: Path, config: DataConfig) -> RowSource:
    name = str(config.dataset)
    is_file_name = path.name.removesuffix(".gz") != path.stem or path.suffix.lower() in FORMATS
    if is_file_name or not HUB_NAME.fullmatch(name):
        folder = path.parent
        near = (
            difflib.get_close_matches(path.name, [p.name for p in folder.iterdir()])
            if folder.is_dir()
            else []
        )
        found = f"similar names there: {', '.join(near)}" if near else "nothing there has a similar name"
        raise DatasetError(f"There is no file {path}; {found}. Check the path.")
    return _load_by_name(name, config)


def _load_by_name(name: str, config: DataConfig) -> RowSource:
    dataset = arrow.load_by_name(name, subset=config.subset, split=config.split, data_files=config.data_files)
    return _from_dataset(dataset, name, "hub", config)


def _from_dataset(dataset: Any, name: str, format: str, config: DataConfig) -> RowSource:
    record = SourceRecord(
        name,
        format,
        tuple(dataset.column_names),
        dataset.num_rows,
        config.split,
        config.subset,
        config.data_files,
    )
    return RowSource(record, lambda: arrow.read_dataset(dataset))


def _with_columns_of_first_row(source: RowSource) -> RowSource:
    first = next((row for row in source.rows() if row.problem is None), None)
    columns = tuple(first.content) if first else ()
    return replace(source, record=replace(source.record, columns=columns))


def _unreadable(dataset: str, error: Exception) -> DatasetError:
    reason = getattr(error, "strerror", None) or str(error)
    return DatasetError(
        f"{dataset} cannot be read: {reason}. Check that the file is whole and that you may read it."
    )
