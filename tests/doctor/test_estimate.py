"""Tests doctor/estimate.py: the sum over the batches that the run makes, scaled to all rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscore.doctor.estimate import Estimate, estimate, scoring_seconds, views_of_run
from gradscore.doctor.measure import Cost
from gradscore.doctor.rows import RowPass
from gradscore.run.make_views import planned_views
from tests.doctor.cases import small_sweep

COST = Cost(
    lengths=(10, 100),
    shared_seconds=(1e-3, 3e-3),
    view_seconds=(2e-3, 4e-3),
    step_seconds=5e-3,
    n_tokens=500,
    n_views=2,
    has_longest=True,
    row_bytes=100.0,
    view_bytes=1000.0,
    peak_bytes=10**6,
)
FLAT = replace(COST, lengths=(10,), shared_seconds=(0.0,), view_seconds=(1.0,))


def of_run(model: Path, dataset: Path, cost: Cost = COST, **options: Any) -> tuple[Estimate, RowPass]:
    """Return the estimate of a run over the tiny dataset."""
    with small_sweep(model=model, dataset=dataset, **options) as (config, sweep, rows, _):
        return estimate(config, rows, sweep, views_of_run(config.model, sweep), cost, 7.0), rows


def test_seconds_are_padded_tokens_times_views_times_cost_of_a_token() -> None:
    lengths = np.array([10, 30, 20])
    # Batches of at most 60 padded tokens: [30, 20], then [10].
    assert scoring_seconds(lengths, 3, FLAT, max_tokens=60, max_rows=None) == 3 * (2 * 30 + 10)
    assert scoring_seconds(lengths, 3, FLAT, max_tokens=60, max_rows=1) == 3 * (30 + 20 + 10)
    assert scoring_seconds(np.array([], dtype=np.int64), 3, FLAT, max_tokens=60, max_rows=None) == 0


def test_cost_is_interpolated_between_measured_lengths_and_held_beyond() -> None:
    def per_token(length: int, n_views: int) -> float:
        return scoring_seconds(np.array([length]), n_views, COST, max_tokens=1, max_rows=None) / length

    assert per_token(5, 1) == pytest.approx(1e-3 + 2e-3)
    assert per_token(55, 4) == pytest.approx(2e-3 + 4 * 3e-3)
    assert per_token(900, 2) == pytest.approx(3e-3 + 2 * 4e-3)


def test_the_estimate_is_over_the_batches_that_the_run_makes(model: Path, dataset: Path) -> None:
    with small_sweep(model=model, dataset=dataset, max_batch_tokens=300) as (config, sweep, rows, _):
        views = views_of_run(config.model, sweep)
        found = estimate(config, rows, sweep, views, FLAT, 0.0)
        padded = sum(
            len(batch) * max(row.n_tokens for row in batch)
            for batch in replace(sweep, views=views).batches(rows.kept)
        )
    assert found.scoring_seconds == len(views) * padded
    assert found.n_rows == 20


@pytest.mark.parametrize(
    "options",
    [
        {"views": 3, "members": 2},
        {"views": 3, "include_base": True},
        {"view_source": "single"},
        {"view_source": "dropout", "views": 5},
    ],
)
def test_views_are_those_of_the_real_run(model: Path, dataset: Path, options: dict[str, Any]) -> None:
    with small_sweep(model=model, dataset=dataset, **options) as (config, sweep, _, _):
        views = views_of_run(config.model, sweep)
    per_member, members = planned_views(config.model)
    assert len(views) == per_member * members
    assert len({view.name for view in views}) == len(views)


def test_a_sample_stands_for_all_rows(model: Path, dataset: Path) -> None:
    with small_sweep(model=model, dataset=dataset) as (config, sweep, rows, _):
        views = views_of_run(config.model, sweep)
        of_all = estimate(config, rows, sweep, views, COST, 0.0)
        of_more = estimate(config, replace(rows, n_rows=10 * rows.n_rows), sweep, views, COST, 0.0)
    assert of_more.scoring_seconds == pytest.approx(10 * of_all.scoring_seconds)
    assert of_more.tokens_per_second == pytest.approx(of_all.tokens_per_second)
    assert of_more.n_rows == 10 * of_all.n_rows
    assert of_more.warmup_seconds == of_all.warmup_seconds  # its steps are given


def test_parts_add_up(model: Path, dataset: Path) -> None:
    found, _ = of_run(model, dataset)
    parts = (found.reading_seconds, found.warmup_seconds, found.scoring_seconds, found.check_seconds)
    assert found.seconds == sum(parts)
    assert all(part > 0 for part in parts)


def test_the_warm_up_costs_its_steps(model: Path, dataset: Path) -> None:
    found, rows = of_run(model, dataset)
    # Five steps of eight rows; padded, they are at least their own tokens and at most as long as the longest.
    per_step = 5 * 8 * COST.step_seconds
    assert per_step * rows.lengths.mean() * 0.8 < found.warmup_seconds < per_step * rows.lengths.max()
    assert of_run(model, dataset, view_source="single")[0].warmup_seconds == 0


def test_what_is_not_done_costs_nothing(model: Path, dataset: Path) -> None:
    assert of_run(model, dataset)[0].check_seconds == 7.0
    assert of_run(model, dataset, check=False)[0].check_seconds == 0.0


def test_calibration_is_part_of_scoring(model: Path, dataset: Path) -> None:
    plain, _ = of_run(model, dataset)
    calibrated, _ = of_run(model, dataset, layer_normalise=True, calibration_rows=5)
    assert calibrated.scoring_seconds == pytest.approx(1.25 * plain.scoring_seconds)


def test_disk_holds_snapshots_parts_and_hidden_states(model: Path, dataset: Path) -> None:
    plain, rows = of_run(model, dataset, lora_layers="last:1")
    assert plain.disk_bytes == 3 * 100 * 20 + 3 * 1000
    cached, _ = of_run(model, dataset, lora_layers="last:1", cache_trunk=True)
    assert cached.disk_bytes - plain.disk_bytes == rows.lengths.sum() * 16 * 4


def test_memory_grows_with_views_and_starts_at_what_was_measured(model: Path, dataset: Path) -> None:
    few, _ = of_run(model, dataset, views=2)
    many, _ = of_run(model, dataset, views=6)
    assert 10**6 < few.peak_bytes < many.peak_bytes
