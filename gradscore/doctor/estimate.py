"""Time, memory and disk of the whole run, from what a few batches cost: plain arithmetic, said part by part.

Rows of the sample are cut into batches just as the run cuts its own, each batch costs what its length costs, and the sum is
scaled from the sample to all rows. What nobody else does on the machine now is not known; an estimate holds as far as
the machine stays as busy as it was.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradscore.config import ModelConfig, RunConfig
from gradscore.data.batch import plan_batches
from gradscore.doctor.measure import Cost
from gradscore.doctor.rows import RowPass
from gradscore.model.forward import base_model
from gradscore.model.views import View, with_base
from gradscore.model.warmup import WarmupPlan, plan_warmup
from gradscore.run.make_views import views_per_member
from gradscore.run.sweep_rows import ROWS_PER_WINDOW
from gradscore.scores.sweep import Sweep

STEPS_SIMULATED = 50
TOKEN_BYTES = 9
"""Of a row in memory: an id of eight bytes and a mask of one."""
COPIES_ON_DISK = 3
"""Parts, sorted parts and table are on disk together while the table is joined."""


@dataclass(frozen=True)
class Estimate:
    """What the whole run will take, about."""

    reading_seconds: float
    """Reading and tokenising: once to survey the rows, once to score them."""
    warmup_seconds: float
    scoring_seconds: float
    """Calibration of layers included."""
    check_seconds: float
    tokens_per_second: float
    """Tokens of rows, padding not counted, each under all views, in the scoring pass."""
    peak_bytes: int
    disk_bytes: int
    n_views: int
    n_rows: int

    @property
    def seconds(self) -> float:
        """The whole run, without loading the model."""
        return self.reading_seconds + self.warmup_seconds + self.scoring_seconds + self.check_seconds


def views_of_run(config: ModelConfig, sweep: Sweep) -> tuple[View, ...]:
    """Return the views of the real run, whose warm-up the small one cuts short; others are as they are."""
    if config.view_source != "warmup":
        return sweep.views
    views = [
        View(f"member-{member}/{step}", "adapter", member, step)
        for member in range(config.members)
        for step in range(config.views)
    ]
    return tuple(with_base(views) if config.include_base else views)


def estimate(
    config: RunConfig, rows: RowPass, sweep: Sweep, views: Sequence[View], cost: Cost, check_seconds: float
) -> Estimate:
    """Return what the run over all chosen rows will take."""
    cutting = replace(sweep, views=tuple(views))
    scale = rows.n_rows / max(1, rows.n_tokenised)
    scoring = scale * scoring_seconds(
        rows.lengths, len(views), cost, max_tokens=sweep.max_batch_tokens, max_rows=cutting.max_rows()
    )
    trained = _warmup_plan(config, rows, views)
    n_trained = min(
        rows.n_usable, max(trained.rows_trained if trained else 0, config.gradients.calibration_rows)
    )
    surveyed = n_trained / max(1, rows.n_usable)
    calibrated = min(1.0, config.gradients.calibration_rows / max(1, rows.n_usable))
    return Estimate(
        reading_seconds=2 * rows.read_seconds + (1 + surveyed) * scale * rows.tokenise_seconds,
        warmup_seconds=_warmup_seconds(trained, rows.lengths, cost, sweep.max_batch_tokens)
        if trained
        else 0.0,
        scoring_seconds=scoring * (1 + (calibrated if config.gradients.layer_normalise else 0.0)),
        check_seconds=check_seconds if config.gradients.check else 0.0,
        tokens_per_second=scale * float(rows.lengths.sum()) / scoring if scoring > 0 else 0.0,
        peak_bytes=_peak_bytes(rows, cutting, cost, n_trained),
        disk_bytes=_disk_bytes(config, rows, sweep, trained, cost),
        n_views=len(views),
        n_rows=rows.n_usable,
    )


def scoring_seconds(
    lengths: NDArray[np.int64], n_views: int, cost: Cost, *, max_tokens: int, max_rows: int | None
) -> float:
    """Return the seconds of a scoring pass over rows of these lengths."""
    total = 0.0
    for start in range(0, len(lengths), ROWS_PER_WINDOW):
        window = lengths[start : start + ROWS_PER_WINDOW].tolist()
        for places in plan_batches(window, max_tokens, max_rows):
            longest = max(window[i] for i in places)
            per_token = _at(longest, cost.lengths, cost.shared_seconds)
            per_token += n_views * _at(longest, cost.lengths, cost.view_seconds)
            total += len(places) * longest * per_token
    return total


def _at(length: int, lengths: Sequence[int], values: Sequence[float]) -> float:
    return float(np.interp(length, lengths, values))


def _warmup_plan(config: RunConfig, rows: RowPass, views: Sequence[View]) -> WarmupPlan | None:
    if config.model.view_source != "warmup":
        return None
    folds = config.model.members if config.model.cross_fit else 1
    return plan_warmup(round(rows.n_usable * (1 - 1 / folds if folds > 1 else 1)), config.model)


def _warmup_seconds(plan: WarmupPlan, lengths: NDArray[np.int64], cost: Cost, max_tokens: int) -> float:
    """Return the seconds of all warm-up steps, their padding found on steps drawn at random."""
    draw = random.Random(0)
    padded = 0
    for _ in range(STEPS_SIMULATED):
        step = draw.choices(lengths.tolist(), k=plan.batch_size)
        padded += sum(len(places) * max(step[i] for i in places) for places in plan_batches(step, max_tokens))
    return plan.members * plan.steps * padded / STEPS_SIMULATED * cost.step_seconds


def _peak_bytes(rows: RowPass, sweep: Sweep, cost: Cost, n_trained: int) -> int:
    """Return the measured peak, and what the run holds beyond it: gradients of more views, their weights, rows."""
    numbers = sum(sweep.reduction.n_kept(sweep.model.get_parameter(p.name).shape) for p in sweep.parameters)
    batches = plan_batches(rows.lengths[:ROWS_PER_WINDOW].tolist(), sweep.max_batch_tokens, sweep.max_rows())
    rows_at_once = max(map(len, batches), default=0)
    more_views = max(0, views_per_member(sweep.views) - cost.n_views)
    kept_tokens = n_trained * float(rows.lengths.mean() if len(rows.lengths) else 0.0)
    weights = max(0, len(sweep.views) - cost.n_views) * cost.view_bytes
    return round(
        cost.peak_bytes + more_views * rows_at_once * numbers * 4 + weights + kept_tokens * TOKEN_BYTES
    )


def _disk_bytes(
    config: RunConfig, rows: RowPass, sweep: Sweep, trained: WarmupPlan | None, cost: Cost
) -> int:
    snapshots = trained.members * trained.views * cost.view_bytes if trained else 0.0
    hidden = 0.0
    if config.model.cache_trunk and sweep.trunk is not None:
        weight = next(sweep.model.parameters())
        width = base_model(sweep.model).config.get_text_config().hidden_size
        hidden = rows.n_usable * float(rows.lengths.mean()) * width * weight.element_size()
    return round(COPIES_ON_DISK * cost.row_bytes * rows.n_rows + snapshots + hidden)
