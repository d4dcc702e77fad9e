"""Small datasets with their score tables and decisions, for the tests of emit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradscore.config import DataConfig, EmitConfig, FilterConfig
from gradscore.data.read import open_source
from gradscore.emit.dataset import emit
from gradscore.emit.manifest import EmitSummary
from gradscore.emit.outputs import plan_outputs
from gradscore.emit.source import reopen_source
from gradscore.filter.decide import decide
from gradscore.records import SilentReporter
from gradscore.table.read import ScoreTable, read_table
from tests.table.rows import scored, write_table


def score(dataset: Path, folder: Path, keep: Sequence[int], only: Sequence[int] | None = None) -> ScoreTable:
    """Return a table of the dataset in which the rows of `keep` have gsnr 1 and all others 0."""
    source = open_source(DataConfig(dataset=str(dataset), skip_bad_rows=True))
    rows = [
        scored(row.row_index, row_key=row.row_key, gsnr=1.0 if row.row_index in keep else 0.0, category="c")
        if row.problem is None
        else scored(row.row_index, row_key=row.row_key, status=f"invalid: {row.problem}")
        for row in source.rows()
        if only is None or row.row_index in only
    ]
    return read_table(write_table(folder / "scores.parquet", rows, source=asdict(source.record)))


def filter_to(
    table: ScoreTable, output: Path, *, dataset: Path | None = None, overwrite: bool = False, **options: Any
) -> EmitSummary:
    """Filter the table with --min-gsnr 0.5 into `output`, as the pipeline does."""
    decisions = decide(table, FilterConfig(**{"min_gsnr": 0.5, **options}))
    source = reopen_source(table, str(dataset) if dataset else None)
    outputs = plan_outputs(
        EmitConfig(output=str(output), overwrite=overwrite), source.record, Path("scores.parquet")
    )
    config: Mapping[str, Any] = {"filter": {"min_gsnr": 0.5}}
    return emit(table, decisions, source, outputs, config=config, reporter=SilentReporter())
