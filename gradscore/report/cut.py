"""Where a cut lies, and which rows lie so near to it that their own error could carry them across."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscore.config import FilterConfig
from gradscore.filter.noise import order_noise
from gradscore.filter.reasons import Code, Decisions
from gradscore.table.read import ScoreTable


@dataclass(frozen=True, slots=True)
class Cut:
    """The place of the top-k cut on the scale of the ranking score."""

    value: float | None
    """Midway between the worst kept and the best dropped row; None where no top-k cut was made."""
    error_column: str | None
    """Column with the standard error of the ranking column; None where the table has none that fits."""
    undecided: NDArray[np.bool_]
    """True where a ranked row lies within one standard error of the cut."""


def find_cut(table: ScoreTable, decisions: Decisions, config: FilterConfig) -> Cut:
    """Return where the cut lies.

    Args:
        table: the rows that the decisions are about, in their order.
        decisions: from `decide` on the same configuration.
        config: which rows are kept. Errors can be carried over to the ranking score where it is the column itself or
            the column over a constant of its category; for ranks and z-scores nothing is marked.
    """
    nothing = np.zeros(len(decisions), dtype=bool)
    past = decisions.code == Code.PAST_TOP_K
    within = decisions.code == Code.KEPT
    if not past.any() or not within.any():
        return Cut(None, None, nothing)
    worst_kept = decisions.score[within][np.argmax(decisions.rank[within])]
    best_dropped = decisions.score[past][np.argmin(decisions.rank[past])]
    value = float((worst_kept + best_dropped) / 2)
    error_column, errors = _errors(table, config.by)
    is_scaled = config.normalize == "none" or config.normalize.startswith("quantile")
    if error_column is None or not is_scaled:
        return Cut(value, None, nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(decisions.value == 0, 1.0, np.abs(decisions.score / decisions.value))
        # A missing error or score compares as False.
        near = np.abs(decisions.score - value) <= errors * scale
    return Cut(value, error_column, near & (past | within))


def _errors(table: ScoreTable, by: str) -> tuple[str | None, NDArray[np.float64]]:
    """Return the column that tells the error of the ranking column, and the error of each row.

    Members repeat the measurement of gsnr, so their spread, pooled over rows, counts before the jackknife of one.
    """
    noise = order_noise(table) if by == "gsnr" else None
    if noise is not None and noise.n_members > 1:
        has_error = np.isfinite(table.numbers("gsnr_spread"))
        return "gsnr_spread", np.where(has_error, noise.error, np.nan)
    name = f"{by}_se"
    if name not in table.numeric_columns:
        return None, np.empty(0)
    errors = table.numbers(name)  # all null where there are too few views for an error
    return (name, errors) if np.isfinite(errors).any() else (None, errors)
