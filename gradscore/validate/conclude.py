"""From a finished table with known faults to verdicts, a fitted `quality`, a picture, and `validation.json`.

Everything here reads a finished table and needs no model, so it can be done again with another cut in seconds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradscore.errors import TableError
from gradscore.quality.stored import write_quality
from gradscore.table.aside import written_aside
from gradscore.table.read import ScoreTable
from gradscore.validate.auroc import DRAWS, LEVEL, Estimate
from gradscore.validate.evaluate import ColumnResult, Evaluation, Marked, compare, evaluate, mark
from gradscore.validate.faults import FAULT_KINDS
from gradscore.validate.judge import QUALITY as QUALITY_COLUMN
from gradscore.validate.judge import Judgement, judge_quality, shown
from gradscore.validate.picture import write_picture
from gradscore.validate.verdict import (
    best_lines,
    column_lines,
    control_line,
    lost_ends_lines,
    quality_lines,
    small_kinds_lines,
)

FORMAT = "gradscore validation"
FORMAT_VERSION = 1
RESULT, QUALITY, PICTURE = "validation.json", "quality.json", "auroc.png"


@dataclass(frozen=True)
class Conclusion:
    """What a validation found."""

    evaluation: Evaluation
    judgement: Judgement | None
    """None where `quality` was not fitted; the lines say why."""
    lines: tuple[str, ...]
    """The verdicts in sentences, the most general first."""


def conclude(
    table: ScoreTable, faults: Sequence[str | None], fitted_on: Mapping[str, Any], top_k: str, seed: int
) -> Conclusion:
    """Return what a table says about the faults that were planted in its rows.

    Args:
        table: the finished table; list columns are not needed.
        faults: kind of fault by row index, None for a row that was left as it is.
        fitted_on: data, model and settings, to be stored with `quality`.
        top_k: the cut whose precision and recall are told.
        seed: of bootstrap, folds and the random control.
    """
    hidden = [kind.name for kind in FAULT_KINDS.values() if not kind.is_in_row]
    rows = mark(table, dict(enumerate(faults)), hidden)
    evaluation = evaluate(rows, top_k, seed)
    lines = [
        *lost_ends_lines(evaluation),
        *best_lines(evaluation, _gain_over_baseline(rows, evaluation, seed)),
        *column_lines(evaluation),
        control_line(evaluation),
        *small_kinds_lines(evaluation),
    ]
    judgement = None
    if QUALITY_COLUMN in rows.columns:
        lines.append("quality is the model that was given with --quality; none is fitted here.")
    else:
        try:
            judgement = judge_quality(rows, evaluation, fitted_on, seed)
            lines[:0] = quality_lines(judgement)
        except TableError as error:  # the columns are judged all the same
            lines.append(f"There is no quality.json: {error}")
    return Conclusion(evaluation, judgement, tuple(lines))


def write_conclusion(conclusion: Conclusion, folder: Path, planted: Mapping[str, Any]) -> None:
    """Write picture, quality and result into the folder, the result last.

    Raises:
        StorageError: a file cannot be written.
    """
    judgement = conclusion.judgement
    write_picture(conclusion.evaluation, judgement.quality if judgement else None, folder / PICTURE)
    if judgement is not None:
        write_quality(judgement.model, folder / QUALITY)
    else:
        (folder / QUALITY).unlink(missing_ok=True)  # of an earlier conclusion, which this one replaces
    text = json.dumps(result_of(conclusion, planted), indent=1, ensure_ascii=False, allow_nan=False)
    with written_aside(folder / RESULT, what="the result", safe="The scores are safe.") as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def result_of(conclusion: Conclusion, planted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `validation.json`."""
    evaluation, judgement = conclusion.evaluation, conclusion.judgement
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "meaning": "auroc: share of pairs of a faulty and a sound row in which the faulty one scores worse; "
        f"{LEVEL:.0%} interval from {DRAWS} bootstrap draws of rows",
        "planted": planted,
        "rows": {"sound": evaluation.n_sound, **evaluation.counts},
        "lines": list(conclusion.lines),
        "columns": [_column(column) for column in evaluation.columns],
        "control": _column(evaluation.control),
        "quality": None if judgement is None else {**_column(judgement.quality), **judgement.model.evidence},
        "cut": {"top_k": evaluation.top_k},
    }


def _column(column: ColumnResult) -> dict[str, Any]:
    return {
        "name": column.name,
        "better": column.better,
        "direction_chosen_on_this_data": column.is_direction_chosen,
        "missing": column.n_missing,
        "verdict": column.verdict,
        "auroc": {kind: shown(estimate) for kind, estimate in column.auroc.items()},
        "cut": None if column.cut is None else asdict(column.cut),
    }


def _gain_over_baseline(rows: Marked, evaluation: Evaluation, seed: int) -> Estimate | None:
    best, baseline = evaluation.best, evaluation.best_baseline
    return None if best is None or baseline is None else compare(rows, best, baseline, seed)
