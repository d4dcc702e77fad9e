"""Tests filter/advice.py: the better column is pointed out where a validation is sure of it, and `auto` takes it."""

from pathlib import Path
from typing import Any

import pytest

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError
from gradscore.filter.advice import read_advice, resolve_by
from gradscore.table.read import ScoreTable, read_table
from tests.table.rows import scored, write_table

GSNR = {"name": "gsnr", "better": "high", "auroc": {"value": 0.6, "low": 0.55, "high": 0.65}}
LOSS = {"name": "loss", "better": "low", "auroc": {"value": 0.87, "low": 0.83, "high": 0.91}}


def table(folder: Path, best: Any, default: Any = GSNR) -> ScoreTable:
    evidence = {"best_column": best, "default_column": default}
    quality = {"evidence": evidence, "fitted_on": {"dataset": "rows.jsonl"}}
    return read_table(write_table(folder / "s.parquet", [scored(0), scored(1)], quality=quality))


def test_the_better_column_is_pointed_out_and_the_ranking_stays(tmp_path: Path) -> None:
    config, said = resolve_by(table(tmp_path, LOSS), FilterConfig())
    assert config == FilterConfig()
    assert said == [
        "On faults planted in rows.jsonl, loss reached AUROC 0.87 [0.83, 0.91] against 0.60 [0.55, 0.65] of gsnr: "
        "rank with --by loss --ascending (or --by auto)."
    ]


def test_auto_ranks_by_the_better_column_and_says_so(tmp_path: Path) -> None:
    config, said = resolve_by(table(tmp_path, LOSS), FilterConfig(by="auto"))
    assert (config.by, config.ascending) == ("loss", True)
    assert said == ["--by auto: loss, AUROC 0.87 [0.83, 0.91] on faults planted in rows.jsonl."]


def test_a_user_who_names_a_column_is_left_alone(tmp_path: Path) -> None:
    config, said = resolve_by(table(tmp_path, LOSS), FilterConfig(by="grad_norm"))
    assert (config.by, said) == ("grad_norm", [])


def test_a_column_that_is_not_surely_better_is_not_pointed_out(tmp_path: Path) -> None:
    unsure = {**LOSS, "auroc": {"value": 0.65, "low": 0.59, "high": 0.7}}
    assert resolve_by(table(tmp_path, unsure), FilterConfig())[1] == []


def test_gsnr_itself_needs_no_pointing_out(tmp_path: Path) -> None:
    assert resolve_by(table(tmp_path, GSNR), FilterConfig())[1] == []


def test_without_an_estimate_of_gsnr_the_other_is_pointed_out(tmp_path: Path) -> None:
    for number, default in enumerate((None, {**GSNR, "auroc": None})):
        folder = tmp_path / str(number)
        folder.mkdir()
        (line,) = resolve_by(table(folder, LOSS, default), FilterConfig())[1]
        assert "against" not in line


@pytest.mark.parametrize("best", [None, {**LOSS, "name": "ifd"}])
def test_without_a_column_that_the_table_has_there_is_no_advice(tmp_path: Path, best: Any) -> None:
    found = table(tmp_path, best)
    assert read_advice(found) is None
    assert resolve_by(found, FilterConfig())[1] == []
    with pytest.raises(
        ConfigError, match=r"--by auto ranks by the column .* records none\. Run `gradscore validate`"
    ):
        resolve_by(found, FilterConfig(by="auto"))


def test_a_table_without_quality_has_no_advice(tmp_path: Path) -> None:
    assert read_advice(read_table(write_table(tmp_path / "s.parquet", [scored(0)]))) is None


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            "finds faults",
            "quality was fitted on rows.jsonl with tiny, AUROC 0.87 [0.83, 0.91] on planted faults.",
        ),
        (
            "does not find faults",
            "Warning: quality was fitted on rows.jsonl with tiny, AUROC 0.87 [0.83, 0.91] on planted faults: it does not find "
            "them. Do not filter by it.",
        ),
    ],
)
def test_who_ranks_by_quality_is_told_what_it_is_worth(tmp_path: Path, verdict: str, said: str) -> None:
    evidence = {"auroc": {"all": LOSS["auroc"]}, "verdict": verdict}
    fitted_on = {"dataset": "rows.jsonl", "language_model": {"name": "tiny"}}
    quality = {"evidence": evidence, "fitted_on": fitted_on}
    scores = read_table(write_table(tmp_path / "s.parquet", [scored(0), scored(1)], quality=quality))
    assert resolve_by(scores, FilterConfig(by="quality")) == (FilterConfig(by="quality"), [said])
