"""Tests validate/judge.py: how well quality finds faults, and that gradients are kept only where they help."""

from dataclasses import replace

import numpy as np
import pytest

from gradscore.errors import TableError
from gradscore.validate.evaluate import ALL, Marked, evaluate
from gradscore.validate.judge import Judgement, judge_quality
from gradscore.validate.verdict import (
    best_lines,
    column_lines,
    control_line,
    lost_ends_lines,
    quality_lines,
    small_kinds_lines,
)
from tests.validate.marked import KINDS, labels, marked

FAULTS = labels(200, 12, hidden=6)
IS_FAULTY = np.array([fault not in (None, "duplicate") for fault in FAULTS])
BETTER = {"base_loss": "low", "grad_norm": "low", "gsnr": "high", "ifd": "low"}


def columns(*, signal: float, gradient_signal: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    n = len(FAULTS)
    return {
        "base_loss": np.exp(rng.normal(size=n) + signal * IS_FAULTY),
        "el2n": np.exp(rng.normal(size=n)) + 1,
        "grad_norm": np.exp(rng.normal(size=n) + gradient_signal * IS_FAULTY),
        "gsnr": rng.random(n) + 1,
    }


def judge(rows: Marked) -> Judgement:
    return judge_quality(rows, evaluate(rows, "0.5", 0), {"dataset": "d"}, seed=0)


@pytest.fixture(scope="module")
def helpful() -> Judgement:
    return judge(marked(FAULTS, columns(signal=1.6, gradient_signal=1.6), BETTER))


@pytest.fixture(scope="module")
def useless() -> Judgement:
    return judge(marked(FAULTS, columns(signal=1.5, gradient_signal=0.0), BETTER))


def test_gradients_that_help_are_used_and_the_gain_is_told(helpful: Judgement) -> None:
    assert helpful.uses_gradients
    assert helpful.gain_of_gradients is not None
    assert helpful.gain_of_gradients.is_above(0)
    assert {"base_loss", "grad_norm"} <= set(helpful.model.names)
    assert helpful.gradient_column == "grad_norm"
    assert any("grad_norm adds most" in line and "it is used" in line for line in quality_lines(helpful))
    assert helpful.gain_over_best is not None
    assert helpful.gain_over_best.value > 0


def test_gradients_that_add_nothing_are_left_out_and_that_is_said(useless: Judgement) -> None:
    assert not useless.uses_gradients
    assert useless.model.names == ("base_loss",)
    assert "Gradient columns add nothing to quality on this data" in quality_lines(useless)[2]
    assert useless.model.evidence["uses_gradient_column"] is False


def test_every_kind_is_judged_and_found(helpful: Judgement) -> None:
    stored = helpful.model.evidence["auroc"]
    assert set(stored) == {ALL, *KINDS, "duplicate"}
    assert all(stored[kind]["value"] > 0.75 for kind in KINDS)
    assert helpful.model.evidence["best_column"]["name"] == "quality"
    assert helpful.model.evidence["default_column"]["name"] == "gsnr"
    assert helpful.model.fitted_on == {"dataset": "d"}


def test_a_table_of_noise_gives_a_quality_that_warns_of_itself() -> None:
    found = judge(marked(FAULTS, columns(signal=0.0, gradient_signal=0.0), BETTER))
    assert found.quality.verdict != "finds faults"
    assert quality_lines(found)[-1] == (
        "quality does NOT find the planted faults on this data. Do not filter by it."
    )
    assert found.model.evidence["best_column"] is None


def test_a_table_without_its_columns_has_no_quality() -> None:
    rows = marked(FAULTS, {"gsnr": columns(signal=1.0, gradient_signal=1.0)["gsnr"]}, BETTER)
    with pytest.raises(TableError, match=r"none complete: base_loss, ifd, .* score with --measures quality"):
        judge(rows)


def test_a_gradient_column_of_noise_seldom_gets_in() -> None:
    """Eight candidates, so the interval is widened: with 95 % each, one in six tables of noise would let one in."""
    used = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        noise = {name: rng.random(len(FAULTS)) for name in ("grad_norm", "gsnr", "consistency", "alignment")}
        loss = np.exp(rng.normal(size=len(FAULTS)) + IS_FAULTY)
        better = {**BETTER, "consistency": "high", "alignment": "high"}
        used.append(judge(marked(FAULTS, {"base_loss": loss, **noise}, better)).uses_gradients)
    assert not any(used)


def test_the_lines_name_what_works_and_what_does_not() -> None:
    rows = marked(
        FAULTS,
        {
            **columns(signal=1.5, gradient_signal=0.0),
            "upside_down": -1.0 * IS_FAULTY + np.random.default_rng(0).random(len(FAULTS)),
            "empty": np.full(len(FAULTS), np.nan),
        },
        {**BETTER, "upside_down": "low"},
    )
    evaluation = evaluate(rows, "0.5", 0)
    lines = column_lines(evaluation)
    assert lines[0].startswith("Finds planted faults: base_loss 0.")
    assert lines[1].startswith("Does NOT work on this data (interval includes 0.5): ")
    assert "gsnr 0." in lines[1]
    assert lines[2].startswith("MISLEADS on this data (faulty rows score better): upside_down 0.")
    assert "el2n 0." in lines[3]
    assert "if not" in lines[3]
    assert lines[4] == "Has no values: empty."
    assert best_lines(evaluation, None)[-1] == "It is a baseline: no other column does better here."
    assert control_line(evaluation).startswith("Control, a random score: AUROC 0.")


def test_where_nothing_works_that_is_the_first_line() -> None:
    rows = marked(FAULTS, {"gsnr": np.ones(len(FAULTS))}, BETTER)
    assert best_lines(evaluate(rows, "0.5", 0), None) == [
        "No column finds the planted faults on this data; filter by none of them."
    ]


def test_columns_with_gaps_that_find_faults_are_not_called_useless() -> None:
    found = columns(signal=3.0, gradient_signal=0.0)
    gaps = np.where(np.arange(len(FAULTS)) % 5 == 0, np.nan, found["base_loss"])
    evaluation = evaluate(marked(FAULTS, {"base_loss": gaps}, BETTER), "0.5", 0)
    assert evaluation.best is None
    (line,) = best_lines(evaluation, None)
    assert line.startswith(
        "No column is named best: those that find faults lack more than a tenth of the rows."
    )


def test_kinds_with_few_rows_are_named() -> None:
    few = evaluate(marked(FAULTS, columns(signal=1.5, gradient_signal=0.0), BETTER), "0.5", 0)
    (line,) = small_kinds_lines(few)
    assert line.startswith("Intervals of kinds with fewer than 8 rows are too narrow: duplicate (6).")
    without = np.where(FAULTS == "duplicate", "swapped", FAULTS)
    enough = evaluate(marked(without, columns(signal=1.5, gradient_signal=0.0), BETTER), "0.5", 0)
    assert small_kinds_lines(enough) == []


def test_where_few_faulty_rows_have_values_nothing_is_claimed() -> None:
    some = np.where(
        IS_FAULTY & (np.cumsum(IS_FAULTY) > 5), np.nan, columns(signal=3.0, gradient_signal=0)["base_loss"]
    )
    evaluation = evaluate(marked(FAULTS, {"base_loss": some}, BETTER), "0.5", 0)
    assert best_lines(evaluation, None)[0].startswith(
        "Nothing can be said of columns that have a value in fewer than 8"
    )
    (line,) = column_lines(evaluation)
    assert line.startswith("Too few faulty rows with a value to tell (fewer than 8): base_loss ")


def test_where_all_has_few_rows_too_it_is_not_to_be_trusted() -> None:
    few = labels(60, 1, hidden=0)
    evaluation = evaluate(marked(few, {"gsnr": np.arange(len(few), dtype=float)}, BETTER), "0.5", 0)
    (line,) = small_kinds_lines(evaluation)
    assert "Trust" not in line
    assert line.endswith("Take a larger --sample or --contamination.")


def test_faulty_rows_that_lost_their_end_are_counted() -> None:
    rows = marked(FAULTS, columns(signal=1.5, gradient_signal=0.0), BETTER)
    assert lost_ends_lines(evaluate(rows, "0.5", 0)) == []
    n_cut = int(IS_FAULTY.sum())
    (line,) = lost_ends_lines(evaluate(replace(rows, lost_end=np.ones(len(FAULTS), dtype=bool)), "0.5", 0))
    assert line.startswith(f"{n_cut} of {n_cut} faulty rows lost the end of their text to --max-length")
