"""Tests cli/filter.py: the table stands without a flag, and the counts are printed."""

import pytest

from gradscore.cli.main import main
from tests.cli.conftest import FakePipeline


def test_filter_prints_what_was_kept_and_why(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["filter", "s.parquet", "--top-k", "25%", "--output", "k.jsonl"]) == 0
    (config,) = pipeline.configs
    assert (config.filter.table, config.filter.top_k, config.emit.output) == ("s.parquet", "25%", "k.jsonl")
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "k.jsonl: kept 2 of 8 rows (25.0%)",
        "         2 kept: top-k",
        "         6 past the cut",
        "  manifest: k.jsonl.manifest.json",
        "  dropped rows with their reasons: k.jsonl.dropped.parquet",
    ]
    assert captured.err == "the cut lies at gsnr 1.5\n"


def test_table_and_output_are_asked_for_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter"]) == 2
    message = capsys.readouterr().err
    assert "TABLE is missing" in message
    assert "--output is missing" in message
