"""How far the same estimate is off on runs that are finished: today's cost per token against the time they took.

Estimates are not written down anywhere. What a finished table says of itself (its rows' lengths, its views, the seconds
of its scoring pass) is enough to estimate it now, and then both can be compared.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradscore.config import RunConfig, from_mapping, to_mapping
from gradscore.doctor.estimate import scoring_seconds
from gradscore.doctor.measure import Cost
from gradscore.errors import ConfigError, TableError
from gradscore.model.load import LoadedModel
from gradscore.records import OK
from gradscore.scores.sweep import Sweep
from gradscore.table.read import read_table

TABLES_AT_MOST = 20
"""Newest tables of the folder that are looked at."""
MAY_DIFFER = {
    "model": ("views", "members", "cross_fit", "include_base", "warmup_steps", "update_interval",
              "warmup_batch_size", "learning_rate", "checkpoints", "device", "revision"),
    "gradients": ("check", "clip", "calibration_rows", "layer_normalise", "reduction"),
    "scores": ("momentum", "epsilon", "gsnr_paper"),
}  # fmt: skip
"""Settings that change the scores or the number of views, but not what a token under one view costs."""


@dataclass(frozen=True)
class PastRun:
    """A finished run, with what it took and what the estimate says it should have taken."""

    table: str
    n_rows: int
    took_seconds: float
    estimated_seconds: float

    @property
    def ratio(self) -> float:
        """Estimated over taken: 1 is exact, 2 is twice too long."""
        return self.estimated_seconds / self.took_seconds


def past_runs(config: RunConfig, loaded: LoadedModel, sweep: Sweep, cost: Cost) -> tuple[PastRun, ...]:
    """Return the finished runs of this model beside `--output`, scored without interruption, newest first."""
    if config.table.output is None:
        return ()
    folder = Path(config.table.output).expanduser().parent
    tables = sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = [_past_run(path, config, loaded, sweep, cost) for path in tables[:TABLES_AT_MOST]]
    return tuple(run for run in found if run is not None)


def _past_run(path: Path, config: RunConfig, loaded: LoadedModel, sweep: Sweep, cost: Cost) -> PastRun | None:
    try:
        table = read_table(path, ["n_tokens", "status"], lists=False)
        scored_with = from_mapping(
            table.metadata["config"]
        )  # options that it did not know have their default
    except (TableError, ConfigError):  # another Parquet file, or a table of another release
        return None
    timing = table.metadata.get("timing", {})
    is_same = (
        table.metadata["model"]["fingerprint"] == loaded.fingerprint
        and table.metadata["model"]["description"] == loaded.description
        and table.metadata["gradients"]["engine"] == sweep.engine.name
        and _costly(scored_with) == _costly(config)
        and timing.get("rows_scored") == len(table)
    )
    lengths = table.numbers("n_tokens")[table.texts("status") == OK].astype("int64")
    if not is_same or not timing.get("scoring_seconds") or not len(lengths):
        return None
    n_views = len(table.metadata["views"])
    seconds = scoring_seconds(
        lengths, n_views, cost, max_tokens=sweep.max_batch_tokens, max_rows=sweep.max_rows()
    )
    return PastRun(str(path), len(table), float(timing["scoring_seconds"]), seconds)


def _costly(config: RunConfig) -> dict[str, dict[str, Any]]:
    settings = to_mapping(config)
    return {
        section: {name: value for name, value in settings[section].items() if name not in left_out}
        for section, left_out in MAY_DIFFER.items()
    }
