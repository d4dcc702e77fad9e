"""Tests cli/report.py: what was found and written is printed, and a wrong language is the user's mistake."""

from pathlib import Path

import pytest

from gradscore.cli.main import main
from tests.report.tables import make_table


def test_what_was_found_and_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, profile = make_table(tmp_path), tmp_path / "profile.json"
    assert main(["report", str(table), "--top-k", "0.3", "--save-profile", str(profile), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{table}: 12 of 40 rows kept; 2 too near to the cut to be decided",
        "  found: Contradictory: rows pull against each other",
        "  found: The score is mostly loss",
        f"  wrote: {profile}",
    ]


def test_an_unknown_language_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "s.parquet", "--lang", "fr", "--output", "r.html"]) == 2
    assert capsys.readouterr().err == "gradscore: --lang cannot be 'fr'; it takes en or zh.\n"
