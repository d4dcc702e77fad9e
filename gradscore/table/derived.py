"""Columns that are computed from other columns of the finished table, while it is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradscore.table.schema import Column


@dataclass(frozen=True)
class Derived:
    """Columns that a row has because of its other columns, and how they are computed."""

    columns: tuple[Column, ...]
    needs: tuple[str, ...]
    """Numeric columns that they are computed from."""
    compute: Callable[[Mapping[str, NDArray[np.float64]]], Mapping[str, NDArray[np.float64]]]
    """From the needed columns of some rows, NaN where null, to the derived ones; NaN becomes null."""

    def append_to(self, table: pa.Table) -> pa.Table:
        """Return the table with the derived columns at its end."""
        found = self.compute({name: _numbers(table, name) for name in self.needs})
        for column in self.columns:
            values = pa.array(found[column.name], column.arrow_type, from_pandas=True)  # NaN becomes null
            table = table.append_column(pa.field(column.name, column.arrow_type, column.nullable), values)
        return table


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].cast(pa.float64()).to_pandas().to_numpy(dtype=np.float64)
