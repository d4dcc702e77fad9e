"""Tests cli/score.py: results on stdout, the rest on stderr, and exit code 3 for rows that failed."""

import pytest

from gradscore.cli.main import main
from tests.cli.conftest import FakePipeline

SCORE = ["score", "--dataset", "d.jsonl", "--model", "m", "--output", "s.parquet"]


def test_the_result_goes_to_stdout_and_the_next_step_to_stderr(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(SCORE) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "s.parquet: 8 rows; 8 of them scored now, in 4 s (2.00 rows/s in the scoring pass)",
        "  status: 8 ok",
        "  gsnr floor: 0.577",
        "  engine: hooks",
        "  gsnr quartiles: 1, 2, 3",
    ]
    assert "Next: gradscore filter s.parquet --top-k 0.3" in captured.err


def test_a_warning_about_the_order_changes_the_next_step(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.warning = "Warning: mostly noise."
    assert main(SCORE) == 0
    errors = capsys.readouterr().err
    assert "Warning: mostly noise." in errors
    assert "Next: gradscore filter s.parquet --by loss --ascending --top-k 0.3" in errors


def test_the_next_step_is_the_column_that_a_validation_found(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.advised_by = "quality"
    assert main(SCORE) == 0
    assert "Next: gradscore filter s.parquet --by auto --top-k 0.3" in capsys.readouterr().err


def test_quiet_leaves_stderr_empty(pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SCORE, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"ok": 8}, 0),
        ({"ok": 5, "no_target_tokens": 2, "too_long": 1}, 0),
        ({"ok": 8, "non_finite": 0}, 0),
        ({"ok": 7, "non_finite": 1}, 3),
        ({"ok": 7, "invalid: not JSON": 1}, 3),
        ({"ok": 7, "invalid": 1}, 3),
        ({}, 0),
    ],
)
def test_rows_that_failed_are_3_and_rows_left_out_by_choice_are_not(
    pipeline: FakePipeline, counts: dict[str, int], code: int
) -> None:
    pipeline.status_counts = counts
    assert main(SCORE) == code
