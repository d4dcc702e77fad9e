"""What the evaluation says, in sentences: which columns work on this data, which do not, and which is best."""

from collections.abc import Sequence

from gradscore.measures import OF_QUALITY
from gradscore.validate.auroc import Estimate
from gradscore.validate.evaluate import ALL, BASELINES, FEWEST_FAULTY, ColumnResult, Evaluation
from gradscore.validate.judge import Judgement


def column_lines(evaluation: Evaluation) -> list[str]:
    """Return one line per group of columns: those that find faults, those that do not, those that mislead."""
    groups = (
        ("Finds planted faults", [c for c in evaluation.columns if _is(c, "finds faults")]),
        ("Does NOT work on this data (interval includes 0.5)", _that(evaluation, "does not find faults")),
        ("MISLEADS on this data (faulty rows score better)", _that(evaluation, "ranks faults high")),
        (
            "Makes no claim; direction chosen on this data, so take it with doubt",
            [
                c
                for c in evaluation.columns
                if c.is_direction_chosen and c.verdict not in ("has no values", "too few faulty rows")
            ],
        ),
        (
            f"Too few faulty rows with a value to tell (fewer than {FEWEST_FAULTY})",
            [c for c in evaluation.columns if c.verdict == "too few faulty rows"],
        ),
        ("Has no values", [c for c in evaluation.columns if c.verdict == "has no values"]),
    )
    return [
        f"{title}: {', '.join(_named(c, evaluation) for c in columns)}."
        for title, columns in groups
        if columns
    ]


def best_lines(evaluation: Evaluation, gain_over_baseline: Estimate | None) -> list[str]:
    """Return which column is best, and whether it beats the best baseline by more than the interval."""
    best, baseline = evaluation.best, evaluation.best_baseline
    if best is None and any(_is(column, "finds faults") for column in evaluation.columns):
        return [
            "No column is named best: those that find faults lack more than a tenth of the rows. Score more of them "
            "(--max-length, --truncate; status and truncated in the table say what was lost), then validate again."
        ]
    if best is None and any(column.verdict == "too few faulty rows" for column in evaluation.columns):
        return [
            f"Nothing can be said of columns that have a value in fewer than {FEWEST_FAULTY} faulty rows. Take a larger --sample "
            "or --contamination, or score more of the rows (--max-length; status in the table says what was lost)."
        ]
    if best is None:
        return ["No column finds the planted faults on this data; filter by none of them."]
    lines = [f"Best column: {_named(best, evaluation)}."]
    if baseline is not None and baseline.name != best.name and gain_over_baseline is not None:
        lines.append(
            f"Against the best baseline, {_named(baseline, evaluation)}: {_gain(gain_over_baseline)}. The best of many columns on "
            "one sample looks a little better than it is."
        )
    elif best.name in BASELINES:
        lines.append("It is a baseline: no other column does better here.")
    return lines


def quality_lines(judgement: Judgement) -> list[str]:
    """Return how well quality finds the faults, whether gradients helped, and whether it is worth having."""
    overall = judgement.quality.auroc[ALL]
    left_out = [name for name in OF_QUALITY if name not in judgement.model.names]
    without = (
        f" Left out, since the table lacks them or too few rows have a value: {', '.join(left_out)}."
        if left_out
        else ""
    )
    lines = [
        f"quality, whose order was not fitted to these faults: AUROC {interval(overall)}.",
        f"quality is made of {', '.join(judgement.model.names)}.{without}",
    ]
    if judgement.gain_of_gradients is not None:
        gain = _gain(judgement.gain_of_gradients)
        lines.append(
            f"Gradients in quality: {judgement.gradient_column} adds most, {gain}; it is used."
            if judgement.uses_gradients
            else f"Gradient columns add nothing to quality on this data; the best, {judgement.gradient_column}: {gain}. "
            "They are left out."
        )
    if judgement.gain_over_best is not None:
        lines.append(f"quality against {judgement.best_single}: {_gain(judgement.gain_over_best)}.")
    if judgement.quality.verdict != "finds faults":
        lines.append("quality does NOT find the planted faults on this data. Do not filter by it.")
    return lines


def small_kinds_lines(evaluation: Evaluation) -> list[str]:
    """Return which kinds have too few rows for their intervals to be trusted; nothing where none has."""
    few = [f"{kind} ({n})" for kind, n in evaluation.counts.items() if kind != ALL and n < FEWEST_FAULTY]
    if not few:
        return []
    remedy = "Trust `all`, or take" if evaluation.counts[ALL] >= FEWEST_FAULTY else "Take"
    return [
        f"Intervals of kinds with fewer than {FEWEST_FAULTY} rows are too narrow: {', '.join(few)}. {remedy} a larger --sample "
        "or --contamination."
    ]


def lost_ends_lines(evaluation: Evaluation) -> list[str]:
    """Return how many faulty rows lost the end of their text, where what was planted may have been; nothing where none did."""
    if not evaluation.n_lost_end:
        return []
    return [
        f"{evaluation.n_lost_end} of {evaluation.counts[ALL]} faulty rows lost the end of their text to --max-length, and with it "
        "perhaps what was planted, which no column can find then. Take a longer --max-length, or --truncate left."
    ]


def control_line(evaluation: Evaluation) -> str:
    """Return what the random score reads, and a warning where it reads anything but a half."""
    control = evaluation.control.auroc[ALL]
    line = f"Control, a random score: AUROC {interval(control)}."
    if control is not None and (control.is_above(0.5) or control.is_below(0.5)):
        line += " It should include 0.5, and does 19 times in 20; take narrow verdicts with doubt, or change --seed."
    return line


def interval(estimate: Estimate | None) -> str:
    """Return an estimate with its interval, such as `0.87 [0.83, 0.91]`."""
    return "none" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _gain(gain: Estimate) -> str:
    verdict = (
        "better" if gain.is_above(0) else "worse" if gain.is_below(0) else "no difference beyond the interval"
    )
    return f"AUROC {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], {verdict}"


def _named(column: ColumnResult, evaluation: Evaluation) -> str:
    if column.verdict == "has no values":
        return column.name
    both = ""
    estimate = column.auroc[ALL]
    if column.is_direction_chosen and estimate is not None:
        both = f" if {column.better} is better, {1 - estimate.value:.2f} if not"
    gaps = f" ({column.n_missing} rows without a value)" if evaluation.has_gaps(column) else ""
    return f"{column.name} {interval(estimate)}{both}{gaps}"


def _is(column: ColumnResult, verdict: str) -> bool:
    return column.verdict == verdict and not column.is_direction_chosen


def _that(evaluation: Evaluation, verdict: str) -> Sequence[ColumnResult]:
    return [column for column in evaluation.columns if _is(column, verdict)]
