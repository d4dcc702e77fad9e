"""Fit `quality` on rows with known faults: the scale of each column from the sound rows, the probabilities from all.

What faults were planted decides nothing about which rows rank below which: no column has a weight to fit. With a few dozen
faulty rows every weight that was tried learned the planted kinds and lost on others (docs/log.md). Sound rows are
scored by scales that were made without them, in folds, as any other row will be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.quality.model import Feature, Fit, Numbers, QualityModel, distance

SOUND = None
NO_CLAIMS: Mapping[str, str] = MappingProxyType({})
FOLDS = 5
BOOTSTRAP_FITS = 200
STEP = 0.5
"""Normal scores between two knots of a scale."""
INVERSE_PENALTY = 1.0
"""Of the slope, so that it stays finite where no sound row lies farther out than any faulty one."""
FEWEST = 10
"""Faulty rows, and sound rows, without which nothing is fitted."""
FEWEST_OPTIONAL = 20
"""Sound rows that need a value of a column which says nothing of some rows by nature."""
MOST_MISSING = 0.05
"""Share of rows that may lack a column before it is no feature."""
NULL_BY_NATURE = ("stop_loss", "number_excess")
"""Columns that say nothing of some rows: an answer that `--max-length` cut has no stop token, many have no number."""
DIGITS = 6
"""Significant digits of stored numbers; more would only make the file long."""

Labels: TypeAlias = NDArray[np.object_]
NORMAL = NormalDist()


@dataclass(frozen=True)
class LabelledRows:
    """Rows whose faults are known."""

    columns: Mapping[str, Any]
    """Score columns by name, NaN where a row has no value."""
    kinds: Labels
    """Kind of the fault in each row, None for a sound row."""
    is_used: NDArray[np.bool_]
    """False for rows that are neither sound nor faulty by themselves, such as duplicates."""

    @property
    def is_sound(self) -> NDArray[np.bool_]:
        """True for rows without a fault."""
        return np.array([kind is SOUND for kind in self.kinds.tolist()], dtype=bool)

    def values(self, features: Sequence[Feature]) -> list[Numbers]:
        """Return the columns of the features."""
        return [np.asarray(self.columns[feature.name], dtype=np.float64) for feature in features]


def choose_features(
    columns: Mapping[str, Any], names: Sequence[str], better: Mapping[str, str] = NO_CLAIMS
) -> tuple[Feature, ...]:
    """Return those of the named columns that claim an end, are there, vary, and are nearly complete, with their scales.

    Args:
        columns: of sound rows alone, by name.
        names: of the candidates.
        better: `high` or `low`, the end at which each column says that sound rows lie.
    """
    features = []
    for name in names:
        values = np.asarray(columns.get(name, ()), dtype=np.float64)
        present = values[np.isfinite(values)]
        is_optional = name in NULL_BY_NATURE
        enough = FEWEST_OPTIONAL if is_optional else max(1, (1 - MOST_MISSING) * len(values))
        end = better.get(name, "")
        if end and len(present) >= enough and np.ptp(present) > 0:
            scores = knot_scores(len(present))
            features.append(Feature(name, end, scores, knots(present, scores, end), is_optional))  # type: ignore[arg-type]
    return tuple(features)


def knot_scores(n_rows: int) -> tuple[float, ...]:
    """Return the normal scores of a scale's knots: in steps from 0, then that of the worst of `n_rows`, (n - 1/2) / n."""
    worst = NORMAL.inv_cdf((n_rows - 0.5) / n_rows)
    return (*np.arange(0.0, worst, STEP).tolist(), _rounded(worst))


def knots(values: Numbers, scores: Sequence[float], better: Literal["high", "low"]) -> tuple[float, ...]:
    """Return the values that have these normal scores at the bad end, NaN left out.

    Quantiles with plotting positions (i - 1/2) / n, Hazen's, so that the worst row lies at the last score.
    """
    sign = -1.0 if better == "high" else 1.0
    bad = sign * values[np.isfinite(values)]
    quantiles = np.quantile(bad, [NORMAL.cdf(score) for score in scores], method="hazen")
    return tuple(_rounded(value) for value in sign * quantiles)


def fit_quality(
    rows: LabelledRows, features: Sequence[Feature], seed: int, n_bootstrap: int = BOOTSTRAP_FITS
) -> QualityModel:
    """Return the model with the features' scales, calibrated on all used rows; see `score_out_of_fold`.

    Raises:
        TableError: too few rows are faulty, or sound.
    """
    out_of_fold = score_out_of_fold(rows, features, seed)
    usable = rows.is_used & np.isfinite(out_of_fold)
    _require_enough(rows, usable)
    is_sound = rows.is_sound
    intercept, slope = calibrate(out_of_fold[usable], is_sound[usable])
    rng = np.random.default_rng(seed)
    places = np.flatnonzero(usable)
    fits = [
        _bootstrap_fit(rows, features, places, _resampled(rows.kinds[usable], rng))
        for _ in range(n_bootstrap)
    ]
    return QualityModel(tuple(features), intercept, slope, tuple(fits))


def score_out_of_fold(rows: LabelledRows, features: Sequence[Feature], seed: int) -> Numbers:
    """Return d of each row, sound rows by scales that were made without them; NaN where a column is missing.

    Sound rows are dealt to five folds. A sound row's d comes from the scales of the other folds; any other row's is
    the mean over the five.
    """
    values = rows.values(features)
    is_sound = rows.is_sound & rows.is_used
    fold = np.full(len(is_sound), -1)
    sound = np.flatnonzero(is_sound)
    fold[np.random.default_rng(seed).permutation(sound)] = np.arange(len(sound)) % FOLDS
    found = np.stack(
        [
            distance(_rescaled(features, values, is_sound & (fold != left_out)), values)
            for left_out in range(FOLDS)
        ]
    )
    own = found[fold, np.arange(len(fold))]
    return np.where(is_sound, own, found.mean(0))


def calibrate(d: Numbers, is_sound: NDArray[np.bool_]) -> tuple[float, float]:
    """Return intercept and slope that turn d into the probability that a row is sound (Platt 1999).

    Minimises sum_i ln(1 + exp(-y_i (intercept - slope d_i))) + slope^2 / (2 INVERSE_PENALTY), y = +-1. Without any
    order in d the slope is 0: every row then has the share of sound rows as its quality.
    """
    from scipy.optimize import minimize  # half a second of imports, and scoring needs none of it

    y = np.where(is_sound, 1.0, -1.0)

    def objective(w: Numbers) -> tuple[float, Numbers]:
        margin = y * (w[0] - w[1] * d)
        pull = -y * np.exp(-np.logaddexp(0.0, margin))
        value = np.logaddexp(0.0, -margin).sum() + w[1] ** 2 / (2 * INVERSE_PENALTY)
        return value, np.array([pull.sum(), -pull @ d + w[1] / INVERSE_PENALTY])

    bounds = [(None, None), (0.0, None)]
    found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-12)
    return _rounded(found.x[0]), _rounded(found.x[1])


def _bootstrap_fit(
    rows: LabelledRows, features: Sequence[Feature], places: NDArray[np.intp], counts: NDArray[np.intp]
) -> Fit:
    """Return scales and calibration of the rows at `places`, each as often as it counts."""
    drawn = np.repeat(places, counts)
    values = [column[drawn] for column in rows.values(features)]
    is_sound = rows.is_sound[drawn]
    rescaled = _rescaled(features, values, is_sound)
    d = distance(rescaled, values)
    intercept, slope = calibrate(d, is_sound)
    return Fit(intercept, slope, tuple(feature.values for feature in rescaled))


def _rescaled(
    features: Sequence[Feature], values: Sequence[Numbers], is_counted: NDArray[np.bool_]
) -> list[Feature]:
    """Return the features with the scales of the rows that count."""
    return [
        Feature(f.name, f.better, f.scores, knots(column[is_counted], f.scores, f.better), f.is_optional)
        for f, column in zip(features, values, strict=True)
    ]


def _require_enough(rows: LabelledRows, usable: NDArray[np.bool_]) -> None:
    n_faulty, n_sound = int((usable & ~rows.is_sound).sum()), int((usable & rows.is_sound).sum())
    if n_faulty < FEWEST or n_sound < FEWEST:
        raise TableError(
            f"quality is fitted on at least {FEWEST} faulty and as many sound rows that have every column it "
            f"uses; there are {n_faulty} and {n_sound}. Pass a larger --sample or --contamination."
        )


def _resampled(kinds: Labels, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return how often each row is in a bootstrap sample in which every kind keeps its number of rows."""
    counts = np.zeros(len(kinds), dtype=np.intp)
    labels = kinds.tolist()
    for kind in dict.fromkeys(labels):
        places = np.flatnonzero(np.array([label == kind for label in labels], dtype=bool))
        counts[places] = rng.multinomial(len(places), np.full(len(places), 1 / len(places)))
    return counts


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
