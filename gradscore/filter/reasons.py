"""Decisions of a filter: kept or dropped, with the reason of every row as a code, and as text on demand.

A million texts cost a second and most are never read, so a decision holds numbers and makes texts for the
rows that are asked for.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gradscore.filter.rules import Labels, Numbers, category_name
from gradscore.filter.thresholds import Threshold


class Code(IntEnum):
    """Why a row is kept or dropped."""

    UNDECIDED = 0
    KEPT = 1
    PROTECTED = 2
    KEPT_NULL = 3
    STATUS = 4
    NULL = 5
    THRESHOLD = 6
    PAST_TOP_K = 7
    NOT_SCORED = 8

    @property
    def is_kept(self) -> bool:
        """Whether rows with this code are kept."""
        return self in _KEPT

    @property
    def label(self) -> str:
        """Name of the code in files and reports."""
        return self.name.lower()


_KEPT = (Code.KEPT, Code.PROTECTED, Code.KEPT_NULL)


@dataclass(frozen=True)
class Decisions:
    """What becomes of each row of a score table, in the table's order; every array has one entry per row."""

    row_index: NDArray[np.int64]
    row_key: Labels
    status: Labels
    category: Labels
    by: str
    """The ranking column."""
    value: Numbers
    """Its value, NaN where there is none."""
    gsnr: Numbers
    code: NDArray[np.int8]
    """A `Code` per row."""
    rank: NDArray[np.int64]
    """1 for the best row; 0 for a row that was not ranked."""
    score: Numbers
    """Ranking score after normalisation, NaN for a row that was not ranked."""
    n_ranked: int
    """Rows that were ranked."""
    top_k: str
    """What the top-k cut was asked to keep; without meaning when no row has the code PAST_TOP_K."""
    thresholds: tuple[Threshold, ...]
    threshold_index: NDArray[np.int8]
    """Which threshold dropped the row, -1 for none."""
    threshold_values: tuple[Numbers, ...]
    """For each threshold, the values of its column."""
    protect_gsnr: float | None
    messages: tuple[str, ...]
    """What was decided for the user, one sentence each."""
    warnings: tuple[str, ...]
    """What makes the result doubtful, one sentence each."""

    def __len__(self) -> int:
        return len(self.code)

    @property
    def keep(self) -> NDArray[np.bool_]:
        """True for the rows that are kept."""
        return np.isin(self.code, _KEPT)

    def reason(self, position: int) -> str:
        """Return why the row at this position of the table is kept or dropped."""
        code = Code(self.code[position])
        verdict = "kept" if code.is_kept else "dropped"
        return f"{verdict}: {self._why(code, position)}"

    def reasons(self, positions: Iterable[int]) -> list[str]:
        """Return the reasons of several rows."""
        return [self.reason(position) for position in positions]

    def counts(self) -> dict[str, int]:
        """Return the number of rows per reason code, most frequent first."""
        return {Code(code).label: n for code, n in Counter(self.code.tolist()).most_common()}

    def counts_per_category(self) -> dict[str, dict[str, int]]:
        """Return, for each category in alphabetical order, how many rows are kept and dropped."""
        pairs = Counter(zip(self.category.tolist(), self.keep.tolist(), strict=True))
        names = sorted({label for label, _ in pairs}, key=category_name)
        return {
            category_name(label): {"kept": pairs[label, True], "dropped": pairs[label, False]}
            for label in names
        }

    def _why(self, code: Code, position: int) -> str:
        if code is Code.STATUS or (code is Code.KEPT_NULL and self.status[position] != "ok"):
            return f"status {self.status[position]}"
        if code in (Code.NULL, Code.KEPT_NULL):
            return f"no value in {self.by}"
        if code is Code.THRESHOLD:
            return self._threshold_reason(position)
        place = f"rank {self.rank[position]} of {self.n_ranked}"
        if code is Code.PAST_TOP_K:
            return f"past --top-k {self.top_k} ({place}, {self.by} {self.value[position]:.4g})"
        if code is Code.PROTECTED:
            return (
                f"gsnr {self.gsnr[position]:.4g} at or above --protect-gsnr {self.protect_gsnr:g} ({place})"
            )
        return f"{place}, {self.by} {self.value[position]:.4g}"

    def _threshold_reason(self, position: int) -> str:
        index = self.threshold_index[position]
        threshold, value = self.thresholds[index], self.threshold_values[index][position]
        if np.isnan(value):
            return f"no value in {threshold.column} to compare with {threshold.option}"
        return (
            f"{threshold.column} {value:.4g} {'under' if threshold.is_minimum else 'over'} {threshold.option}"
        )
