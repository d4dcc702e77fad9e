"""Fit `quality` on rows with known faults, and score each of them by fits that never saw its kind.

A logistic regression that starts from what the columns claim and is held near it: with some sixty faulty rows and a
handful of columns anything freer would learn the planted kinds by heart. What counts is how it does on kinds that it was
not fitted on, so every row is scored by fits without its family of faults, and every sound row by fits without
that row. Those scores also calibrate it: a fit is always surer of kinds that it knows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.quality.model import Feature, Numbers, QualityModel, half_lines

SOUND = None
NO_CLAIMS: Mapping[str, str] = MappingProxyType({})
FOLDS = 5
BOOTSTRAP_FITS = 200
INVERSE_PENALTY = 0.1
"""Of weights that have a prior: the larger, the further they may go from it."""
INVERSE_PENALTY_OF_CALIBRATION = 1.0
FEWEST_FAULTY = 10
MOST_MISSING = 0.05
"""Share of rows that may lack a column before it is no feature."""
NULL_BY_NATURE = ("stop_loss",)
"""Columns that say nothing of some rows: an answer that `--max-length` cut has no stop token to judge by."""
MOST_MISSING_BY_NATURE = 0.9
QUARTILE_RANGE_OF_NORMAL = 1.349
DIGITS = 6
"""Significant digits of stored numbers; more would only make the file long."""

Labels: TypeAlias = NDArray[np.object_]
Fitter: TypeAlias = Callable[[Numbers, NDArray[np.bool_], Numbers], Numbers]
"""(features [n, d], is sound [n], weight of each row [n]) to (intercept, weights...) [1 + d]."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows whose faults are known."""

    columns: Mapping[str, Any]
    """Score columns by name, NaN where a row has no value."""
    families: Labels
    """Family of the fault in each row, None for a sound row."""
    kinds: Labels
    """Kind of the fault, None for a sound row."""
    is_used: NDArray[np.bool_]
    """False for rows that are neither sound nor faulty by themselves, such as duplicates."""


def choose_features(
    columns: Mapping[str, Any], names: Sequence[str], better: Mapping[str, str] = NO_CLAIMS
) -> tuple[Feature, ...]:
    """Return those of the named columns that are there, vary, and are nearly complete, with their scales.

    Columns whose values are all positive are taken by their logarithm: losses, norms, ratios and lengths are
    spread over orders of magnitude.
    """
    features = []
    for name in names:
        values = np.asarray(columns[name], dtype=np.float64) if name in columns else np.empty(0)
        present = values[np.isfinite(values)]
        most_missing = MOST_MISSING_BY_NATURE if name in NULL_BY_NATURE else MOST_MISSING
        if len(present) == 0 or len(present) < (1 - most_missing) * len(values):
            continue
        transform = "log" if present.min() > 0 else "identity"
        present = np.log(present) if transform == "log" else present
        low, center, high = np.quantile(present, [0.25, 0.5, 0.75])
        scale = (high - low) / QUARTILE_RANGE_OF_NORMAL or float(present.std())
        if scale > 0:
            is_optional = name in NULL_BY_NATURE
            claim = better.get(name, "")
            features.append(
                Feature(name, transform, _rounded(center), _rounded(scale), claim, is_optional)  # type: ignore[arg-type]
            )
    return tuple(features)


def prior_weights(features: Sequence[Feature]) -> Numbers:
    """Return the weights that a fit starts from, [2 features]: 1 logit per unit on the side that a column calls bad.

    A fault shows at the bad end of some column. What few faults of other kinds teach about that column must not
    outweigh what the column is for.
    """
    by_claim = {"low": (0.0, -1.0), "high": (1.0, 0.0), "": (0.0, 0.0)}
    return np.array([weight for feature in features for weight in by_claim[feature.better]])


def fit_logistic(
    z: Numbers,
    is_sound: NDArray[np.bool_],
    weight: Numbers,
    prior: Numbers,
    inverse_penalty: float = INVERSE_PENALTY,
) -> Numbers:
    """Return intercept and weights of a logistic regression for sound rows, [1 + d].

    Minimises sum_i weight_i ln(1 + exp(-y_i s_i)) + |w - prior|^2 / (2 inverse_penalty), s = intercept + z w, y = +-1:
    scikit-learn's L2 penalty, but of the distance from the prior, which it does not offer.
    """
    from scipy.optimize import minimize  # half a second of imports, and scoring needs none of it

    y = np.where(is_sound, 1.0, -1.0)

    def objective(w: Numbers) -> tuple[float, Numbers]:
        margin = y * (w[0] + z @ w[1:])
        slope = -y * weight * np.exp(-np.logaddexp(0.0, margin))
        away = w[1:] - prior
        value = weight @ np.logaddexp(0.0, -margin) + away @ away / (2 * inverse_penalty)
        return value, np.concatenate([[slope.sum()], z.T @ slope + away / inverse_penalty])

    found = minimize(objective, np.concatenate([[0.0], prior]), jac=True, method="L-BFGS-B", tol=1e-10)
    return np.asarray(found.x, dtype=np.float64)


def fit_quality(
    rows: LabelledRows,
    features: Sequence[Feature],
    unseen: Numbers,
    seed: int,
    n_bootstrap: int = BOOTSTRAP_FITS,
) -> QualityModel:
    """Return the model fitted on all used rows, calibrated on `unseen`, the logits of `score_unseen`.

    Raises:
        TableError: too few rows are faulty, or none is sound.
    """
    z = half_lines(features, rows.columns)
    usable = _usable(rows, z)
    _require_enough(rows, usable)
    z, is_sound = z[usable], _is_sound(rows)[usable]
    prior = prior_weights(features)
    own = fit_logistic(z, is_sound, np.ones(len(z)), prior)
    slope, offset = _calibration(unseen[usable], is_sound)
    rng = np.random.default_rng(seed)
    fits = [fit_logistic(z, is_sound, _resampled(rows.kinds[usable], rng), prior) for _ in range(n_bootstrap)]
    return QualityModel(
        features=tuple(features),
        intercept=_rounded(own[0]),
        weights=tuple(_rounded(weight) for weight in own[1:]),
        slope=_rounded(slope),
        offset=_rounded(offset),
        bootstrap=tuple(tuple(_rounded(weight) for weight in fit) for fit in fits),
    )


def score_unseen(
    rows: LabelledRows, features: Sequence[Feature], seed: int, fitter: Fitter | None = None
) -> Numbers:
    """Return the logit of each row from fits that saw neither its family of faults nor, if sound, the row itself.

    For each family: fits without it on four fifths of the sound rows, in five folds. A faulty row gets the mean over
    the fits without its family; a sound row the mean over the fits without that row; rows that are not used (see
    `LabelledRows`) the mean over all fits. NaN where a column is missing.
    """
    fitter = fitter or partial(fit_logistic, prior=prior_weights(features))
    z = half_lines(features, rows.columns)
    usable = _usable(rows, z)
    is_sound = _is_sound(rows)
    fold = np.full(len(z), -1)
    sound = np.flatnonzero(usable & is_sound)
    fold[np.random.default_rng(seed).permutation(sound)] = np.arange(len(sound)) % FOLDS
    total, count = np.zeros(len(z)), np.zeros(len(z))
    for family in dict.fromkeys(rows.families[usable & ~is_sound].tolist()):
        is_family = np.array([label == family for label in rows.families.tolist()], dtype=bool)
        for left_out in range(FOLDS):
            training = usable & ~is_family & (fold != left_out)
            if not (training & ~is_sound).any():
                continue  # the only family there is; nothing can be said about unseen kinds
            weights = fitter(z[training], is_sound[training], np.ones(int(training.sum())))
            scored = (is_family & ~is_sound) | (fold == left_out) | ~rows.is_used
            total[scored] += (weights[0] + z @ weights[1:])[scored]
            count[scored] += 1
    return np.divide(total, count, out=np.full(len(z), np.nan), where=count > 0)


def _usable(rows: LabelledRows, z: Numbers) -> NDArray[np.bool_]:
    return rows.is_used & np.isfinite(z).all(axis=1)


def _is_sound(rows: LabelledRows) -> NDArray[np.bool_]:
    return np.array([family is SOUND for family in rows.families.tolist()], dtype=bool)


def _require_enough(rows: LabelledRows, usable: NDArray[np.bool_]) -> None:
    is_sound = _is_sound(rows)
    n_faulty, n_sound = int((usable & ~is_sound).sum()), int((usable & is_sound).sum())
    if n_faulty < FEWEST_FAULTY or n_sound < FEWEST_FAULTY:
        raise TableError(
            f"quality is fitted on at least {FEWEST_FAULTY} faulty and as many sound rows that have every column it "
            f"uses; there are {n_faulty} and {n_sound}. Pass a larger --sample or --contamination."
        )


def _calibration(unseen: Numbers, is_sound: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and offset that turn logits of unseen kinds into probabilities (Platt's scaling).

    Without any order left in them the slope is 0: every row then has the share of sound rows as its quality.
    """
    known = np.isfinite(unseen)
    if not known.any():
        return 1.0, 0.0
    offset, slope = fit_logistic(
        unseen[known, None],
        is_sound[known],
        np.ones(int(known.sum())),
        prior=np.zeros(1),
        inverse_penalty=INVERSE_PENALTY_OF_CALIBRATION,
    )
    if slope > 0:
        return float(slope), float(offset)
    share = float(is_sound[known].mean())
    return 0.0, float(np.log(share / (1 - share)))


def _resampled(kinds: Labels, rng: np.random.Generator) -> Numbers:
    """Return how often each row is in a bootstrap sample in which every kind keeps its number of rows."""
    counts = np.zeros(len(kinds))
    labels = kinds.tolist()
    for kind in dict.fromkeys(labels):
        places = np.flatnonzero(np.array([label == kind for label in labels], dtype=bool))
        counts[places] = rng.multinomial(len(places), np.full(len(places), 1 / len(places)))
    return counts


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
