"""Scored rows and run folders for the tests of table, filter and emit."""

from pathlib import Path
from typing import Any

from gradscore.records import ScoredRow, SilentReporter
from gradscore.table.parts import PartWriter
from gradscore.table.run import RunFolder

SOURCE: dict[str, Any] = {
    "dataset": "/data/rows.jsonl",
    "format": "jsonl",
    "columns": ["instruction", "output"],
    "n_rows": 5,
    "split": None,
    "subset": None,
    "data_files": None,
}
IDENTITY: dict[str, Any] = {"model": {"name": "tiny", "lora_rank": 8}, "data": {"shard": None}}


def scored(row_index: int, *, side: str | None = None, status: str = "ok", **values: Any) -> ScoredRow:
    """Return a scored row; without a status of its own it has scores that depend on its index."""
    scores: dict[str, Any] = {}
    if status == "ok":
        scores = {"n_views": 4, "loss": 2.0 + row_index, "grad_norm": 0.5, "gsnr": 1.0 / (1 + row_index)}
    fields: dict[str, Any] = {"row_key": f"{row_index:032x}", "category": None, **scores, **values}
    return ScoredRow(
        row_index=row_index,
        source="rows.jsonl",
        side=side,
        status=status,
        n_tokens=12,
        n_target_tokens=6,
        truncated=False,
        **fields,
    )


def metadata(**changes: Any) -> dict[str, Any]:
    """Return what the pipeline puts into a table's footer."""
    return {
        "config": {"data": {"dataset": "/data/rows.jsonl"}},
        "source": SOURCE,
        "identity": IDENTITY,
        "shard": None,
        "noise_floor": 0.5,
        "layer_names": ["layers.0", "layers.1"],
        **changes,
    }


def write_table(output: Path, rows: list[ScoredRow], **changes: Any) -> Path:
    """Write a finished table at `output` as a run would, and return its path."""
    run = RunFolder.open(output, IDENTITY, config_mapping={})
    writer = PartWriter(run, SilentReporter())
    writer.add(rows)
    return writer.finish(metadata(**changes), {(row.row_index, row.side) for row in rows})
