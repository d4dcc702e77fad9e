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
        "s.parquet: 8 rows in 4 s, 2.00 rows/s",
        "  status: 8 ok",
        "  gsnr floor: 0.5774",
        "  engine: hooks",
    ]
    assert "Next: gradscore filter s.parquet" in captured.err


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
