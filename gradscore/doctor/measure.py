"""What batches of this model cost on this machine now: seconds per token at several lengths, bytes per row.

Cost per token grows with the length of a row (attention) and falls with it (overhead of short batches), so batches
of several lengths are timed, shortest first, until a minute is spent.
"""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from gradscore.data.batch import collate
from gradscore.gradients.loop import requiring_grad
from gradscore.model.adapter import lora_tensors
from gradscore.model.forward import sample_losses
from gradscore.model.views import View
from gradscore.records import EncodedRow, ScoredRow
from gradscore.scores.sweep import Sweep
from gradscore.table.schema import to_arrow

Result = TypeVar("Result")

SECONDS_AT_MOST = 60.0
PLACES = (0.0, 0.5, 1.0)
"""Which batches of the plan are timed, from the one of the shortest rows to that of the longest."""


@dataclass(frozen=True)
class Cost:
    """What was measured."""

    lengths: tuple[int, ...]
    """Tokens of the longest row of each timed batch, ascending."""
    shared_seconds: tuple[float, ...]
    """Per padded token, once per batch, whatever the number of views."""
    view_seconds: tuple[float, ...]
    """Per padded token and view."""
    step_seconds: float
    """Per padded token of a warm-up step; 0 without a warm-up."""
    n_tokens: int
    """Padded tokens that were timed, each under `n_views` views."""
    n_views: int
    has_longest: bool
    """Whether the batch of the longest rows was among them, which decides the peak of memory."""
    row_bytes: float
    """Of the finished table, per row."""
    view_bytes: float
    """Of one snapshot on disk; 0 where the run keeps none."""
    peak_bytes: int
    """Highest memory of this process (of the GPU, where there is one) so far."""


@dataclass(frozen=True)
class _TimedBatch:
    """One timed batch."""

    length: int
    """Tokens of its longest row."""
    padded: int
    shared: float
    """Seconds per padded token, once per batch."""
    per_view: float
    rows: list[ScoredRow]


def measure(sweep: Sweep, planned: Sequence[View], rows: Sequence[EncodedRow], views_folder: Path) -> Cost:
    """Return the cost of batches that the real run would make of these rows under the `planned` views."""
    batches = replace(sweep, views=tuple(planned)).batches(rows)
    plan = sorted(batches, key=lambda batch: max(row.n_tokens for row in batch))
    places = sorted({round((len(plan) - 1) * place) for place in PLACES})
    sweep = replace(sweep, views=sweep.views[-2:])
    timed: list[_TimedBatch] = []
    with sweep.switch:
        _score(sweep, plan[places[0]])  # the first call pays for what is only set up once
        for place in places:
            if timed and _expected_seconds(timed, plan[place], len(sweep.views)) > SECONDS_AT_MOST:
                break
            timed.append(_time_batch(sweep, plan[place]))
    # A view that is still to be trained is an adapter without a folder.
    is_trained = any(view.kind == "adapter" and view.path is None for view in planned)
    return Cost(
        lengths=tuple(batch.length for batch in timed),
        shared_seconds=tuple(batch.shared for batch in timed),
        view_seconds=tuple(batch.per_view for batch in timed),
        step_seconds=_step_seconds(sweep, plan[places[len(places) // 2]]) if is_trained else 0.0,
        n_tokens=sum(batch.padded for batch in timed),
        n_views=len(sweep.views),
        has_longest=len(timed) == len(places),
        row_bytes=_row_bytes([row for batch in timed for row in batch.rows], sweep),
        view_bytes=_view_bytes(views_folder, len(sweep.views)) if is_trained else 0.0,
        peak_bytes=peak_bytes(next(sweep.model.parameters()).device),
    )


def _time_batch(sweep: Sweep, rows: list[EncodedRow]) -> _TimedBatch:
    """Return what one batch costs; what measures take besides the views' passes, they take once."""
    padded = len(rows) * max(row.n_tokens for row in rows)
    collating, _ = _timed(sweep, partial(sweep.collate, rows))
    without_measures, _ = _timed(sweep, partial(_score, replace(sweep, measuring=None), rows))
    whole, scored = _timed(sweep, partial(_score, sweep, rows))
    once = min(whole, collating + max(0.0, whole - without_measures))
    return _TimedBatch(
        length=max(row.n_tokens for row in rows),
        padded=padded,
        shared=once / padded,
        per_view=(whole - once) / padded / len(sweep.views),
        rows=scored,
    )


def _expected_seconds(timed: Sequence[_TimedBatch], rows: list[EncodedRow], n_views: int) -> float:
    """Return the seconds spent so far and on the next batch, if a token costs in it what it did in the last one."""
    spent = [2 * batch.padded * (batch.shared + n_views * batch.per_view) for batch in timed]
    padded = len(rows) * max(row.n_tokens for row in rows)
    return sum(spent) + spent[-1] * padded / timed[-1].padded


def peak_bytes(device: torch.device) -> int:
    """Return the highest memory so far: of the GPU, or of the whole process where the model is on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _score(sweep: Sweep, batch: list[EncodedRow]) -> list[ScoredRow]:
    return [row for rows in sweep.score(batch) for row in rows]


def _timed(sweep: Sweep, work: Callable[[], Result]) -> tuple[float, Result]:
    """Return the seconds that `work` takes until the device is done with it, and what it returns."""
    _synchronise(sweep)
    started = time.monotonic()
    result = work()
    _synchronise(sweep)
    return time.monotonic() - started, result


def _step_seconds(sweep: Sweep, batch: list[EncodedRow]) -> float:
    """Return the seconds per padded token of a forward and a backward pass to the adapter."""
    collated = collate(batch, sweep.pad_id, next(sweep.model.parameters()).device)

    def step() -> None:
        with requiring_grad([sweep.model.get_parameter(name) for name in lora_tensors(sweep.model)]):
            sample_losses(sweep.model, collated).sum().backward()
            sweep.model.zero_grad()

    seconds, _ = _timed(sweep, step)
    return seconds / collated.input_ids.numel()


def _row_bytes(rows: Sequence[ScoredRow], sweep: Sweep) -> float:
    measures = () if sweep.measuring is None else sweep.measuring.names
    return max(0, _table_bytes(rows, measures) - _table_bytes([], measures)) / max(1, len(rows))


def _table_bytes(rows: Sequence[ScoredRow], measures: tuple[str, ...]) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(rows, measures), sink, compression="zstd")
    return sink.getvalue().size


def _view_bytes(folder: Path, n_views: int) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / n_views


def _synchronise(sweep: Sweep) -> None:
    device = next(sweep.model.parameters()).device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
