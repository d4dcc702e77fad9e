"""How far each row pulls where the data as a whole pulls: filled in when the table is joined, from the sketches.

With s_i the sketch of row i's mean gradient and S the sum over the N rows that have one,

    alignment_i = cos(s_i, (S - s_i) / (N - 1))

The row itself is left out of the mean: a row with a large gradient would else agree with itself. Within categories
the same over the rows of the row's own category. A sketch of `size` numbers gives a cosine with standard error of
about 1 / sqrt(size). Rows stay independent of each other until here; sums are taken in float64, in two passes over
the buckets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROWS_AT_A_TIME = 4096
OVERALL, BY_CATEGORY = "alignment", "alignment_category"

Numbers = NDArray[np.float64]


@dataclass
class _Sum:
    total: Numbers
    count: int = 0


@dataclass(frozen=True)
class Alignment:
    """Sums of the sketches of a table, overall and by category, and the columns that follow from them."""

    names: tuple[str, ...]
    """The columns that are wanted; none where nothing is to be filled in."""
    _sums: dict[str | None, _Sum] = field(default_factory=dict)
    """By category; None is the sum over all rows."""

    @classmethod
    def of(cls, tables: Iterable[pa.Table], measures: Sequence[str]) -> "Alignment":
        """Return the sums over all tables; they are not looked at if no column needs them."""
        alignment = cls(tuple(name for name in (OVERALL, BY_CATEGORY) if name in measures))
        if alignment.names:
            for table in tables:
                for sketches, categories, _ in _pieces(table):
                    alignment._add(sketches, categories)
        return alignment

    def fill(self, table: pa.Table) -> pa.Table:
        """Return the table with its alignment columns; null where a row has no sketch, or there is no other row."""
        columns = {name: np.full(table.num_rows, np.nan) for name in self.names}
        for sketches, categories, places in _pieces(table) if self.names else ():
            for name, column in columns.items():
                column[places] = self._cosines(sketches, categories if name == BY_CATEGORY else None)
        for name, column in columns.items():
            table = table.set_column(
                table.schema.get_field_index(name), name, pa.array(column, pa.float64(), from_pandas=True)
            )
        return table

    def _add(self, sketches: Numbers, categories: list[str | None]) -> None:
        self._add_to(None, sketches)
        for category in {c for c in categories if c is not None} if BY_CATEGORY in self.names else ():
            self._add_to(category, sketches[[c == category for c in categories]])

    def _add_to(self, key: str | None, sketches: Numbers) -> None:
        found = self._sums.setdefault(key, _Sum(np.zeros(sketches.shape[1])))
        found.total += sketches.sum(0)
        found.count += len(sketches)

    def _cosines(self, sketches: Numbers, categories: list[str | None] | None) -> Numbers:
        if categories is None:
            return _left_out(sketches, self._sums[None])
        cosines = np.full(len(sketches), np.nan)
        for category in {c for c in categories if c is not None}:
            rows = [c == category for c in categories]
            cosines[rows] = _left_out(sketches[rows], self._sums[category])
        return cosines


def _left_out(sketches: Numbers, whole: _Sum) -> Numbers:
    """Return the cosine of each sketch with the mean of all others; NaN where one of the two is zero or absent."""
    if whole.count < 2:
        return np.full(len(sketches), np.nan)
    others = whole.total - sketches
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.einsum("ns,ns->n", sketches, others)
            / (np.linalg.norm(sketches, axis=1) * np.linalg.norm(others, axis=1))
        )


def _pieces(table: pa.Table) -> Iterator[tuple[Numbers, list[str | None], NDArray[np.int64]]]:
    """Yield sketches, categories and places of the rows that have a sketch, a few thousand at a time."""
    for start in range(0, table.num_rows, ROWS_AT_A_TIME):
        piece = table.slice(start, ROWS_AT_A_TIME)
        column = piece["sketch"].combine_chunks()
        places = np.flatnonzero(np.asarray(column.is_valid().to_numpy(zero_copy_only=False)))
        if len(places):
            flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
            categories = piece["category"].to_pylist()
            yield flat.reshape(len(places), -1), [categories[i] for i in places], places + start
