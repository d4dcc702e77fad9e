"""Tests validate/evaluate.py: planted frames whose answer is known, directions, gaps, controls and the cut."""

import json
from pathlib import Path

import numpy as np
import pytest

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError
from gradscore.filter.decide import decide
from gradscore.filter.reasons import Code
from gradscore.table.read import read_table
from gradscore.validate.evaluate import ALL, compare, evaluate, mark
from gradscore.validate.verdict import column_lines
from tests.table.rows import scored, write_table
from tests.validate.marked import KINDS, labels, marked

FAULTS = labels(120, 8, hidden=8)
IS_FAULTY = np.array([fault not in (None, "duplicate") for fault in FAULTS])
RNG = np.random.default_rng(1)
COLUMNS = {
    "perfect": IS_FAULTY * 2.0 + RNG.random(len(FAULTS)),
    "noise": RNG.random(len(FAULTS)),
    "backwards": -1.0 * IS_FAULTY + RNG.random(len(FAULTS)) * 1.2,
    "silent": IS_FAULTY + RNG.random(len(FAULTS)) * 1.2,
    "empty": np.full(len(FAULTS), np.nan),
    "constant": np.ones(len(FAULTS)),
    "one_kind": (FAULTS == "refusal") * 2.0 + IS_FAULTY * 0.1 + RNG.random(len(FAULTS)),
}
LOW = dict.fromkeys(("perfect", "noise", "backwards", "empty", "constant", "one_kind"), "low")
RESULT = evaluate(marked(FAULTS, COLUMNS, LOW), "0.5", seed=0)


def estimate(name: str, kind: str = ALL) -> float:
    column = RESULT.column(name)
    assert column is not None
    found = column.auroc[kind]
    assert found is not None
    return found.value


def test_columns_of_known_worth_read_it_and_stand_in_order() -> None:
    assert estimate("perfect") == 1.0
    assert estimate("constant") == 0.5
    assert estimate("backwards") < 0.3
    assert estimate("one_kind", "refusal") == 1.0
    assert 0.3 < estimate("one_kind", "swapped") < 0.7
    assert RESULT.columns[0].name == "perfect"
    overall = [column.overall for column in RESULT.columns]
    assert overall == sorted(overall, reverse=True)


def test_verdicts_follow_the_interval() -> None:
    verdicts = {column.name: column.verdict for column in RESULT.columns}
    assert verdicts == {
        "perfect": "finds faults",
        "noise": "does not find faults",
        "backwards": "ranks faults high",
        "silent": "finds faults",
        "empty": "has no values",
        "constant": "does not find faults",
        "one_kind": "finds faults",
    }
    assert RESULT.best is not None
    assert RESULT.best.name == "perfect"
    assert RESULT.best_baseline is None


def test_a_column_without_a_claim_is_looked_at_both_ways_and_marked() -> None:
    silent = RESULT.column("silent")
    assert silent is not None
    assert silent.is_direction_chosen
    assert silent.better == "low"
    alone = evaluate(marked(FAULTS, {"silent": COLUMNS["silent"]}, {}), "0.5", seed=0)
    assert alone.best is None, "a direction that was chosen here proves nothing"


def test_a_column_with_many_gaps_is_never_best_and_its_gaps_are_told() -> None:
    gappy = np.where(np.arange(len(FAULTS)) % 5 == 0, np.nan, COLUMNS["perfect"])
    columns = {"gappy": gappy, "one_kind": COLUMNS["one_kind"]}
    result = evaluate(marked(FAULTS, columns, {"gappy": "low", "one_kind": "low"}), "0.5", seed=0)
    assert result.columns[0].name == "gappy"
    assert result.best is not None
    assert result.best.name == "one_kind"
    assert "gappy 1.00 [1.00, 1.00] (32 rows without a value)" in column_lines(result)[0]


def test_duplicates_are_reported_but_do_not_count_in_all() -> None:
    assert RESULT.counts == {ALL: 32, **dict.fromkeys(KINDS, 8), "duplicate": 8}
    assert RESULT.n_sound == 120
    assert 0.2 < estimate("perfect", "duplicate") < 0.8


def test_the_random_control_reads_a_half_on_average() -> None:
    rows = marked(FAULTS, {"gsnr": np.arange(len(FAULTS), dtype=float)}, {"gsnr": "high"})
    controls = [evaluate(rows, "0.5", seed=seed).control.overall for seed in range(12)]
    assert abs(np.mean(controls) - 0.5) < 4 * np.std(controls) / np.sqrt(len(controls))
    assert np.std(controls) > 0.01


def test_the_cut_counts_what_it_drops() -> None:
    perfect, noise, empty = (RESULT.column(name) for name in ("perfect", "noise", "empty"))
    assert perfect is not None
    assert perfect.cut is not None
    assert perfect.cut.n_dropped == 80
    assert perfect.cut.recall[ALL] == 1.0
    n_duplicates = round(perfect.cut.recall["duplicate"] * 8)
    assert perfect.cut.precision == pytest.approx((32 + n_duplicates) / 80)
    assert noise is not None
    assert noise.cut is not None
    assert noise.cut.recall[ALL] < 0.8
    assert empty is not None
    assert empty.cut is None
    assert empty.n_missing == len(FAULTS)


def test_a_wrong_cut_is_refused() -> None:
    with pytest.raises(ConfigError, match="--top-k"):
        evaluate(marked(FAULTS, COLUMNS, LOW), "1.5", seed=0)


def test_columns_are_compared_row_by_row() -> None:
    rows = marked(FAULTS, COLUMNS, LOW)
    perfect, noise, empty = (RESULT.column(name) for name in ("perfect", "noise", "empty"))
    assert perfect is not None
    assert noise is not None
    assert empty is not None
    gain, loss = compare(rows, perfect, noise, 0), compare(rows, noise, perfect, 0)
    assert gain is not None
    assert loss is not None
    assert gain.is_above(0)
    assert (gain.value, gain.low, gain.high) == pytest.approx((-loss.value, -loss.high, -loss.low), abs=1e-6)
    assert compare(rows, perfect, empty, 0) is None


def test_a_sample_without_faults_has_no_aurocs() -> None:
    faults = np.array([None] * 10, dtype=object)
    result = evaluate(marked(faults, {"loss": np.arange(10.0)}, {"loss": "low"}), "0.5", seed=0)
    assert result.columns[0].verdict == "has no values"
    assert result.columns[0].auroc == {ALL: None}


def test_rows_of_a_table_are_marked_and_the_cut_is_that_of_filter(tmp_path: Path) -> None:
    rows = [scored(i, loss=float(i % 4), status="ok") for i in range(30)]
    rows[3] = scored(3, status="non_finite")
    rows.append(scored(5, side="rejected", loss=9.0))
    path = write_table(tmp_path / "s.parquet", rows)
    table = read_table(path, lists=False)
    faults = {i: "swapped" if i % 4 == 3 else None for i in range(30)}
    found = mark(table, faults, hidden=())
    assert len(found.row_index) == 30
    assert "row_index" not in found.columns
    assert found.better["loss"] == "low"
    assert found.better["n_target_tokens"] == ""
    assert np.isnan(found.columns["loss"][3])
    assert np.isnan(found.columns["n_target_tokens"][3]), "a row without a score is ranked nowhere"
    column = evaluate(found, "0.4", seed=0).column("loss")
    assert column is not None
    assert column.cut is not None
    decisions = decide(table, FilterConfig(by="loss", ascending=True, top_k="0.4"))
    dropped = [
        int(i) for i, code in zip(decisions.row_index, decisions.code, strict=True) if not Code(code).is_kept
    ]
    assert 3 in dropped, "filter drops the row without a score as well"
    assert column.cut.n_dropped == len(dropped)
    assert column.cut.recall["swapped"] == sum(faults[i] == "swapped" for i in dropped) / 7


def test_the_dictionary_of_the_table_says_which_end_is_better(tmp_path: Path) -> None:
    table = read_table(write_table(tmp_path / "s.parquet", [scored(0)]))
    better = {entry["name"]: entry["better"] for entry in json.loads(json.dumps(table.metadata["columns"]))}
    assert better["gsnr"] == "high"
    assert better["grad_norm"] == "low"
    assert set(better.values()) == {"high", "low", ""}


def test_the_random_control_ranks_only_rows_that_have_a_score() -> None:
    values = np.arange(len(FAULTS), dtype=float)
    values[:5] = np.nan
    found = evaluate(marked(FAULTS, {"gsnr": values}, {"gsnr": "high"}), "0.5", seed=0)
    assert found.control.n_missing == 5
    assert found.control.cut is not None
    assert found.control.cut.n_dropped == len(FAULTS) - round(0.5 * (len(FAULTS) - 5))


def test_a_column_with_a_value_in_few_faulty_rows_gets_no_verdict() -> None:
    values = np.where(np.array([fault is None for fault in FAULTS]), 1.0, np.nan)
    values[np.flatnonzero(FAULTS == "swapped")[:7]] = 0.0
    (column,) = evaluate(marked(FAULTS, {"gsnr": values}, {"gsnr": "high"}), "0.5", seed=0).columns
    assert column.overall == 1.0
    assert column.verdict == "too few faulty rows"
