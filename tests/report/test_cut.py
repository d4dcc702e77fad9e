"""Tests gradscore.report.cut: the cut lies between kept and dropped, and near rows are undecided."""

from pathlib import Path

import numpy as np
import pytest

from gradscore.config import FilterConfig
from gradscore.filter.decide import decide
from gradscore.report.cut import Cut, find_cut
from gradscore.table.read import read_table
from tests.table.rows import scored, write_table


def cut_of(path: Path, **options: str | bool) -> Cut:
    config = FilterConfig(**options)
    table = read_table(path)
    return find_cut(table, decide(table, config), config)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [scored(i, gsnr=10.0 - i, gsnr_se=1.0, loss=float(i), category="ab"[i % 2]) for i in range(10)]
    return write_table(tmp_path / "scores.parquet", rows)


def test_the_cut_lies_midway_and_rows_within_their_error_are_undecided(path: Path) -> None:
    cut = cut_of(path, top_k="4")
    assert cut.value == 6.5
    assert cut.error_column == "gsnr_se"
    assert np.flatnonzero(cut.undecided).tolist() == [3, 4]


def test_errors_are_carried_through_a_division_by_quantiles(path: Path) -> None:
    cut = cut_of(path, top_k="4", normalize="quantile:1")
    # Category a is divided by 10, b by 9, and so are their errors.
    assert cut.value == pytest.approx((7 / 9 + 6 / 10) / 2, abs=0.1)
    table = read_table(path)
    scores = np.array([(10.0 - i) / (10 if i % 2 == 0 else 9) for i in range(10)])
    errors = np.array([1 / (10 if i % 2 == 0 else 9) for i in range(10)])
    assert cut.value is not None
    assert np.array_equal(cut.undecided, np.abs(scores - cut.value) <= errors)
    assert len(table) == 10


@pytest.mark.parametrize("options", [{"normalize": "rank"}, {"normalize": "zscore"}, {"by": "loss"}])
def test_where_no_error_fits_nothing_is_undecided(path: Path, options: dict[str, str]) -> None:
    cut = cut_of(path, top_k="4", **options)
    assert cut.value is not None
    assert cut.error_column is None
    assert not cut.undecided.any()


def test_without_a_top_k_cut_there_is_no_place(path: Path) -> None:
    assert cut_of(path, minimum="gsnr=3").value is None
    assert cut_of(path, top_k="1.0").value is None


def test_members_tell_the_error_before_the_jackknife(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(20.0, 2.0, 200)
    rows = [scored(i, gsnr=float(v), gsnr_se=50.0, gsnr_spread=0.1) for i, v in enumerate(values)]
    views = [{"member": member} for member in (0, 1)]
    table = read_table(write_table(tmp_path / "scores.parquet", rows, views=views))
    config = FilterConfig(top_k="0.5")
    cut = find_cut(table, decide(table, config), config)
    assert cut.error_column == "gsnr_spread"
    error = 0.1 / np.sqrt(0.455) / np.sqrt(2)
    assert cut.value is not None
    assert cut.undecided.sum() == (np.abs(table.numbers("gsnr") - cut.value) <= error).sum() < 40


def test_a_column_of_empty_errors_is_no_error(tmp_path: Path) -> None:
    """Two views give no standard error; the report then said that no row was too near to the cut."""
    rows = [scored(i, gsnr=10.0 - i, gsnr_se=None) for i in range(10)]
    cut = cut_of(write_table(tmp_path / "scores.parquet", rows), top_k="4")
    assert cut.error_column is None
    assert not cut.undecided.any()
