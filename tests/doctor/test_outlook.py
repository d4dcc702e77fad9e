"""Tests doctor/outlook.py: numbers in a person's units, and a run that does not fit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradscore.doctor.estimate import Estimate
from gradscore.doctor.outlook import disk_check, duration, memory_check, past_line, size, time_line
from gradscore.doctor.past import PastRun
from tests.doctor.test_estimate import COST

FOUND = Estimate(1.0, 60.0, 7000.0, 2.0, 123.4, 2 * 10**9, 10**7, 4, 300)
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (59.0, "59 s"), (150.0, "2 min"), (7200.0, "2.0 h")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_sizes() -> None:
    assert size(1_234_567) == "1.2 MB"
    assert size(2_500_000_000) == "2.5 GB"


def test_time_names_its_parts_and_what_was_measured() -> None:
    line = time_line(replace(FOUND, warmup_seconds=0.0), COST)
    assert line.finding == (
        "about 1.9 h: reading 1 s + self-check 2 s + 4 views of 300 rows 1.9 h; 123 tokens/s under all views "
        "(measured on 500 tokens, rows of 10 to 100)"
    )


def test_past_runs_say_how_far_the_estimate_is_off() -> None:
    assert "none is looked for" in past_line([], has_output=False).finding
    good = past_line([PastRun("/a/s.parquet", 10, 100.0, 80.0)], has_output=True)
    assert (good.verdict, good.finding) == (
        "pass",
        "scoring pass of s.parquet took 2 min, estimated now 80 s (-20 %)",
    )
    bad = past_line([PastRun("/a/s.parquet", 10, 100.0, 300.0)], has_output=True)
    assert bad.verdict == "warn"
    assert "(+200 %)" in bad.finding


@pytest.mark.parametrize(("peak", "verdict"), [(10**6, "pass"), (10**15, "fail")])
def test_memory_must_fit(peak: int, verdict: str) -> None:
    line = memory_check(replace(FOUND, peak_bytes=peak), COST, CPU)
    assert line.verdict == verdict
    assert ("--max-batch-tokens" in line.advice) == (verdict == "fail")


def test_memory_that_was_not_seen_at_its_longest_is_a_lower_bound() -> None:
    assert "peak at least 2.0 GB" in memory_check(FOUND, replace(COST, has_longest=False), CPU).finding


@pytest.mark.parametrize(("needed", "verdict"), [(10, "pass"), (10**18, "fail")])
def test_disk_must_fit_where_the_output_will_be(tmp_path: Path, needed: int, verdict: str) -> None:
    line = disk_check(replace(FOUND, disk_bytes=needed), str(tmp_path / "new" / "s.parquet"))
    assert line.verdict == verdict
    assert line.finding.endswith(f"free in {tmp_path}")
