"""What the estimate means in words: how long, and whether memory and disk will do."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from gradscore.config import RunConfig
from gradscore.doctor.estimate import Estimate
from gradscore.doctor.finding import Finding
from gradscore.doctor.measure import Cost
from gradscore.doctor.past import PastRun

NEARLY_ALL = 0.8
"""Share of memory or disk from which a run is likely to be in trouble."""


def outlook_findings(
    config: RunConfig, found: Estimate, cost: Cost, past: Sequence[PastRun], device: torch.device
) -> tuple[Finding, ...]:
    """Return the lines about time, memory and disk."""
    return (
        time_line(found, cost),
        past_line(past, has_output=config.table.output is not None),
        memory_check(found, cost, device),
        disk_check(found, config.table.output),
    )


def time_line(found: Estimate, cost: Cost) -> Finding:
    """Return how long the run takes, part by part."""
    parts = {
        "reading": found.reading_seconds,
        "warm-up": found.warmup_seconds,
        "self-check": found.check_seconds,
        f"{found.n_views} views of {found.n_rows:,} rows": found.scoring_seconds,
    }
    shown = " + ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items() if seconds > 0)
    return Finding(
        "time",
        "pass",
        f"about {duration(found.seconds)}: {shown}; {found.tokens_per_second:,.0f} tokens/s under all views "
        f"(measured on {cost.n_tokens:,} tokens, rows of {_between(cost.lengths)})",
    )


def past_line(past: Sequence[PastRun], *, has_output: bool) -> Finding:
    """Return how far the same estimate is off on earlier runs."""
    if not past:
        where = "looked for beside --output" if has_output else "without --output none is looked for"
        return Finding(
            "past runs",
            "pass",
            f"no finished run of this model with these settings to hold the estimate against ({where})",
        )
    shown = "; ".join(
        f"{Path(run.table).name} took {duration(run.took_seconds)}, estimated now {duration(run.estimated_seconds)} "
        f"({run.ratio - 1:+.0%})".replace("%)", " %)")
        for run in past[:3]
    )
    if all(0.5 <= run.ratio <= 2 for run in past[:3]):
        return Finding("past runs", "pass", f"scoring pass of {shown}")
    return Finding(
        "past runs",
        "warn",
        f"scoring pass of {shown}",
        "The estimate is off by more than two: the machine is busier, or idler, than it was then.",
    )


def memory_check(found: Estimate, cost: Cost, device: torch.device) -> Finding:
    """Return whether the peak of memory fits into the GPU, or the machine."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    else:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    least = "" if cost.has_longest else "at least "
    text = f"peak {least}{size(found.peak_bytes)} of {size(total)} on {device}"
    if found.peak_bytes < NEARLY_ALL * total:
        return Finding("memory", "pass", text)
    return Finding(
        "memory",
        "fail" if found.peak_bytes > total else "warn",
        text,
        "Pass a smaller --max-batch-tokens or --max-length, fewer --views, or --dtype bfloat16.",
    )


def disk_check(found: Estimate, output: str | None) -> Finding:
    """Return whether snapshots and table fit on the disk of the output, or of the present folder."""
    folder = Path(output).expanduser().absolute().parent if output is not None else Path.cwd()
    folder = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    text = f"{size(found.disk_bytes)} at most, {size(free)} free in {folder}"
    if found.disk_bytes < NEARLY_ALL * free:
        return Finding("disk", "pass", text)
    return Finding(
        "disk",
        "fail" if found.disk_bytes > free else "warn",
        text,
        "Give --output on a larger disk, keep fewer --views, or leave out --cache-trunk and --sketch.",
    )


def duration(seconds: float) -> str:
    """Return a time in the unit a person would say it in."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def size(n_bytes: float) -> str:
    """Return bytes in MB or GB (10^6, 10^9)."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:,.1f} GB"


def _between(lengths: Sequence[int]) -> str:
    return f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else f"{lengths[0]}"
