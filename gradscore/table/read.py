"""A finished score table, read and checked: one file, a folder of parts, or a folder of shards' tables.

The metadata of any table file can be had without this package:

    json.loads(pyarrow.parquet.read_schema(path).metadata[b"gradscore"])
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.records import SourceRecord
from gradscore.table.run import MANIFEST, identity_differences, run_folder_path
from gradscore.table.schema import FORMAT_VERSION, METADATA_KEY

IDENTITY_COLUMNS = ("row_index", "row_key", "side", "status")
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class ScoreTable:
    """A finished score table, sorted by (row_index, side)."""

    path: Path
    arrow: pa.Table
    """The columns that were read."""
    schema: pa.Schema
    """All columns that the table has on disk."""
    metadata: Mapping[str, Any]

    def __len__(self) -> int:
        return self.arrow.num_rows

    @property
    def source(self) -> SourceRecord:
        """The dataset that was scored."""
        fields = dict(self.metadata["source"])
        return SourceRecord(**{**fields, "columns": tuple(fields["columns"])})

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Names of the columns that hold one number per row."""
        return tuple(field.name for field in self.schema if _is_numeric(field.type))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a numeric column as float64, NaN where the table has null."""
        column = self.arrow[name].cast(pa.float64())
        return np.asarray(pc.fill_null(column, float("nan")).to_numpy(), dtype=np.float64)

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a text column as an array of str, None where the table has null."""
        return np.asarray(self.arrow[name].to_numpy(), dtype=object)


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, lists: bool = True) -> ScoreTable:
    """Return the finished score table at `path`.

    Args:
        path: a `.parquet` file, a folder table, or a folder that holds the finished tables of all shards.
        columns: only these columns; None reads all.
        lists: False leaves out list columns, which are most of a table's bytes.

    Raises:
        TableError: nothing is there, the run is not finished, a file is damaged or is no score table, shards
            are missing or belong to different runs, or a column does not exist.
    """
    path = Path(path).expanduser()
    files = table_files(path)
    schemas = [_read_schema(file) for file in files]
    metadata = [_read_metadata(file, schema) for file, schema in zip(files, schemas, strict=True)]
    if path.is_dir() and not (path / MANIFEST).is_file():
        _check_shards(path, files, metadata)
    names = _choose_columns(path, schemas[0], columns, lists)
    try:
        arrow = pa.concat_tables([_read_columns(file, names) for file in files])
    except pa.ArrowInvalid as error:
        raise TableError(
            f"The score table {path} is damaged: {error}. Copy it again, or score again."
        ) from error
    if len(files) > 1 and not (path / MANIFEST).is_file():
        arrow = _sort_rows(path, files, arrow)
    return ScoreTable(path=path, arrow=arrow, schema=schemas[0].remove_metadata(), metadata=metadata[0])


def table_files(path: Path) -> list[Path]:
    """Return the files of a table: itself, what a manifest lists, or every Parquet file of a shard folder."""
    if path.is_file():
        return [path]
    if not path.exists():
        if run_folder_path(path).is_dir():
            raise TableError(_unfinished(path, f"its rows so far are in {run_folder_path(path)}"))
        raise TableError(
            f"There is no score table at {path}. Check the path, or run `gradscore score` first."
        )
    manifest = path / MANIFEST
    if manifest.is_file():
        return _listed_files(path, manifest)
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise TableError(f"The folder {path} holds no score table (no .parquet file). Check the path.")
    return files


def _listed_files(path: Path, manifest: Path) -> list[Path]:
    try:
        listed = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        files = [path / entry["name"] for entry in listed]
        counts = [int(entry["rows"]) for entry in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{manifest} is not the manifest of a score table ({error!r}). Copy the folder again, or score again."
        ) from error
    for file, expected in zip(files, counts, strict=True):
        if not file.is_file():
            raise TableError(
                f"{file} is listed in {MANIFEST} but is not there. Copy the folder again, or score again."
            )
        found = _open(file, lambda name: pq.read_metadata(name).num_rows)
        if found != expected:
            raise TableError(
                f"{file} holds {found} rows, {MANIFEST} says {expected}. Copy the folder again, or score again."
            )
    return files


def _unfinished(path: Path, found: str) -> str:
    return (
        f"The run that writes {path} is not finished: {found}. "
        "Give the same `gradscore score` command again; it continues where it stopped."
    )


def _open(file: Path, reader: Any) -> Any:
    """Return `reader(file)`; a file that is not whole Parquet is told apart by its first and last bytes."""
    try:
        return reader(file)
    except pa.ArrowInvalid as error:
        with file.open("rb") as stream:
            is_parquet = stream.read(4) == _PARQUET_MAGIC
        if is_parquet:
            raise TableError(
                f"The score table {file} is cut short or damaged ({file.stat().st_size} bytes). "
                "Copy it again, or score again."
            ) from error
        raise TableError(
            f"{file} is not a Parquet file. Give the table that `gradscore score` wrote."
        ) from error
    except OSError as error:
        raise TableError(
            f"The score table {file} cannot be read: {error.strerror or error}. Check the file and its rights."
        ) from error


def _read_schema(file: Path) -> pa.Schema:
    return _open(file, pq.read_schema)


def _read_metadata(file: Path, schema: pa.Schema) -> dict[str, Any]:
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        raise TableError(
            f"{file} is Parquet but not a gradscore table; it has the columns: {', '.join(schema.names)}. "
            "Give the table that `gradscore score` wrote."
        )
    missing = [name for name in IDENTITY_COLUMNS if name not in schema.names]
    if missing:
        raise TableError(
            f"{file} lacks {', '.join(missing)}, by which its rows are told apart; it has the columns: {', '.join(schema.names)}. "
            "Give the table as `gradscore score` wrote it."
        )
    metadata: dict[str, Any] = json.loads(text)
    if metadata["format_version"] > FORMAT_VERSION:
        raise TableError(
            f"{file} has table format {metadata['format_version']}; this release reads up to {FORMAT_VERSION}. "
            "Install a newer gradscore."
        )
    return metadata


def _read_columns(file: Path, names: list[str]) -> pa.Table:
    table = _open(file, lambda path: pq.ParquetFile(path).read(columns=names))
    return table.select(names).replace_schema_metadata(None)


def _choose_columns(path: Path, schema: pa.Schema, columns: Sequence[str] | None, lists: bool) -> list[str]:
    names = list(schema.names if columns is None else columns)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise TableError(
            f"The table {path} has no column {', '.join(unknown)}; it has: {', '.join(schema.names)}."
        )
    return [name for name in names if lists or not pa.types.is_list(schema.field(name).type)]


def _check_shards(path: Path, files: Sequence[Path], metadata: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless the files are the tables of all shards 0/n .. n-1/n of one run, each once."""
    by_shard: dict[str, Path] = {}
    for file, content in zip(files, metadata, strict=True):
        shard = content.get("shard")
        if shard is None:
            raise TableError(
                _unfinished(path, f"{MANIFEST} is missing, and {file.name} is not a shard's table")
            )
        if shard in by_shard:
            raise TableError(
                f"{file} and {by_shard[shard]} are both shard {shard}. Remove one of them from {path}."
            )
        by_shard[shard] = file
    n = max(int(shard.split("/")[1]) for shard in by_shard)
    missing = [f"{i}/{n}" for i in range(n) if f"{i}/{n}" not in by_shard]
    if missing or len(by_shard) != n:
        raise TableError(
            f"{path} must hold the tables of {n} shards; it holds {', '.join(sorted(by_shard))}"
            + (f" and lacks {', '.join(missing)}" if missing else "")
            + ". Score the missing shards, and put one table per shard into the folder."
        )
    first = _shared_identity(metadata[0]["identity"])
    for file, content in zip(files[1:], metadata[1:], strict=True):
        differences = identity_differences(
            first, _shared_identity(content["identity"]), names=("in the first", "in the second")
        )
        if differences:
            raise TableError(
                f"{files[0].name} and {file.name} in {path} come from different runs:\n"
                + "\n".join(f"  - {line}" for line in differences)
                + "\nScore all shards with the same settings and data."
            )


def _shared_identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without the shard's own number, wherever it stands."""
    return {
        key: _shared_identity(value) if isinstance(value, Mapping) else value
        for key, value in identity.items()
        if key != "shard"
    }


def _sort_rows(path: Path, files: Sequence[Path], arrow: pa.Table) -> pa.Table:
    """Return a shard folder's rows in table order, after checking that no row is in two shards."""
    ids = pa.concat_tables([_read_columns(file, ["row_index", "side"]) for file in files])
    distinct = ids.group_by(["row_index", "side"]).aggregate([]).num_rows
    if distinct != ids.num_rows:
        raise TableError(
            f"{ids.num_rows - distinct} rows are in more than one shard of {path}. Score the shards again."
        )
    return arrow.take(pc.sort_indices(ids, sort_keys=[("row_index", "ascending"), ("side", "ascending")]))


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)
