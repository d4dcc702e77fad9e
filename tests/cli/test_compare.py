"""Tests cli/compare.py: what agrees and what has left a profile is printed."""

from pathlib import Path

import pytest

from gradscore.cli.main import main
from tests.report.tables import make_table


def test_two_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(make_table(tmp_path))
    assert main(["compare", table, table, "--top-k", "0.25"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "40 rows are in both tables, 0 only in A, 0 only in B"
    (gsnr,) = (line.split() for line in lines if line.startswith("gsnr"))
    assert gsnr == ["gsnr", "1.00", "[1.00,", "1.00]", "10", "100%", "25%"]


def test_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, profile = str(make_table(tmp_path)), str(tmp_path / "p.json")
    assert main(["report", table, "--save-profile", profile, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compare", table, profile]) == 0
    out = capsys.readouterr().out
    assert out.startswith("reference: 40 rows of ")
    assert "0 of " in out
    assert "measures have left its range" in out
