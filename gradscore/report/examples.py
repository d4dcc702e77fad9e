"""Rows to look at: the best, the worst, those around the cut; their texts from the dataset itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscore.data.fields import is_null, to_text
from gradscore.data.read import RowSource
from gradscore.filter.reasons import Decisions
from gradscore.records import Row
from gradscore.report.cut import Cut
from gradscore.report.untrusted import visible
from gradscore.table.read import ScoreTable

GROUPS = ("best", "near", "worst", "unscored")


@dataclass(frozen=True, slots=True)
class Example:
    """One row of the table of rows."""

    row_index: int
    group: str
    """`best`, `near` (around the cut), `worst` or `unscored`."""
    category: str | None
    rank: int
    is_kept: bool
    is_undecided: bool
    reason: str
    numbers: Mapping[str, float]
    """Column to value, NaN where there is none."""
    fields: tuple[tuple[str, str], ...] | None
    """Column of the dataset and its text; None where the row's text is not to be had."""


def choose_examples(decisions: Decisions, cut: Cut, n: int) -> dict[int, str]:
    """Return position in the table to group: the `n` best and worst, and up to `n` / 2 around the cut and unscored."""
    ranked = np.flatnonzero(decisions.rank > 0)
    ranked = ranked[np.argsort(decisions.rank[ranked])]
    unscored = np.flatnonzero(decisions.rank == 0)
    chosen: dict[int, str] = dict.fromkeys(ranked[:n].tolist(), "best")
    for position in ranked[::-1][:n].tolist():
        chosen.setdefault(position, "worst")
    if cut.value is not None:
        distance = np.abs(decisions.score[ranked] - cut.value)
        for position in ranked[np.argsort(distance, kind="stable")[: n // 2]].tolist():
            chosen.setdefault(position, "near")
    chosen.update(dict.fromkeys(unscored[: n // 2].tolist(), "unscored"))
    return chosen


def read_texts(
    source: RowSource, keys: Mapping[int, str]
) -> tuple[dict[int, tuple[tuple[str, str], ...]], list[int]]:
    """Return the fields of the wanted rows as visible text, and the indices of those that have changed.

    Args:
        source: the dataset, open for reading.
        keys: row index to the row key that the table holds.
    """
    texts: dict[int, tuple[tuple[str, str], ...]] = {}
    changed = []
    for row in _until(source, max(keys, default=-1)):
        if row.row_index not in keys:
            continue
        if row.row_key != keys[row.row_index]:
            changed.append(row.row_index)
        else:
            pairs = (
                (name, value) for name, value in row.content.items() if not is_null(value) and value != ""
            )
            texts[row.row_index] = tuple(
                (visible(name, 80), visible(_text_of(value))) for name, value in pairs
            )
    return texts, changed


def _text_of(value: Any) -> str:
    """Return a value as text; turns of a conversation, a list of structs, one under the other."""
    if isinstance(value, Sequence) and value and all(isinstance(turn, Mapping) for turn in value):
        return "\n".join(
            ": ".join(to_text(part) for part in turn.values() if not is_null(part)) for turn in value
        )
    return to_text(value)


def _until(source: RowSource, last: int) -> Iterator[Row]:
    for row in source.rows():
        if row.row_index > last:
            return
        yield row


def make_examples(
    table: ScoreTable,
    decisions: Decisions,
    cut: Cut,
    chosen: Mapping[int, str],
    texts: Mapping[int, tuple[tuple[str, str], ...]],
    columns: Iterable[str],
) -> list[Example]:
    """Return the chosen rows, best first, those without a rank last."""
    numbers: dict[str, NDArray[np.float64]] = {name: table.numbers(name) for name in columns}
    order = sorted(chosen, key=lambda position: (decisions.rank[position] == 0, decisions.rank[position]))
    keep = decisions.keep
    return [
        Example(
            row_index=int(decisions.row_index[position]),
            group=chosen[position],
            category=None
            if decisions.category[position] is None
            else visible(decisions.category[position], 80),
            rank=int(decisions.rank[position]),
            is_kept=bool(keep[position]),
            is_undecided=bool(cut.undecided[position]),
            reason=visible(decisions.reason(position), 300),
            numbers={name: float(values[position]) for name, values in numbers.items()},
            fields=texts.get(int(decisions.row_index[position])),
        )
        for position in order
    ]
