"""Tests doctor/rows.py: one pass counts what a slow look at every row counts, and a sample is said."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradscore.config import DataConfig
from gradscore.data.encode import Encoder
from gradscore.data.read import open_source, read_rows
from gradscore.data.schemas import recognise
from gradscore.doctor.rows import RowPass, pass_over_rows, row_findings, schema_line
from tests.pipeline.runs import alpaca_rows, write_jsonl
from tests.tiny_tokenizer import byte_tokenizer

GOOD = alpaca_rows(6)
EMPTY = {"instruction": "Say nothing", "input": "", "output": "", "kind": "a"}
LONG = {"instruction": "Say much", "input": "", "output": "word " * 100, "kind": "a"}
ODD = {"instruction": 5, "output": ["no", "text"]}


def look(path: Path, rows: list[dict[str, Any]], at_most: int = 1000, **data: Any) -> tuple[RowPass, Encoder]:
    """Return the pass over these rows."""
    config = DataConfig(dataset=str(write_jsonl(path / "rows.jsonl", rows)), max_length=200, **data)
    source = open_source(config)
    encoder = Encoder(byte_tokenizer(), config, 200, recognise(source.record.columns, config))
    return pass_over_rows(source, config, encoder, at_most), encoder


def lines(found: RowPass, encoder: Encoder) -> dict[str, tuple[str, str]]:
    """Return verdict and text of each line by its name."""
    return {f.name: (f.verdict, f.finding) for f in row_findings(found, encoder)}


def test_good_rows_pass_every_line(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, GOOD)
    assert {verdict for verdict, _ in lines(found, encoder).values()} == {"pass"}
    assert len(found.shown) == 2
    assert found.n_usable == 6


def test_it_counts_what_a_look_at_every_row_counts(tmp_path: Path) -> None:
    rows = [*GOOD, EMPTY, LONG, ODD, GOOD[0], GOOD[0], LONG]
    found, encoder = look(tmp_path, rows)
    config = DataConfig(dataset=str(tmp_path / "rows.jsonl"))
    read = list(read_rows(open_source(config), config))
    encoded = [e for row in read for e in encoder.encode(row)]
    statuses = Counter(e.status for e in encoded)
    assert found.n_copies == len(read) - len({row.row_key for row in read}) == 3
    assert found.counts["ok"] == statuses["ok"]
    assert found.counts["no_target_tokens"] == statuses["no_target_tokens"] == 1
    assert found.counts["truncated"] == sum(e.truncated for e in encoded) == 2
    assert sorted(found.lengths.tolist()) == sorted(e.n_tokens for e in encoded if e.status == "ok")


def test_each_fault_has_its_line_and_its_advice(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [*GOOD, EMPTY, LONG, GOOD[0]])
    assert lines(found, encoder)["targets"] == (
        "warn",
        "1 of 9 rows (11.1 %) have no target token: in 1 the answer is empty, in 0 it is cut away",
    )
    assert lines(found, encoder)["length"] == ("warn", "1 of 9 rows (11.1 %) are cut to --max-length")
    assert lines(found, encoder)["copies"] == ("warn", "1 of 9 rows (11.1 %) repeat an earlier row exactly")
    assert all(finding.advice for finding in row_findings(found, encoder) if finding.verdict != "pass")


def test_rows_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [*GOOD[:1], ODD, ODD])
    verdict, text = lines(found, encoder)["rows"]
    assert verdict == "fail"
    assert text.startswith("3 chosen; 2 of 3 rows (66.7 %) cannot be used (row 1: invalid: ")


def test_a_dataset_of_copies_fails(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [GOOD[0]] * 5)
    assert lines(found, encoder)["copies"] == ("fail", "4 of 5 rows (80.0 %) repeat an earlier row exactly")


def test_a_dataset_without_answers_fails(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [EMPTY, {**EMPTY, "instruction": "Again"}, GOOD[0]])
    assert lines(found, encoder)["targets"][0] == "fail"


def test_long_rows_may_be_left_out(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [*GOOD, LONG], truncate="drop")
    assert lines(found, encoder)["length"] == ("warn", "1 of 7 rows (14.3 %) are left out for --max-length")


def test_of_a_large_dataset_a_sample_is_tokenised_and_all_keys_are_read(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [*alpaca_rows(40), GOOD[0]], at_most=10)
    assert (found.n_rows, found.n_tokenised, found.counts["rows"], found.n_copies) == (41, 10, 10, 1)
    assert "41 chosen, 10 of them tokenised, at random" in lines(found, encoder)["rows"][1]
    again, _ = look(tmp_path, [*alpaca_rows(40), GOOD[0]], at_most=10)
    assert again.lengths.tolist() == found.lengths.tolist()
    assert found.n_usable == 41


def test_only_chosen_rows_count(tmp_path: Path) -> None:
    found, _ = look(tmp_path, [*GOOD, ODD], limit=6)
    assert (found.n_rows, found.counts["invalid"]) == (6, 0)


@pytest.mark.parametrize("columns", [["instruction", "output"], ["instruction", "input", "output", "id"]])
def test_the_schema_names_the_columns_that_are_there(columns: list[str]) -> None:
    line = schema_line(recognise(columns, DataConfig()), columns, "Its template")
    assert line.finding.startswith("alpaca (instruction=instruction, output=output")
    assert ("input=input" in line.finding) == ("input" in columns)
    assert "history" not in line.finding
    assert line.finding.endswith("; Its template")


def test_answers_whose_prompt_was_cut_away_are_counted(tmp_path: Path) -> None:
    rows = [*GOOD, LONG, {**LONG, "instruction": "Say a lot"}]
    found, encoder = look(tmp_path, rows, truncate="left")
    verdict, text = lines(found, encoder)["prompts"]
    assert (verdict, text[:50]) == ("warn", "in 2 of 8 rows (25.0 %) nothing is left before the")
    cut_at_the_end, encoder = look(tmp_path, rows)
    assert lines(cut_at_the_end, encoder)["prompts"][0] == "pass"


def test_plain_text_has_no_prompts_to_lose(tmp_path: Path) -> None:
    found, encoder = look(tmp_path, [{"text": "a story"}, {"text": "word " * 100}], truncate="left")
    assert "prompts" not in lines(found, encoder)
