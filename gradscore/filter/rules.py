"""The arithmetic of choosing rows: pure functions of arrays, without tables, options or files.

Missing values are NaN here, stay NaN, and never count in a category's statistics.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradscore.errors import ConfigError

Numbers = NDArray[np.float64]
Labels = NDArray[np.object_]

_COUNT = re.compile(r"[0-9]+")
_FRACTION = re.compile(r"([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")
_PERCENT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?%")


@dataclass(frozen=True, slots=True)
class Normalized:
    """Ranking scores after normalisation, and the categories that could not be scaled by themselves."""

    values: Numbers
    rescued: tuple[str, ...] = ()
    """Categories scaled by the quantile of all rows, because their own is not positive or of one row."""


def parse_top_k(text: str, n: int) -> int:
    """Return how many of `n` rows `text` asks for.

    `300` is a count, `0.3` and `30%` are shares; so `1` is one row and `1.0` is every row. A share is
    rounded half up in exact decimal arithmetic and is at least one row, unless there is none.

    Raises:
        ConfigError: the text is none of these, the share is not in (0, 1], or the count not in 1..n.
    """
    given = text.strip()
    if _COUNT.fullmatch(given):
        count = int(given)
        if count < 1:
            raise ConfigError(
                "--top-k is 0, which keeps nothing. Give a count from 1, or a share such as 0.3."
            )
        if count > n:
            raise ConfigError(
                f"--top-k asks for {count} rows, but only {n} rows have a score to rank by. "
                f"Give a count of at most {n}, or a share such as 0.3."
            )
        return count
    if _FRACTION.fullmatch(given):
        share = Decimal(given)
    elif _PERCENT.fullmatch(given):
        share = Decimal(given.rstrip("% ")) / 100
    else:
        raise ConfigError(
            f"--top-k cannot be {text!r}. Give a share in (0, 1] such as 0.3 or 30%, or a count such as 300."
        )
    if not 0 < share <= 1:
        raise ConfigError(
            f"--top-k is {given}, and a share must be above 0 and at most 1 (100%). "
            "For a count give a whole number, such as 300."
        )
    return min(n, max(1, int((share * n).to_integral_value(rounding=ROUND_HALF_UP))))


def parse_normalize(text: str) -> Callable[[Numbers, Labels], Normalized]:
    """Return the per-category normalisation that `text` names: none, rank, zscore or quantile:Q.

    Raises:
        ConfigError: the text names none of them, or Q is not in (0, 1].
    """
    plain = {
        "none": lambda values, _: Normalized(values),
        "rank": lambda values, categories: Normalized(rank_within(values, categories)),
        "zscore": lambda values, categories: Normalized(zscore_within(values, categories)),
    }
    name, _, argument = text.partition(":")
    if text in plain:
        return plain[text]
    if name == "quantile":
        try:
            q = float(argument)
        except ValueError:
            q = float("nan")
        if 0 < q <= 1:
            return lambda values, categories: quantile_within(values, categories, q)
        raise ConfigError(
            f"--normalize {text}: Q must lie in (0, 1], not {argument!r}. Give for example quantile:0.75."
        )
    raise ConfigError(f"--normalize cannot be {text!r}. It takes none, rank, zscore or quantile:Q.")


NO_SCALE = 1e-200
"""A quantile up to here counts as 0: what is divided by it would overflow."""


def rank_within(values: Numbers, categories: Labels) -> Numbers:
    """Return each value's rank within its category over the category's size, in (0, 1]; the highest is 1.

    Equal values share the mean of their ranks. A category of one row has rank 1.
    """
    return _groups(values, categories).rank(method="average", pct=True).to_numpy(dtype=np.float64)


def zscore_within(values: Numbers, categories: Labels) -> Numbers:
    """Return (value − mean) / standard deviation within the category; 0 where its values do not differ."""
    groups = _groups(values, categories)
    mean = groups.transform("mean").to_numpy(dtype=np.float64)
    deviation = groups.transform("std", ddof=0).to_numpy(dtype=np.float64)
    # Equal values can have a mean that is off by rounding, hence a tiny deviation; compare them instead. Values
    # that differ by less than 1e-154 have squares that are 0.
    is_flat = (groups.transform("max") == groups.transform("min")).to_numpy() | (deviation == 0.0)
    scaled = (values - mean) / np.where(is_flat, 1.0, deviation)
    return np.where(is_flat & ~np.isnan(values), 0.0, scaled)


def quantile_within(values: Numbers, categories: Labels, q: float) -> Normalized:
    """Return each value over the q-quantile (linear interpolation) of its category.

    A category with one value would always read 1, and one whose quantile is 0 or negative has no scale, so
    both are divided by the q-quantile of all rows instead, and named in the result.

    Raises:
        ConfigError: the quantile of all rows is needed but is not positive either.
    """
    groups = _groups(values, categories)
    divisor = groups.transform("quantile", q).to_numpy(dtype=np.float64)
    count = groups.transform("count").to_numpy()
    needs_rescue = ~np.isnan(values) & ((count < 2) | ~(divisor > NO_SCALE))
    if not needs_rescue.any():
        return Normalized(values / divisor)
    overall = float(np.nanquantile(values, q))
    if not overall > NO_SCALE:
        raise ConfigError(
            f"--normalize quantile:{q:g} divides by a quantile, and that of all rows is {overall:g}. "
            "Use --normalize rank or zscore, or rank --by another column."
        )
    rescued = tuple(sorted({category_name(label) for label in categories[needs_rescue]}))
    return Normalized(values / np.where(needs_rescue, overall, divisor), rescued)


def order_best_first(
    scores: Numbers, row_keys: pa.ChunkedArray, row_indices: NDArray[np.int64], *, ascending: bool
) -> NDArray[np.int64]:
    """Return the positions of rows from best to worst; equal scores are ordered by row_key, then row_index."""
    table = pa.table({"score": scores, "row_key": row_keys, "row_index": row_indices})
    direction = "ascending" if ascending else "descending"
    keys = [("score", direction), ("row_key", "ascending"), ("row_index", "ascending")]
    return np.asarray(pc.sort_indices(table, sort_keys=keys).to_numpy(), dtype=np.int64)


def category_name(label: str | None) -> str:
    """Return how a category is shown; rows without one form a category of their own."""
    return "(none)" if label is None else label


def _groups(values: Numbers, categories: Labels) -> "pd.api.typing.SeriesGroupBy[float, Any]":
    codes, _ = pd.factorize(categories, use_na_sentinel=False)
    return pd.Series(values).groupby(codes)
