"""`quality`: the probability that a row is sound, from a few columns of its score table; numpy only.

No column is weighed by what faults were planted. Each says how far out a row lies at its bad end among sound rows, and
what lies far out by any of them counts:

    u_j     = normal score of column j at its bad end: 0 at the median of sound rows or better, 1 where 16 % of them are as
              bad, 2 where 2.3 % are; between the stored knots by linear interpolation, beyond the last as there
    d       = sum_j u_j^2
    quality = 1 / (1 + exp(-(intercept - slope d)))       intercept and slope: calibration on planted faults

Normal scores are van der Waerden's (1952); the sum of their squares is a chi-squared statistic if columns are independent,
after Fisher's way of combining tests. `quality_low` and `quality_high` come from the same formula with knots and calibration of
bootstrap samples (2.5 % and 97.5 % quantiles, widened to quality itself where it lies outside). They are the uncertainty of the fit, not of the row's own scores. A row that
lacks one of the columns has no quality: null, never a guess. Only columns that say nothing of some rows by nature, such as the
loss of a stop token that was cut off, count 0 there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscore.errors import TableError

Numbers = NDArray[np.float64]

TAIL = 0.025
ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the score table, and which of its values are how bad."""

    name: str
    better: Literal["high", "low"]
    """The end at which sound rows lie, as the column's dictionary claims."""
    scores: tuple[float, ...]
    """Normal scores of the knots, from 0 at the median to that of the worst sound row."""
    values: tuple[float, ...]
    """The values that have these scores."""
    is_optional: bool = False
    """Whether a row without a value counts 0; elsewhere such a row has no quality."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Knots and calibration of one bootstrap sample."""

    intercept: float
    slope: float
    values: tuple[tuple[float, ...], ...]
    """Per feature, at the same normal scores as in the model."""


@dataclass(frozen=True)
class QualityModel:
    """A fitted `quality`, as it is stored."""

    features: tuple[Feature, ...]
    intercept: float
    slope: float
    """How many logits a unit of d takes away; never negative."""
    bootstrap: tuple[Fit, ...]
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """Data, model and faults that it was fitted on."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """How well it found the planted faults, and beside which columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table needs."""
        return tuple(feature.name for feature in self.features)

    @property
    def own(self) -> Fit:
        """The fit on all rows."""
        return Fit(self.intercept, self.slope, tuple(feature.values for feature in self.features))


class Quality(NamedTuple):
    """Probability that each row is sound, with its interval; NaN where a row lacks a column."""

    quality: Numbers
    low: Numbers
    high: Numbers


def apply(model: QualityModel, columns: Mapping[str, Any]) -> Quality:
    """Return the quality of every row of a table, given as a frame or as a mapping from column to values.

    Raises:
        TableError: a column that the model needs is not in the table.
    """
    missing = [name for name in model.names if name not in columns]
    if missing:
        raise TableError(missing_columns_message(missing, list(columns)))
    values = [np.asarray(columns[name], dtype=np.float64) for name in model.names]
    parts = [
        _probabilities(model, [column[at : at + ROWS_PER_BLOCK] for column in values])
        for at in range(0, len(values[0]), ROWS_PER_BLOCK)
    ]
    quality, low, high = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return Quality(quality, low, high)


def distance(features: Sequence[Feature], columns: Sequence[Numbers]) -> Numbers:
    """Return d of every row: the sum over the features of the squared normal score at the bad end; NaN where one is missing."""
    return _distance(features, [feature.values for feature in features], columns)


def _distance(
    features: Sequence[Feature], knots: Sequence[Sequence[float]], columns: Sequence[Numbers]
) -> Numbers:
    total = np.zeros(len(columns[0]))
    for feature, values, column in zip(features, knots, columns, strict=True):
        u = normal_scores(column, values, feature.scores, feature.better)
        total += np.square(np.where(np.isnan(column), 0.0, u) if feature.is_optional else u)
    return total


def normal_scores(
    column: Numbers, values: Sequence[float], scores: Sequence[float], better: Literal["high", "low"]
) -> Numbers:
    """Return how far out each value lies at the bad end, between 0 and the last of the scores.

    Where several knots share a value it gets the middle of the lowest and the highest of their scores.
    """
    sign = -1.0 if better == "high" else 1.0
    bad, knots, at = sign * column, sign * np.asarray(values), np.asarray(scores)
    highest = np.interp(bad, knots, at)
    lowest = -np.interp(-bad, -knots[::-1], -at[::-1])
    return np.asarray((highest + lowest) / 2)


def missing_columns_message(missing: Sequence[str], found: Sequence[str]) -> str:
    """Return what to say where a table lacks columns of the model."""
    return (
        f"quality needs columns that the score table does not have: {', '.join(missing)}; it has: {', '.join(found)}. "
        f"Score with --measures {','.join(missing)}, which adds them."
    )


def _probabilities(model: QualityModel, columns: Sequence[Numbers]) -> Numbers:
    """Return quality, low and high, [3, rows]."""
    logits = np.array(
        [
            fit.intercept - fit.slope * _distance(model.features, fit.values, columns)
            for fit in (model.own, *model.bootstrap)
        ]
    )
    with np.errstate(over="ignore"):  # exp of a very negative logit is infinite, and the probability 0
        probabilities = 1 / (1 + np.exp(-logits))
    quality = probabilities[0]
    low, high = np.quantile(probabilities[1:], [TAIL, 1 - TAIL], axis=0)
    return np.stack([quality, np.minimum(low, quality), np.maximum(high, quality)])
