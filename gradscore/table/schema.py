"""The columns of the score table: type, meaning, unit, direction and range of each, in one place.

The dictionary travels in the footer of every table, so a reader never has to guess what a number means
or which direction is better. Measures that were asked for (`gradscore.measures`) stand before the list columns.
Scores are float64; the list columns, most of a table's bytes, are float32 (`layer_norms`, `view_layer_norms`) and
float16 (`sketch`). A missing score is null, never NaN and never 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from gradscore.measures import MEASURES
from gradscore.records import ScoredRow

FORMAT_VERSION = 1
METADATA_KEY = b"gradscore"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the score table, described for its reader."""

    name: str
    arrow_type: pa.DataType
    meaning: str
    unit: str
    """Unit of a value, empty where there is none."""
    direction: str
    """What a high value says, empty where high and low do not differ in worth."""
    range: str
    """Values that can occur."""
    nullable: bool = True
    better: Literal["high", "low", ""] = ""
    """Which values should speak for a sound row; empty where the column does not claim to say. `validate` tests it."""


_NORM = "L2 norm over all counted parameters"
_HARD = "high: the model finds the answer hard"
_STEEP = "high: the row would move the model much"
_CLEAR = "high: the views agree on where the row pulls the model"

COLUMNS: tuple[Column, ...] = (
    Column("row_index", pa.int64(), "position in the source", "rows", "", ">= 0", False),
    Column(
        "row_key",
        pa.string(),
        "128-bit hash of the row's content; equal content has equal key",
        "",
        "",
        "32 hex digits",
        False,
    ),
    Column("source", pa.string(), "dataset that the row comes from", "", "", "path or Hub name", False),
    Column("category", pa.string(), "value of the category column", "", "", "text; null when none was named"),
    Column(
        "side",
        pa.string(),
        "which answer of a preference pair",
        "",
        "",
        "chosen, rejected; null when not a pair",
    ),
    Column(
        "status",
        pa.string(),
        "ok, or why the row has no score",
        "",
        "",
        "ok, no_target_tokens, too_long, non_finite, invalid: REASON",
        False,
    ),
    Column(
        "n_tokens", pa.int64(), "tokens that the model saw, after truncation", "tokens", "", ">= 0", False
    ),
    Column("n_target_tokens", pa.int64(), "tokens that entered the loss", "tokens", "", ">= 0", False),
    Column("truncated", pa.bool_(), "the row was longer than the limit and lost a part", "", "", "", False),
    Column("n_views", pa.int64(), "views that the scores rest on, per member", "views", "", ">= 0", False),
    Column(
        "loss", pa.float64(), "loss, mean over views", "nats per target token", _HARD, ">= 0", better="low"
    ),
    Column(
        "loss_first",
        pa.float64(),
        "loss under the oldest view",
        "nats per target token",
        _HARD,
        ">= 0",
        better="low",
    ),
    Column(
        "loss_last",
        pa.float64(),
        "loss under the newest view",
        "nats per target token",
        _HARD,
        ">= 0",
        better="low",
    ),
    Column(
        "grad_norm",
        pa.float64(),
        f"gradient norm, mean over views; {_NORM}",
        "norm",
        _STEEP,
        ">= 0",
        better="low",
    ),
    Column(
        "grad_norm_first",
        pa.float64(),
        f"gradient norm under the oldest view; {_NORM}",
        "norm",
        _STEEP,
        ">= 0",
        better="low",
    ),
    Column(
        "grad_norm_last",
        pa.float64(),
        f"gradient norm under the newest view; {_NORM}",
        "norm",
        _STEEP,
        ">= 0",
        better="low",
    ),
    Column(
        "gsnr",
        pa.float64(),
        "norm of the mean gradient over views / root of the variance between views; "
        "pure noise reads the noise floor, not 0",
        "ratio",
        _CLEAR,
        ">= 0; null with fewer than two views",
        better="high",
    ),
    Column(
        "gsnr_unbiased",
        pa.float64(),
        "gsnr with the noise's own share taken out of the mean; 0 for pure noise",
        "ratio",
        _CLEAR,
        ">= 0; null with fewer than two views",
        better="high",
    ),
    Column(
        "gsnr_se",
        pa.float64(),
        "standard error of gsnr, jackknife over views",
        "ratio",
        "high: gsnr is uncertain",
        ">= 0; null with fewer than three views",
    ),
    Column(
        "gsnr_spread",
        pa.float64(),
        "standard deviation of gsnr between members",
        "ratio",
        "high: the members disagree",
        ">= 0; null with one member",
    ),
    Column(
        "layer_norms",
        pa.list_(pa.float32()),
        "gradient norm of each counted group, mean over views; names are in the metadata",
        "norm",
        "",
        ">= 0",
    ),
    Column(
        "view_layer_norms",
        pa.list_(pa.float32()),
        "gradient norm of each counted group under each view, mean over members; all groups of the oldest view first",
        "norm",
        "",
        ">= 0; null but for a sample of at most 1,000 rows",
    ),
    Column("sketch", pa.list_(pa.float16()), "random sketch of the mean gradient", "", "", ""),
)


def table_columns(measures: Sequence[str] = (), derived: Sequence[Column] = ()) -> tuple[Column, ...]:
    """Return the columns of a table with these measures: the optional ones stand before the list columns.

    Args:
        measures: names of the optional measures.
        derived: columns that are computed while the table is written, after the measures.
    """
    optional = tuple(
        Column(m.name, pa.float64(), m.meaning, m.unit, m.direction, m.range, better=m.better)
        for m in (MEASURES[name] for name in measures)
    )
    scalars = tuple(column for column in COLUMNS if not pa.types.is_list(column.arrow_type))
    return (*scalars, *optional, *derived, *COLUMNS[len(scalars) :])


def table_schema(measures: Sequence[str] = (), derived: Sequence[Column] = ()) -> pa.Schema:
    """Return the Arrow schema of a table with these measures and derived columns."""
    columns = table_columns(measures, derived)
    return pa.schema([pa.field(column.name, column.arrow_type, column.nullable) for column in columns])


SCHEMA = table_schema()
"""Of a table without optional columns."""


def column_dictionary(measures: Sequence[str] = (), derived: Sequence[Column] = ()) -> list[dict[str, str]]:
    """Return the description of every column as plain values, for the table's footer."""
    return [
        {
            "name": column.name,
            "type": str(column.arrow_type),
            "meaning": column.meaning,
            "unit": column.unit,
            "direction": column.direction,
            "better": column.better,
            "range": column.range,
        }
        for column in table_columns(measures, derived)
    ]


def to_arrow(rows: Sequence[ScoredRow], measures: Sequence[str] = ()) -> pa.Table:
    """Return the rows as an Arrow table with the score table's schema, in the order given.

    Args:
        rows: a measure that a row does not have is null.
        measures: the optional columns.

    Raises:
        ValueError: a score is NaN or infinite. Rows whose gradient is not finite carry a status and no
            score, so this is a mistake in the code that made the row.
    """
    arrays = []
    for column in table_columns(measures):
        if column.name in measures:
            values = [row.measures.get(column.name) for row in rows]
        else:
            values = [getattr(row, column.name) for row in rows]
        if pa.types.is_floating(column.arrow_type):
            _require_finite(column.name, rows, values)
        if pa.types.is_list(column.arrow_type):
            arrays.append(_list_array(column, rows, values))
        else:
            arrays.append(pa.array(values, column.arrow_type))
    return pa.Table.from_arrays(arrays, schema=table_schema(measures))


def _require_finite(name: str, rows: Sequence[ScoredRow], values: list[float | None]) -> None:
    for row, value in zip(rows, values, strict=True):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"Row {row.row_index}: {name} is {value}; a missing score must be None.")


def _list_array(column: Column, rows: Sequence[ScoredRow], values: list[Any]) -> pa.Array:
    """Return a list column through one flat numpy array, which is many times faster than nested objects."""
    number = column.arrow_type.value_type.to_pandas_dtype()
    lengths = [0 if value is None else len(value) for value in values]
    with np.errstate(over="ignore"):  # an overflow to infinity is refused just below
        parts = [np.asarray(value, dtype=number) for value in values if value is not None]
    for row, part in zip((r for r, v in zip(rows, values, strict=True) if v is not None), parts, strict=True):
        if not np.isfinite(part).all():
            raise ValueError(f"Row {row.row_index}: {column.name} is not finite as {np.dtype(number).name}.")
    flat = np.concatenate(parts) if parts else np.empty(0, dtype=number)
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
    absent = np.array([value is None for value in values], dtype=bool)
    return pa.ListArray.from_arrays(
        pa.array(ends), pa.array(flat, column.arrow_type.value_type), column.arrow_type, mask=pa.array(absent)
    )


assert [column.name for column in COLUMNS] == [f.name for f in fields(ScoredRow) if f.name != "measures"]
