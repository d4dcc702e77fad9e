"""Every chosen row through the sweep, window by window, and into the parts on disk."""

from collections.abc import Iterator

from gradscore.config import DataConfig, RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.read import RowSource, read_rows
from gradscore.data.select import choose
from gradscore.records import Reporter, Row
from gradscore.scores.sweep import Sweep
from gradscore.table.merge import RowId
from gradscore.table.parts import PartWriter

ROWS_PER_WINDOW = 4096
"""Rows that are tokenised and sorted by length together; padding is a few per cent within so many."""


def sweep_rows(
    config: RunConfig,
    source: RowSource,
    encoder: Encoder,
    sweep: Sweep,
    parts: PartWriter,
    reporter: Reporter,
) -> tuple[list[RowId], int]:
    """Score the chosen rows window by window; return the ids of all, and how many were scored now."""
    expected: list[RowId] = []
    done = dict(parts.done())
    if done:
        reporter.message(f"Resuming: {len(done)} rows are on disk already")
    n_scored = 0
    n_chosen = _n_chosen(source, config.data)
    if n_chosen == 0:
        reporter.message(f"Warning: shard {config.data.shard} of {source.record.n_rows} rows holds none.")
    reporter.start("scoring", n_chosen * len(encoder.sides) - len(done))
    try:
        with sweep.switch:
            for window in _windows(read_rows(source, config.data)):
                ids = [(row.row_index, side) for row in window for side in encoder.sides]
                expected += ids
                missing = {row_index for row_index, side in ids if (row_index, side) not in done}
                rows = [e for row in window if row.row_index in missing for e in encoder.encode(row)]
                for scored in sweep.score([row for row in rows if (row.row_index, row.side) not in done]):
                    parts.add(scored)
                    n_scored += len(scored)
                    reporter.advance(len(scored))
    finally:
        # Whatever stops the run, an interrupt included, the rows that are finished are kept.
        parts.flush()
        reporter.finish()
    return expected, n_scored


def _n_chosen(source: RowSource, data: DataConfig) -> int:
    choice = choose(source.record.n_rows, data)
    return sum(choice.has(i) for i in range(choice.last + 1))


def _windows(rows: Iterator[Row]) -> Iterator[list[Row]]:
    window: list[Row] = []
    for row in rows:
        window.append(row)
        if len(window) == ROWS_PER_WINDOW:
            yield window
            window = []
    if window:
        yield window
