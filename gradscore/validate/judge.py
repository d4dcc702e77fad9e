"""`quality` on trial: how well its order finds the planted faults, and whether gradients add to it.

Its columns are chosen beforehand and none has a weight, so the planted kinds decide nothing about the order and all of them are
unseen. The one choice that is made here is whether a gradient column joins: the one that adds most does, if it
raises the AUROC by more than an interval that is widened for the number that was tried. They cost more than the
forward passes, and a column that adds nothing adds noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradscore.errors import TableError
from gradscore.measures import OF_QUALITY
from gradscore.quality.fit import LabelledRows, choose_features, fit_quality, score_out_of_fold
from gradscore.quality.model import Feature, Numbers, QualityModel
from gradscore.validate.auroc import LEVEL, Draws, Estimate, estimate_gain
from gradscore.validate.evaluate import ALL, ColumnResult, Evaluation, Marked, compare, evaluate

FORWARD = tuple((name,) for name in OF_QUALITY)
"""Features that forward passes give."""
GRADIENT = (
    ("grad_norm_first", "grad_norm"),
    ("gsnr_unbiased", "gsnr"),
    ("gsnr_token_unbiased",),
    ("consistency",),
    ("norm_drop_out",),
    ("contrast_norm",),
    ("alignment",),
    ("influence",),
)
"""Candidates that need gradients; of each group the first column that the table has."""
DEFAULT_COLUMN = "gsnr"
"""What `filter` ranks by unless it is told otherwise."""
QUALITY = "quality"
"""What the model is called in the evaluation."""


@dataclass(frozen=True)
class Judgement:
    """A fitted `quality` and what is known about it."""

    model: QualityModel
    quality: ColumnResult
    """AUROC per kind of its order, sound rows scored by scales that were made without them."""
    gradient_column: str | None
    """The gradient column that adds most, or costs least; None where the table has none."""
    gain_of_gradients: Estimate | None
    """AUROC with that column minus without; the interval is widened for the number of columns tried."""
    uses_gradients: bool
    gain_over_best: Estimate | None
    """AUROC minus that of the best single column."""
    best_single: str | None


def judge_quality(rows: Marked, evaluation: Evaluation, fitted_on: Mapping[str, Any], seed: int) -> Judgement:
    """Return `quality` fitted on a table whose faults are known, and how well it finds them.

    Args:
        rows: the table with its faults.
        evaluation: of the table's own columns, to compare with.
        fitted_on: what to store with the model: data, model, settings.
        seed: of folds and bootstrap.

    Raises:
        TableError: the table has none of its columns, or too few rows have them.
    """
    labelled = LabelledRows(rows.columns, rows.faults, rows.is_sound | rows.has_kind(ALL))
    forward = _features(rows, FORWARD)
    if not forward:
        raise TableError(
            f"quality is made of columns of which the table has none complete: {', '.join(OF_QUALITY)}. If rows were cut or "
            "left out, raise --max-length; if the columns are not there, score with --measures quality."
        )
    worth = -score_out_of_fold(labelled, forward, seed)
    candidates = {
        feature: -score_out_of_fold(labelled, (*forward, feature), seed)
        for feature in _features(rows, GRADIENT)
    }
    gains = {
        feature: gain
        for feature, with_it in candidates.items()
        if (gain := _gain(rows, with_it, worth, seed, 1 - (1 - LEVEL) / len(candidates))) is not None
    }
    added = max(gains, key=lambda feature: gains[feature].value, default=None)
    gain = None if added is None else gains[added]
    features = forward
    if added is not None and gain is not None and gain.is_above(0):
        features, worth = (*forward, added), candidates[added]
    model = fit_quality(labelled, features, seed)
    trial = replace(rows, columns={**rows.columns, QUALITY: worth}, better={**rows.better, QUALITY: "high"})
    judged = _result(trial, evaluation, seed)
    best = evaluation.best
    judgement = Judgement(
        model=model,
        quality=judged,
        gradient_column=None if added is None else added.name,
        gain_of_gradients=gain,
        uses_gradients=len(features) > len(forward),
        gain_over_best=None if best is None else compare(trial, judged, best, seed),
        best_single=None if best is None else best.name,
    )
    stored = evidence(judgement, evaluation)
    return replace(judgement, model=replace(model, fitted_on=fitted_on, evidence=stored))


def evidence(judgement: Judgement, evaluation: Evaluation) -> dict[str, Any]:
    """Return what is stored with the model as plain values: AUROCs by kind, and gains with intervals."""
    default = evaluation.column(DEFAULT_COLUMN)
    return {
        "best_column": _claim(_best(judgement, evaluation)),
        "default_column": _claim(default),
        "auroc": {kind: shown(found) for kind, found in judgement.quality.auroc.items()},
        "verdict": judgement.quality.verdict,
        "gradient_column": judgement.gradient_column,
        "gain_of_gradient_column": shown(judgement.gain_of_gradients),
        "uses_gradient_column": judgement.uses_gradients,
        "best_single_column": judgement.best_single,
        "gain_over_best_single_column": shown(judgement.gain_over_best),
    }


def _best(judgement: Judgement, evaluation: Evaluation) -> ColumnResult | None:
    """Return what found most faults, quality or a single column; None if nothing did."""
    working = [
        c for c in (evaluation.best, judgement.quality) if c is not None and c.verdict == "finds faults"
    ]
    return max(working, key=lambda column: column.overall) if working else None


def _claim(column: ColumnResult | None) -> dict[str, Any] | None:
    if column is None:
        return None
    return {"name": column.name, "better": column.better, "auroc": shown(column.auroc[ALL])}


def shown(estimate: Estimate | None) -> dict[str, float] | None:
    """Return an estimate as plain values with four decimals."""
    if estimate is None:
        return None
    return {
        "value": round(estimate.value, 4),
        "low": round(estimate.low, 4),
        "high": round(estimate.high, 4),
    }


def _features(rows: Marked, groups: Sequence[Sequence[str]]) -> tuple[Feature, ...]:
    """Return one feature per group; scales come from sound rows, so that no kind of fault enters them."""
    sound = {name: values[rows.is_sound] for name, values in rows.columns.items()}
    found = [choose_features(sound, group, rows.better)[:1] for group in groups]
    return tuple(feature for features in found for feature in features)


def _gain(rows: Marked, worth: Numbers, baseline: Numbers, seed: int, level: float) -> Estimate | None:
    used = rows.is_sound | rows.has_kind(ALL)
    draws = Draws.of(rows.faults, seed)
    return estimate_gain(np.where(used, worth, np.nan), baseline, rows.has_kind(ALL), draws, level)


def _result(trial: Marked, evaluation: Evaluation, seed: int) -> ColumnResult:
    alone = replace(trial, columns={QUALITY: trial.columns[QUALITY]})
    return evaluate(alone, evaluation.top_k, seed).columns[0]
