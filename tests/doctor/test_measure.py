"""Tests doctor/measure.py: what is timed, and that a minute is enough."""

from pathlib import Path

import pytest

from gradscore.doctor import measure as module
from gradscore.doctor.estimate import views_of_run
from gradscore.doctor.measure import Cost, measure
from tests.doctor.cases import small_sweep


def cost_of(model: Path, dataset: Path, **options: object) -> Cost:
    """Return the cost of the tiny run's batches."""
    with small_sweep(model=model, dataset=dataset, **options) as (config, sweep, rows, _):
        return measure(sweep, views_of_run(config.model, sweep), rows.kept, dataset.parent)


def test_short_and_long_batches_are_timed(model: Path, dataset: Path) -> None:
    cost = cost_of(model, dataset, max_batch_tokens=150)
    assert len(cost.lengths) == 3
    assert sorted(cost.lengths) == list(cost.lengths)
    assert cost.has_longest
    assert all(seconds > 0 for seconds in cost.view_seconds)
    assert cost.step_seconds > 0
    assert cost.view_bytes > 0
    assert cost.n_views == 2
    assert 20 < cost.row_bytes < 2000
    assert cost.peak_bytes > 10**7


def test_without_a_warm_up_there_is_no_step_and_no_snapshot(model: Path, dataset: Path) -> None:
    cost = cost_of(model, dataset, view_source="single")
    assert (cost.step_seconds, cost.view_bytes, cost.n_views) == (0.0, 0.0, 1)


def test_long_batches_are_left_out_when_time_is_up(
    model: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_AT_MOST", 0.0)
    cost = cost_of(model, dataset, max_batch_tokens=150)
    assert len(cost.lengths) == 1
    assert not cost.has_longest
