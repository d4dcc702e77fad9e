"""`quality` on trial: fitted on the planted faults, judged on the kinds that each fit did not see.

It is fitted twice, on columns that forward passes give and on these with gradient columns. What is kept is the
smaller model, unless the gradients raise the AUROC of unseen kinds by more than the interval: they cost more
than the forward passes, and a column that adds nothing adds noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradscore.errors import TableError
from gradscore.quality.fit import LabelledRows, choose_features, fit_quality, score_unseen
from gradscore.quality.model import Feature, Numbers, QualityModel
from gradscore.validate.auroc import Estimate
from gradscore.validate.evaluate import ALL, ColumnResult, Evaluation, Marked, compare, evaluate

FORWARD = (
    ("base_loss", "loss_first", "loss"),
    ("ifd",),
    ("stop_loss",),
)
"""Features that forward passes give; of each group the first column that the table has. Why these: docs/log.md."""
GRADIENT = (
    ("grad_norm_first", "grad_norm"),
    ("gsnr_unbiased", "gsnr"),
    ("gsnr_token_unbiased",),
    ("norm_drop_out",),
    ("contrast_norm",),
    ("alignment",),
    ("influence",),
)
"""Features that need gradients, in the same way."""
DEFAULT_COLUMN = "gsnr"
"""What `filter` ranks by unless it is told otherwise."""
UNSEEN = "quality"
"""What the model is called in the evaluation, where every row is scored by fits that saw nothing like it."""
UNSEEN_FORWARD = "quality (forward passes only)"


@dataclass(frozen=True)
class Judgement:
    """A fitted `quality` and what is known about it."""

    model: QualityModel
    unseen: ColumnResult
    """AUROC per kind of the model that is kept, on kinds that the fits did not see."""
    gain_of_gradients: Estimate | None
    """AUROC with gradient columns minus without, on unseen kinds; None where the table has no gradient columns."""
    uses_gradients: bool
    gain_over_best: Estimate | None
    """AUROC on unseen kinds minus that of the best single column."""
    best_single: str | None


def judge_quality(
    rows: Marked,
    families: Mapping[str, str],
    evaluation: Evaluation,
    fitted_on: Mapping[str, Any],
    seed: int,
) -> Judgement:
    """Return `quality` fitted on the faults of a table, judged on unseen kinds.

    Args:
        rows: the table with its faults.
        families: kind of fault to its family; kinds of one family are left out together.
        evaluation: of the table's own columns, to compare with.
        fitted_on: what to store with the model: data, model, settings.
        seed: of folds and bootstrap.

    Raises:
        TableError: fewer than two families were planted, too few rows have the columns, or there are no columns.
    """
    labelled = _labelled(rows, families)
    forward = _features(rows, FORWARD)
    both = (*forward, *_features(rows, GRADIENT))
    if not forward or len({f for f in labelled.families[labelled.is_used].tolist() if f}) < 2:
        raise TableError(
            "quality is judged on kinds of fault that it was not fitted on, which needs loss columns and at least two "
            f"families of faults; there are {len(forward)} columns. Plant more kinds with --kinds."
        )
    unseen = {
        UNSEEN_FORWARD: score_unseen(labelled, forward, seed),
        UNSEEN: score_unseen(labelled, both, seed),
    }
    trial = replace(rows, columns=unseen, better=dict.fromkeys(unseen, "high"))
    results = {name: _result(trial, evaluation, name, seed) for name in unseen}
    has_gradients = len(both) > len(forward)
    gain = compare(trial, results[UNSEEN], results[UNSEEN_FORWARD], seed) if has_gradients else None
    uses_gradients = gain is not None and gain.is_above(0)
    kept = UNSEEN if uses_gradients else UNSEEN_FORWARD
    model = fit_quality(labelled, both if uses_gradients else forward, unseen[kept], seed)
    judged = replace(results[kept], name=UNSEEN)
    best = evaluation.best
    gain_over_best = None if best is None else _gain_over(rows, unseen[kept], judged, best, seed)
    judgement = Judgement(model, judged, gain, uses_gradients, gain_over_best, best.name if best else None)
    stored = evidence(judgement, evaluation)
    return replace(judgement, model=replace(model, fitted_on=fitted_on, evidence=stored))


def evidence(judgement: Judgement, evaluation: Evaluation) -> dict[str, Any]:
    """Return what is stored with the model as plain values: AUROCs on unseen kinds, and gains with intervals."""
    default = evaluation.column(DEFAULT_COLUMN)
    return {
        "best_column": _claim(_best(judgement, evaluation)),
        "default_column": _claim(default),
        "auroc_on_kinds_left_out": {kind: shown(found) for kind, found in judgement.unseen.auroc.items()},
        "gain_of_gradient_columns": shown(judgement.gain_of_gradients),
        "uses_gradient_columns": judgement.uses_gradients,
        "best_single_column": judgement.best_single,
        "gain_over_best_single_column": shown(judgement.gain_over_best),
    }


def _best(judgement: Judgement, evaluation: Evaluation) -> ColumnResult | None:
    """Return what found most faults: quality on kinds that it had not seen, or a single column; None if nothing did."""
    working = [
        c for c in (evaluation.best, judgement.unseen) if c is not None and c.verdict == "finds faults"
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


def _labelled(rows: Marked, families: Mapping[str, str]) -> LabelledRows:
    labels = [None if kind is None else families[kind] for kind in rows.faults.tolist()]
    return LabelledRows(
        columns=rows.columns,
        families=np.array(labels, dtype=object),
        kinds=rows.faults,
        is_used=rows.is_sound | rows.has_kind(ALL),
    )


def _features(rows: Marked, groups: Sequence[Sequence[str]]) -> tuple[Feature, ...]:
    """Return one feature per group; scales come from sound rows, so that no kind of fault enters them."""
    sound = {name: values[rows.is_sound] for name, values in rows.columns.items()}
    found = [choose_features(sound, group, rows.better)[:1] for group in groups]
    return tuple(feature for features in found for feature in features)


def _result(trial: Marked, evaluation: Evaluation, name: str, seed: int) -> ColumnResult:
    alone = replace(trial, columns={name: trial.columns[name]})
    return evaluate(alone, evaluation.top_k, seed).columns[0]


def _gain_over(
    rows: Marked, unseen: Numbers, judged: ColumnResult, best: ColumnResult, seed: int
) -> Estimate | None:
    columns = {**rows.columns, UNSEEN: unseen}
    return compare(replace(rows, columns=columns, better={**rows.better, UNSEEN: "high"}), judged, best, seed)
