"""Is this score just length, loss or category? Rank correlations and overlaps with cheaper choices.

A score that orders rows as their length does keeps the rows that counting tokens would keep, at the price of
gradients. Nothing here says which is better; that takes a training run.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MIN_ROWS = 4
"""Fewer rows have no rank correlation worth an interval."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation with its 95 % interval."""

    rho: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of the kept rows another choice of the same size keeps too."""

    column: str
    is_highest: bool
    """Whether the other choice takes the highest values of the column."""
    share: float


def spearman(x: Numbers, y: Numbers) -> Correlation | None:
    """Return the rank correlation over rows that have both values; None under `MIN_ROWS` rows or without variation.

    The interval is Fisher's z with the variance (1 + rho^2 / 2) / (n - 3) of Bonett & Wright (Psychometrika 2000).
    """
    both = np.isfinite(x) & np.isfinite(y)
    n = int(both.sum())
    if n < MIN_ROWS:
        return None
    ranks = [pd.Series(values[both]).rank().to_numpy() for values in (x, y)]
    if any(rank.std() == 0 for rank in ranks):
        return None
    rho = float(np.clip(np.corrcoef(ranks[0], ranks[1])[0, 1], -1.0, 1.0))
    if 1 - abs(rho) < 1e-12:
        return Correlation(rho, rho, rho, n)
    reach = 1.96 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return Correlation(rho, math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach), n)


def share_between_categories(values: Numbers, labels: NDArray[np.object_]) -> float | None:
    """Return the share of the variance of ranks that lies between categories, from 0 to 1.

    H / (n - 1) of Kruskal & Wallis; by chance alone it is (categories - 1) / (n - 1) on average. None
    where there are not two categories or no rank differs.
    """
    valid = np.isfinite(values)
    groups = pd.factorize(labels[valid], use_na_sentinel=False)[0]
    ranks = pd.Series(values[valid]).rank()
    if len(np.unique(groups)) < 2 or ranks.nunique() < 2:
        return None
    centred = ranks - ranks.mean()
    means = centred.groupby(groups).transform("mean")
    return float((means**2).sum() / (centred**2).sum())


def overlap(kept: NDArray[np.bool_], values: Numbers, column: str, *, is_highest: bool) -> Overlap | None:
    """Return how much of the kept set the same number of rows with the highest or lowest values covers.

    Rows without a value are never taken; None where fewer rows have one than are kept, or nothing is kept.
    """
    n_kept = int(kept.sum())
    if n_kept == 0 or np.isfinite(values).sum() < n_kept:
        return None
    worth = np.where(np.isfinite(values), -values if is_highest else values, np.inf)
    best = np.argsort(worth, kind="stable")[:n_kept]
    return Overlap(column, is_highest, float(kept[best].mean()))


def random_overlap(n_kept: int, n: int) -> tuple[float, float, float]:
    """Return the overlap of `n_kept` of `n` rows with a random choice as large: expected, and its 95 % range.

    Hypergeometric: with the share p = k/n the mean is p and the variance p (1 - p) (n - k) / (k (n - 1)).
    """
    share = n_kept / n
    spread = math.sqrt(share * (1 - share) * (n - n_kept) / (n_kept * max(n - 1, 1))) if n_kept else 0.0
    return share, max(share - 1.96 * spread, 0.0), min(share + 1.96 * spread, 1.0)
