"""Which columns of a score table find known faults: AUROC per column and kind, and what the user's cut would do.

Every column is held against what its dictionary claims (`better`): faulty rows should score worse. A column that
claims nothing, such as a length, is looked at both ways, and the way that does better is marked as chosen on this
data. Kinds that no single row shows (duplicates) are reported but do not count in `all`.

Rows of the user's own count as sound, whatever is wrong with them; where they are faulty too, every AUROC is
a little too low.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradscore.filter.rules import order_best_first, parse_top_k
from gradscore.records import OK
from gradscore.table.read import ScoreTable
from gradscore.validate.auroc import Draws, Estimate, Flags, Numbers, estimate_auroc, estimate_gain
from gradscore.validate.faults import FAULT_KINDS

ALL = "all"
CONTROL = "random"
"""A score drawn from the seed alone; it must read 0.5."""
MOST_MISSING = 0.1
"""Share of rows that the best column may lack: one that ranks few rows cannot be filtered by."""
FEWEST_FAULTY = 8
"""Faulty rows with a value under which a column gets no verdict: resampling so few says too little of others."""
UNTESTED = ("row_index", "n_views", "quality_low", "quality_high")
"""Numeric columns that are no scores."""
BASELINES = ("base_loss", "ifd", "n_target_tokens", "loss", "grad_norm", "gsnr")
"""What every other column has to beat to be worth its cost."""
Verdict = Literal[
    "finds faults", "does not find faults", "ranks faults high", "too few faulty rows", "has no values"
]


@dataclass(frozen=True)
class Marked:
    """The rows of a score table with what was planted in each."""

    row_index: NDArray[np.int64]
    row_key: pa.ChunkedArray
    columns: Mapping[str, Numbers]
    """NaN where a row has no score."""
    better: Mapping[str, str]
    """Column to `high`, `low`, or empty where the column makes no claim."""
    faults: NDArray[np.object_]
    """Kind of fault per row, None for a row that was left as it is."""
    hidden: Collection[str]
    """Kinds that the row itself does not show."""
    lost_end: Flags
    """True where the end of the text was cut away, and with it perhaps what was planted."""

    @property
    def is_sound(self) -> Flags:
        """True for the rows that were left as they are."""
        return np.array([fault is None for fault in self.faults.tolist()], dtype=bool)

    def has_kind(self, kind: str) -> Flags:
        """Return True for the rows with this kind of fault; `all` are those whose fault is in the row."""
        labels = self.faults.tolist()
        if kind == ALL:
            return np.array([fault is not None and fault not in self.hidden for fault in labels], dtype=bool)
        return np.array([fault == kind for fault in labels], dtype=bool)

    @property
    def kinds(self) -> tuple[str, ...]:
        """`all`, then the kinds that occur, in the order in which they are registered."""
        found = dict.fromkeys(fault for fault in self.faults.tolist() if fault is not None)
        known = [kind for kind in FAULT_KINDS if kind in found]
        return (ALL, *known, *(kind for kind in found if kind not in FAULT_KINDS))


@dataclass(frozen=True)
class Cut:
    """What dropping all but the best by one column would do."""

    n_dropped: int
    precision: float
    """Share of the dropped rows that are faulty."""
    recall: Mapping[str, float]
    """Share of the faulty rows that are dropped, by kind."""


@dataclass(frozen=True)
class ColumnResult:
    """How well one column finds the faults."""

    name: str
    better: str
    """The end that sound rows should be at: `high` or `low`."""
    is_direction_chosen: bool
    """True where the column claims no direction, so that `better` is what did better on this data."""
    n_missing: int
    """Rows without a value."""
    auroc: Mapping[str, Estimate | None]
    """By kind; None where no row of the kind, or no sound row, has a value."""
    cut: Cut | None
    verdict: Verdict

    @property
    def overall(self) -> float:
        """AUROC over all faults that rows show; 0 where there is none."""
        estimate = self.auroc[ALL]
        return 0.0 if estimate is None else estimate.value


@dataclass(frozen=True)
class Evaluation:
    """All columns, best first, with the negative control apart."""

    columns: tuple[ColumnResult, ...]
    control: ColumnResult
    n_sound: int
    counts: Mapping[str, int]
    """Rows of each kind; `all` first."""
    n_lost_end: int
    """Faulty rows that lost the end of their text."""
    top_k: str

    def column(self, name: str) -> ColumnResult | None:
        """Return the result of a column, or None where it was not evaluated."""
        return next((column for column in self.columns if column.name == name), None)

    def has_gaps(self, column: ColumnResult) -> bool:
        """Return whether a column lacks more than a tenth of the rows."""
        n_rows = self.n_sound + sum(count for kind, count in self.counts.items() if kind != ALL)
        return column.n_missing > MOST_MISSING * n_rows

    @property
    def best(self) -> ColumnResult | None:
        """The column with the highest AUROC among those that claim a direction, find faults and have few gaps."""
        working = [
            column
            for column in self.columns
            if column.verdict == "finds faults"
            and not column.is_direction_chosen
            and not self.has_gaps(column)
        ]
        return working[0] if working else None

    @property
    def best_baseline(self) -> ColumnResult | None:
        """The best of the baselines; one whose direction was chosen on this data counts, in its favour."""
        return next((column for column in self.columns if column.name in BASELINES), None)


def mark(table: ScoreTable, faults: Mapping[int, str | None], hidden: Collection[str]) -> Marked:
    """Return the table's rows with their faults, given by row index; of preference pairs the chosen side."""
    kept = pa.array([side != "rejected" for side in table.texts("side").tolist()])
    table = ScoreTable(table.path, table.arrow.filter(kept), table.schema, table.metadata)
    row_index = table.arrow["row_index"].to_numpy()
    is_ok = np.array([status == OK for status in table.texts("status").tolist()], dtype=bool)
    names = [name for name in table.numeric_columns if name not in UNTESTED]
    cuts_ends = table.metadata["config"]["data"].get("truncate", "right") == "right"
    claims = {entry["name"]: entry.get("better", "") for entry in table.metadata["columns"]}
    return Marked(
        row_index=row_index,
        row_key=table.arrow["row_key"],
        columns={name: np.where(is_ok, table.numbers(name), np.nan) for name in names},
        better={name: claims.get(name, "") for name in names},
        faults=np.array([faults[int(index)] for index in row_index], dtype=object),
        hidden=frozenset(hidden),
        lost_end=table.arrow["truncated"].to_numpy() & cuts_ends,
    )


def evaluate(rows: Marked, top_k: str, seed: int) -> Evaluation:
    """Return how well every column, and a random one, find the faults.

    Raises:
        ConfigError: `top_k` is not a share or count.
    """
    draws = Draws.of(rows.faults, seed)
    results = [_column(rows, name, top_k, draws) for name in rows.columns]
    noise = np.random.default_rng(seed).random(len(rows.row_index))
    noise[~np.any([~np.isnan(values) for values in rows.columns.values()], axis=0)] = np.nan
    control = _judge(rows, CONTROL, noise, "high", top_k, draws)
    return Evaluation(
        columns=tuple(sorted(results, key=lambda result: -result.overall)),
        control=control,
        n_sound=int(rows.is_sound.sum()),
        counts={kind: int(rows.has_kind(kind).sum()) for kind in rows.kinds},
        n_lost_end=int((rows.has_kind(ALL) & rows.lost_end).sum()),
        top_k=top_k,
    )


def compare(rows: Marked, first: ColumnResult, second: ColumnResult, seed: int) -> Estimate | None:
    """Return by how much the AUROC of `first` over all faults exceeds that of `second`, paired by row."""
    worth, baseline = (_worth(rows.columns[c.name], c.better) for c in (first, second))
    used = rows.is_sound | rows.has_kind(ALL)
    return estimate_gain(
        np.where(used, worth, np.nan), baseline, rows.has_kind(ALL), Draws.of(rows.faults, seed)
    )


def _column(rows: Marked, name: str, top_k: str, draws: Draws) -> ColumnResult:
    values, claimed = rows.columns[name], rows.better[name]
    if claimed:
        return _judge(rows, name, values, claimed, top_k, draws)
    high = _judge(rows, name, values, "high", top_k, draws, is_direction_chosen=True)
    if high.overall >= 0.5 or high.auroc[ALL] is None:
        return high
    return _judge(rows, name, values, "low", top_k, draws, is_direction_chosen=True)


def _judge(
    rows: Marked,
    name: str,
    values: Numbers,
    better: str,
    top_k: str,
    draws: Draws,
    *,
    is_direction_chosen: bool = False,
) -> ColumnResult:
    worth = _worth(values, better)
    auroc: dict[str, Estimate | None] = {}
    for kind in rows.kinds:
        used = np.where(rows.is_sound | rows.has_kind(kind), worth, np.nan)
        auroc[kind] = estimate_auroc(used, rows.has_kind(kind), draws)
    return ColumnResult(
        name=name,
        better=better,
        is_direction_chosen=is_direction_chosen,
        n_missing=int(np.isnan(values).sum()),
        auroc=auroc,
        cut=_cut(rows, worth, top_k),
        verdict=_verdict(auroc[ALL], int((rows.has_kind(ALL) & ~np.isnan(values)).sum())),
    )


def _worth(values: Numbers, better: str) -> Numbers:
    return values if better == "high" else -values


def _cut(rows: Marked, worth: Numbers, top_k: str) -> Cut | None:
    """Return what `gradscore filter --top-k` would drop, ties broken as it breaks them; None without values.

    The share is one of the rows that have a value; those without are dropped too.
    """
    places = np.flatnonzero(~np.isnan(worth))
    if len(places) == 0:
        return None
    keys = rows.row_key.take(pa.array(places))
    order = order_best_first(worth[places], keys, rows.row_index[places], ascending=False)
    dropped = np.ones(len(worth), dtype=bool)
    dropped[places[order[: parse_top_k(top_k, len(places))]]] = False
    faulty = ~rows.is_sound
    recall = {}
    for kind in rows.kinds:
        has_kind = rows.has_kind(kind)
        recall[kind] = float(dropped[has_kind].mean()) if has_kind.any() else 0.0
    precision = float(faulty[dropped].mean()) if dropped.any() else 0.0
    return Cut(int(dropped.sum()), precision, recall)


def _verdict(estimate: Estimate | None, n_faulty: int) -> Verdict:
    if estimate is None:
        return "has no values"
    if n_faulty < FEWEST_FAULTY:
        return "too few faulty rows"
    if estimate.is_above(0.5):
        return "finds faults"
    return "ranks faults high" if estimate.is_below(0.5) else "does not find faults"
