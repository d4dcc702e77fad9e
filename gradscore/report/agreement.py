"""Two score tables over the same rows: do they put the same rows on top?

Rows are matched by content, not by position, so a dataset that was shuffled or extended in between can still be
compared on the rows that both tables have. Of rows with equal content the first of one table is matched with the first of
the other, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.records import OK
from gradscore.report.columns import score_columns
from gradscore.report.confounds import MIN_ROWS, Correlation, random_overlap, spearman
from gradscore.table.read import ScoreTable
from gradscore.table.run import identity_differences


@dataclass(frozen=True, slots=True)
class Matched:
    """Positions in both tables of the rows that both have, and how many each has alone."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    n_only_left: int
    n_only_right: int


@dataclass(frozen=True, slots=True)
class ColumnAgreement:
    """How far two tables agree on one column."""

    name: str
    correlation: Correlation
    k: int
    """Rows of the top k: the best, at the end that the column's dictionary calls better; the highest where it calls none."""
    shared: float
    """Share of the top k of one table that is in the top k of the other."""
    by_chance: tuple[float, float, float]
    """What two random choices would share, and its 95 % range."""


@dataclass(frozen=True, slots=True)
class Mover:
    """A row whose place differs much between the tables; places are shares from 0 (lowest) to 1 (highest)."""

    row_index: int
    """In the first table."""
    left_value: float
    right_value: float
    left_place: float
    right_place: float


@dataclass(frozen=True)
class Agreement:
    """Two tables compared."""

    matched: Matched
    columns: tuple[ColumnAgreement, ...]
    only_left: tuple[str, ...]
    """Score columns that only the first table has."""
    only_right: tuple[str, ...]
    differences: tuple[str, ...]
    """In what the runs differ, one line each."""


def compare_tables(left: ScoreTable, right: ScoreTable, *, share: float) -> Agreement:
    """Return how far two tables agree; the top k is this share of the rows that have both values.

    Raises:
        TableError: the tables cannot be compared: no rows, or no score column, in common. The message says what was found.
    """
    matched = match_rows(left, right)
    names = [[column.name for column in score_columns(table)] for table in (left, right)]
    common = [name for name in names[0] if name in names[1]]
    found = [_compare_column(left, right, matched, name, share) for name in common]
    columns = tuple(each for each in found if each is not None)
    if not columns:
        raise TableError(_nothing_in_common(left, right, matched, names))
    return Agreement(
        matched=matched,
        columns=columns,
        only_left=tuple(name for name in names[0] if name not in names[1]),
        only_right=tuple(name for name in names[1] if name not in names[0]),
        differences=tuple(
            identity_differences(left.metadata["identity"], right.metadata["identity"], ("in A", "in B"))
        ),
    )


def match_rows(left: ScoreTable, right: ScoreTable) -> Matched:
    """Return where the rows that both tables have stand in each.

    Raises:
        TableError: there is no such row.
    """
    frames = [_identities(table) for table in (left, right)]
    both = frames[0].merge(frames[1], on=["row_key", "side", "occurrence"], suffixes=("_left", "_right"))
    if not len(both):
        sources = [table.metadata["source"]["dataset"] for table in (left, right)]
        raise TableError(
            f"{left.path} and {right.path} cannot be compared: no row of one is in the other. The first was made from "
            f"{sources[0]} ({len(left)} rows), the second from {sources[1]} ({len(right)} rows). Score the same rows "
            "twice, or compare with a profile (`gradscore report TABLE --save-profile FILE.json`)."
        )
    return Matched(
        both["position_left"].to_numpy(),
        both["position_right"].to_numpy(),
        len(left) - len(both),
        len(right) - len(both),
    )


def movers(left: ScoreTable, right: ScoreTable, matched: Matched, name: str, n: int) -> list[Mover]:
    """Return the `n` rows whose places in a column lie farthest apart, the farthest first; none that did not move."""
    values = _both(left, right, matched, name)
    rows = left.arrow["row_index"].to_numpy()[matched.left]
    valid = np.flatnonzero(np.isfinite(values[0]) & np.isfinite(values[1]))
    places = [places_of(side[valid]) for side in values]
    farthest = np.argsort(-np.abs(places[0] - places[1]), kind="stable")[:n]
    return [
        Mover(
            row_index=int(rows[valid[i]]),
            left_value=float(values[0][valid[i]]),
            right_value=float(values[1][valid[i]]),
            left_place=float(places[0][i]),
            right_place=float(places[1][i]),
        )
        for i in farthest
        if places[0][i] != places[1][i]
    ]


def places_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return which share of the other values each one lies above, from 0 (lowest) to 1 (highest); ties share the middle."""
    return np.asarray((pd.Series(values).rank() - 1) / max(1, len(values) - 1), dtype=np.float64)


def _nothing_in_common(
    left: ScoreTable, right: ScoreTable, matched: Matched, names: Sequence[Sequence[str]]
) -> str:
    n_scored = [
        int((table.texts("status")[at] == OK).sum())
        for table, at in ((left, matched.left), (right, matched.right))
    ]
    found = (
        f"{left.path} and {right.path} have no score in common that at least {MIN_ROWS} of their {len(matched.left)} common rows "
        f"have in both; the first has {', '.join(names[0]) or 'none'} ({n_scored[0]} of these rows are scored), the second "
        f"{', '.join(names[1]) or 'none'} ({n_scored[1]} are). "
    )
    if min(n_scored) < MIN_ROWS:
        return found + "The columns status and reason say why the other rows have no score."
    return found + "Score both with the same views and measures."


def _identities(table: ScoreTable) -> pd.DataFrame:
    frame = table.arrow.select(["row_key", "side"]).to_pandas().fillna({"side": ""})
    frame["occurrence"] = frame.groupby(["row_key", "side"]).cumcount()
    frame["position"] = np.arange(len(frame))
    return frame


def _both(left: ScoreTable, right: ScoreTable, matched: Matched, name: str) -> Sequence[NDArray[np.float64]]:
    return left.numbers(name)[matched.left], right.numbers(name)[matched.right]


def _better(table: ScoreTable, name: str) -> str:
    return next((e.get("better", "") for e in table.metadata["columns"] if e["name"] == name), "")


def _compare_column(
    left: ScoreTable, right: ScoreTable, matched: Matched, name: str, share: float
) -> ColumnAgreement | None:
    x, y = _both(left, right, matched, name)
    correlation = spearman(x, y)
    if correlation is None:
        return None
    valid = np.isfinite(x) & np.isfinite(y)
    k = max(1, round(share * correlation.n))
    worth = -1.0 if _better(left, name) == "low" else 1.0
    tops = [set(np.argsort(-worth * side[valid], kind="stable")[:k].tolist()) for side in (x, y)]
    return ColumnAgreement(name, correlation, k, len(tops[0] & tops[1]) / k, random_overlap(k, correlation.n))
