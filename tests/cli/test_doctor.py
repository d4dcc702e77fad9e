"""Tests cli/doctor.py: one screen, or JSON, and exit code 2 where a check failed."""

import json

import pytest

from gradscore.cli.doctor import shortened
from gradscore.cli.main import main
from gradscore.data.preview import RowPreview
from gradscore.doctor.finding import Diagnosis, Finding
from gradscore.errors import DatasetError
from tests.cli.conftest import FakePipeline

DOCTOR = ["doctor", "--dataset", "d.jsonl", "--model", "m"]
ROW = RowPreview(4, None, "ok", 9, 2, False, (("Say [b]hi[/b].\n", False), ("hi", True)))
GOOD = Finding("rows", "pass", "3 chosen")
BAD = Finding("beginning", "fail", "row [red]\x1b1[/red] begins twice", "Take one out.")


def test_the_screen_shows_rows_and_lines(pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.diagnosis = Diagnosis((GOOD,), (ROW,), {})
    assert main(DOCTOR) == 0
    page = capsys.readouterr().out
    assert "row 4: ok, 9 tokens, 2 of them targets" in page
    assert "Say [b]hi[/b].\n⟦hi⟧" in page
    assert "pass  rows  3 chosen" in page


def test_a_failure_is_exit_code_2_and_a_message(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.diagnosis = Diagnosis((GOOD, BAD), (), {})
    assert main([*DOCTOR, "--quiet"]) == 2
    captured = capsys.readouterr()
    assert "row [red]␛1[/red] begins twice" in captured.out
    assert "→ Take one out." in captured.out
    assert captured.err == "gradscore: Of the checks above these failed: beginning. Each says what to do.\n"


def test_warnings_are_done(pipeline: FakePipeline) -> None:
    pipeline.diagnosis = Diagnosis((Finding("copies", "warn", "some", "Look."),), (), {})
    assert main(DOCTOR) == 0


def test_json_holds_everything_even_where_a_check_failed(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.diagnosis = Diagnosis((GOOD, BAD), (ROW,), {"estimate": {"seconds": 1.5}})
    assert main([*DOCTOR, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert [line["verdict"] for line in found["findings"]] == ["pass", "fail"]
    assert found["numbers"]["estimate"]["seconds"] == 1.5
    assert found["shown"][0]["pieces"] == [["Say [b]hi[/b].\n", False], ["hi", True]]


def test_json_is_one_object_even_where_nothing_can_be_opened(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stdout was empty, which no JSON reader takes."""
    pipeline.error = DatasetError("There is no file d.jsonl. Check the path.")
    assert main([*DOCTOR, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["verdict"] == "fail"
    assert found["findings"][0]["finding"] == "There is no file d.jsonl. Check the path."


def test_the_words_of_a_score_command_are_all_taken(pipeline: FakePipeline) -> None:
    pipeline.diagnosis = Diagnosis((GOOD,), (), {})
    words = ["--output", "s.parquet", "--overwrite", "--views", "2", "--engine", "loop", "--momentum", "0.5"]
    assert main([*DOCTOR, *words]) == 0
    assert pipeline.configs[0].table.output == "s.parquet"


def test_the_middle_of_long_pieces_is_left_out() -> None:
    pieces = [("a" * 100 + "b" * 100, False), ("short", True)]
    assert shortened(pieces, at_most=100) == [("a" * 25 + " … " + "b" * 25, False), ("short", True)]
    assert shortened([], at_most=100) == []
