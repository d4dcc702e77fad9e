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
PLACES = (1.0, 0.5, 0.0)
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


def measure(sweep: Sweep, planned: Sequence[View], rows: Sequence[EncodedRow], views_folder: Path) -> Cost:
    """Return the cost of batches that the real run would make of these rows under the `planned` views."""
    plan = sorted(
        replace(sweep, views=tuple(planned)).batches(rows), key=lambda b: -max(row.n_tokens for row in b)
    )
    places = sorted({round((len(plan) - 1) * place) for place in PLACES}, reverse=True)
    timed = replace(sweep, views=sweep.views[-2:])
    views_alone = replace(timed, measuring=None)
    lengths: list[int] = []
    shared: list[float] = []
    per_view: list[float] = []
    scored: list[ScoredRow] = []
    n_tokens, spent, longest_done = 0, 0.0, False
    with sweep.switch:
        _score(timed, plan[places[0]])  # the first call pays for what is only set up once
        for place in places:
            batch = plan[place]
            padded = len(batch) * max(row.n_tokens for row in batch)
            # A batch costs at least as much per token as the one before, about.
            if lengths and spent + padded * (shared[-1] + per_view[-1] * len(timed.views)) > SECONDS_AT_MOST:
                break
            once, _ = _timed(timed, partial(timed.collate, batch))
            whole, _ = _timed(timed, partial(_score, views_alone, batch))
            measured, found = _timed(timed, partial(_score, timed, batch))
            once += max(0.0, measured - whole)  # what measures take besides the views' passes, they take once
            scored += found
            lengths.append(max(row.n_tokens for row in batch))
            shared.append(once / padded)
            per_view.append(max(0.0, measured - once) / padded / len(timed.views))
            n_tokens, spent, longest_done = n_tokens + padded, spent + whole + measured, place == 0
    return Cost(
        lengths=tuple(lengths),
        shared_seconds=tuple(shared),
        view_seconds=tuple(per_view),
        step_seconds=_step_seconds(timed, plan[places[len(places) // 2]]) if _is_trained(planned) else 0.0,
        n_tokens=n_tokens,
        n_views=len(timed.views),
        has_longest=longest_done,
        row_bytes=_row_bytes(scored, () if sweep.measuring is None else sweep.measuring.names),
        view_bytes=_view_bytes(views_folder, sweep) if _is_trained(planned) else 0.0,
        peak_bytes=peak_bytes(next(sweep.model.parameters()).device),
    )


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


def _row_bytes(rows: Sequence[ScoredRow], measures: tuple[str, ...]) -> float:
    return max(0, _table_bytes(rows, measures) - _table_bytes([], measures)) / max(1, len(rows))


def _table_bytes(rows: Sequence[ScoredRow], measures: tuple[str, ...]) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(to_arrow(rows, measures), sink, compression="zstd")
    return sink.getvalue().size


def _view_bytes(folder: Path, sweep: Sweep) -> float:
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(files) / len(sweep.views)


def _is_trained(views: Sequence[View]) -> bool:
    return any(view.name.startswith("member-") and view.kind == "adapter" for view in views)


def _synchronise(sweep: Sweep) -> None:
    device = next(sweep.model.parameters()).device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
