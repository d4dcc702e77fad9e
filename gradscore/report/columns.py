"""Which columns of a table are scores, and what the table's own dictionary says about each.

Everything else in this folder asks here, so a measure that is added to the table comes by itself.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gradscore.table.read import ScoreTable

LENGTH = "n_target_tokens"
LEADING = ("gsnr", "loss", "grad_norm")
"""Shown first, in this order."""
DETAILS = ("_first", "_last", "_se", "_spread")
"""Endings of columns that stand beside another one; they are shown after the others."""


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One score of a table, in the words of the table's footer."""

    name: str
    meaning: str
    unit: str
    direction: str
    """What a high value says; empty where the dictionary does not say."""

    @property
    def is_detail(self) -> bool:
        """Whether the column stands beside another one, as `loss_first` does."""
        return self.name.endswith(DETAILS)


def score_columns(table: ScoreTable) -> list[ScoreColumn]:
    """Return the floating-point columns that hold at least two different values, the leading ones first."""
    entries = {entry["name"]: entry for entry in table.metadata.get("columns", [])}
    found = []
    for field in table.schema:
        if not pa.types.is_floating(field.type):
            continue
        values = table.numbers(field.name)
        if len(np.unique(values[np.isfinite(values)])) > 1:
            entry = entries.get(field.name, {})
            texts = (entry.get(key, "") for key in ("meaning", "unit", "direction"))
            found.append(ScoreColumn(field.name, *texts))
    return sorted(found, key=_place)


def _place(column: ScoreColumn) -> tuple[bool, int]:
    """Order the leading columns first and the details last; the sort is stable for all others."""
    place = LEADING.index(column.name) if column.name in LEADING else len(LEADING)
    return column.is_detail, place
