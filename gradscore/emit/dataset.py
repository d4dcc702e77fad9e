"""Write the kept rows in the dataset's own columns and order, the dropped rows with reasons, and a manifest.

Every row of the source is compared with the table while it streams. If one differs nothing is written:
files are made aside and moved at the end, the manifest last, so its presence means "complete".
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradscore.data.read import RowSource
from gradscore.emit.formats import (
    filter_parquet,
    write_delimited,
    write_json_array,
    write_json_lines,
    write_parquet,
)
from gradscore.emit.manifest import EmitSummary, manifest_text, summarize, write_dropped
from gradscore.emit.outputs import Outputs
from gradscore.emit.source import SourceCheck
from gradscore.filter.reasons import Decisions
from gradscore.records import Reporter, Row
from gradscore.table.aside import written_aside
from gradscore.table.read import ScoreTable

_SAFE = "The score table and the dataset are untouched."


def emit(
    table: ScoreTable,
    decisions: Decisions,
    source: RowSource,
    outputs: Outputs,
    *,
    config: Mapping[str, Any],
    reporter: Reporter,
) -> EmitSummary:
    """Write kept rows, dropped rows and manifest, and return what became of the source's rows.

    Args:
        table: the score table that the decisions are about.
        decisions: one per table row (per chosen side of a pair).
        source: the dataset that was scored.
        outputs: where the results go, from `plan_outputs`.
        config: the whole configuration, for the manifest.
        reporter: told of every row read.

    Raises:
        DatasetError: the source is not as it was when it was scored, or a value does not fit the format.
        StorageError: a result cannot be written; no result is left half written.
    """
    check = SourceCheck(decisions, table.source.n_rows)
    reporter.start("Writing kept rows", source.record.n_rows)
    rows = check.kept(_reported(source.rows(), reporter), source.record.dataset)
    what = f"{int(decisions.keep.sum())} kept rows"
    with written_aside(outputs.kept, what=what, safe=_SAFE) as kept:
        messages = _write_kept(rows, kept, outputs, source, decisions)
        reporter.finish()
        summary = summarize(decisions, check.not_scored, messages)
        what = f"{summary.n_dropped} dropped rows"
        with written_aside(outputs.dropped, what=what, safe=_SAFE) as dropped:
            write_dropped(dropped, decisions, check.not_scored)
            outputs.manifest.unlink(missing_ok=True)  # an older one is no longer true from here on
    text = manifest_text(
        summary,
        table=table.path,
        source=dataclasses.asdict(source.record),
        config=config,
        files={"kept": outputs.kept, "dropped": outputs.dropped},
    )
    with written_aside(
        outputs.manifest, what="the manifest", safe="Kept and dropped rows are complete."
    ) as path:
        path.write_text(text, encoding="utf-8")
    return summary


def _reported(rows: Iterable[Row], reporter: Reporter) -> Iterator[Row]:
    for row in rows:
        yield row
        reporter.advance()


def _write_kept(
    rows: Iterator[Row], path: Path, outputs: Outputs, source: RowSource, decisions: Decisions
) -> list[str]:
    """Write the kept rows in the output's format, and return what there is to say about the conversion."""
    record = source.record
    if outputs.format == "jsonl":
        write_json_lines(rows, path, is_gzipped=outputs.is_gzipped)
    elif outputs.format == "json":
        write_json_array(rows, path, is_gzipped=outputs.is_gzipped)
    elif outputs.format == "parquet" and record.format == "parquet":
        for _ in rows:  # compares every row with the table before a batch is written
            pass
        keep = np.zeros(record.n_rows, dtype=bool)
        keep[decisions.row_index[decisions.keep]] = True
        filter_parquet(Path(record.dataset), path, keep)
    elif outputs.format == "parquet":
        write_parquet(rows, path, record.columns)
    else:
        nested = write_delimited(rows, path, outputs, record.columns)
        if nested:
            return [f"Nested values were written as JSON text in: {', '.join(nested)}."]
    return []
