"""Tests gradscore.filter.noise: a warning exactly where the errors of gsnr hide its order."""

from pathlib import Path

import numpy as np
import pytest

from gradscore.config import FilterConfig
from gradscore.filter.decide import decide
from gradscore.filter.noise import OrderNoise, order_noise
from gradscore.table.read import read_table
from tests.table.rows import scored, write_table


def table_with_errors(path: Path, error: float | None) -> Path:
    values = np.random.default_rng(0).normal(5.0, 2.0, 400)
    rows = [scored(i, gsnr=float(abs(v)), gsnr_se=error) for i, v in enumerate(values)]
    return write_table(path / "scores.parquet", rows)


def test_spread_of_normal_values_is_their_standard_deviation(tmp_path: Path) -> None:
    noise = order_noise(read_table(table_with_errors(tmp_path, 0.5)))
    assert noise is not None
    assert noise.error == 0.5
    assert noise.spread == pytest.approx(2.0, rel=0.1)
    assert noise.warning is None


def test_errors_as_large_as_the_spread_are_said_by_filter(tmp_path: Path) -> None:
    table = read_table(table_with_errors(tmp_path, 3.0))
    (warning,) = decide(table, FilterConfig(top_k="0.5")).warnings
    assert warning.startswith("Warning: the error of a row's gsnr (3) is as large as the differences")
    assert decide(table, FilterConfig(top_k="0.5", by="loss")).warnings == ()


def test_without_errors_nothing_is_claimed(tmp_path: Path) -> None:
    assert order_noise(read_table(table_with_errors(tmp_path, None))) is None


def test_equal_error_and_spread_count_as_noise() -> None:
    assert OrderNoise(1.0, 1.0).warning is not None


@pytest.mark.parametrize("n_members", [2, 3, 4])
def test_members_tell_how_much_of_the_order_would_be_repeated(tmp_path: Path, n_members: int) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(20.0, 2.0, 20_000)
    members = truth[:, None] + rng.normal(0.0, 1.5, (len(truth), n_members))
    rows = [
        scored(i, gsnr=float(m.mean()), gsnr_se=9.0, gsnr_spread=float(m.std(ddof=1)))
        for i, m in enumerate(members)
    ]
    metadata = {"views": [{"member": member} for member in range(n_members)]}
    noise = order_noise(read_table(write_table(tmp_path / "scores.parquet", rows, **metadata)))
    assert noise is not None
    again = truth + rng.normal(0.0, 1.5, (n_members, len(truth))).mean(0)
    assert noise.reliability == pytest.approx(np.corrcoef(members.mean(1), again)[0, 1], abs=0.03)
    assert noise.warning is None


def test_one_member_has_no_reliability(tmp_path: Path) -> None:
    noise = order_noise(read_table(table_with_errors(tmp_path, 3.0)))
    assert noise is not None
    assert noise.reliability is None
    assert "--members 2" in str(noise.warning)


def test_members_that_disagree_as_much_as_rows_differ_have_none() -> None:
    assert OrderNoise(2.0, 1.0, n_members=2).reliability == 0.0
    assert OrderNoise(0.0, 0.0, n_members=2).reliability == 0.0
