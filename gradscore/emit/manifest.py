"""The record of a filter run: dropped rows with their reasons, and a manifest that is written last."""

import dataclasses
import datetime
import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradscore import __version__
from gradscore.filter.reasons import Code, Decisions

MANIFEST_VERSION = 1
NOT_SCORED_REASON = "dropped: not in the score table (outside its limit, sample or shard)"


@dataclasses.dataclass(frozen=True)
class EmitSummary:
    """What became of the source's rows."""

    n_kept: int
    n_dropped: int
    reasons: Mapping[str, int]
    """Rows per reason code, kept ones included."""
    categories: Mapping[str, Mapping[str, int]]
    """Per category, rows kept and dropped; rows that were never scored have no category."""
    messages: tuple[str, ...]
    warnings: tuple[str, ...]


def summarize(
    decisions: Decisions, not_scored: Sequence[tuple[int, str]], messages: Sequence[str]
) -> EmitSummary:
    """Return the counts of a filter run."""
    n_kept = int(decisions.keep.sum())
    reasons = Counter(decisions.counts())
    if not_scored:
        reasons[Code.NOT_SCORED.label] = len(not_scored)
    return EmitSummary(
        n_kept=n_kept,
        n_dropped=len(decisions) - n_kept + len(not_scored),
        reasons=dict(reasons.most_common()),
        categories=decisions.counts_per_category(),
        messages=(*decisions.messages, *messages),
        warnings=decisions.warnings,
    )


def write_dropped(path: Path, decisions: Decisions, not_scored: Sequence[tuple[int, str]]) -> None:
    """Write a Parquet table of the dropped rows in source order: which row, why, its rank and score."""
    dropped = np.flatnonzero(~decisions.keep)
    rank, score = decisions.rank[dropped], decisions.score[dropped]
    scored = pa.table(
        {
            "row_index": pa.array(decisions.row_index[dropped]),
            "row_key": pa.array(decisions.row_key[dropped], pa.string()),
            "category": pa.array(decisions.category[dropped], pa.string()),
            "reason_code": pa.array(
                np.array([code.label for code in Code], dtype=object)[decisions.code[dropped]], pa.string()
            ),
            "reason": pa.array(decisions.reasons(dropped.tolist()), pa.string()),
            "rank": pa.array(rank, pa.int64(), mask=rank == 0),
            "score": pa.array(score, pa.float64(), mask=np.isnan(score)),
        }
    )
    n = len(not_scored)
    unscored = pa.table(
        {
            "row_index": pa.array([index for index, _ in not_scored], pa.int64()),
            "row_key": pa.array([key for _, key in not_scored], pa.string()),
            "category": pa.nulls(n, pa.string()),
            "reason_code": pa.array([Code.NOT_SCORED.label] * n, pa.string()),
            "reason": pa.array([NOT_SCORED_REASON] * n, pa.string()),
            "rank": pa.nulls(n, pa.int64()),
            "score": pa.nulls(n, pa.float64()),
        }
    )
    pq.write_table(pa.concat_tables([scored, unscored]).sort_by("row_index"), path, compression="zstd")


def manifest_text(
    summary: EmitSummary,
    *,
    table: Path,
    source: Mapping[str, Any],
    config: Mapping[str, Any],
    files: Mapping[str, Path],
) -> str:
    """Return the manifest as JSON text.

    Args:
        summary: what became of the rows.
        table: the score table that was used.
        source: record of the dataset that was filtered.
        config: the whole configuration.
        files: name in the manifest to the file written; they lie beside the manifest.
    """
    content = {
        "format": "gradscore-filter",
        "format_version": MANIFEST_VERSION,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "gradscore": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pandas", "pyarrow")},
        },
        "config": config,
        "table": {"path": str(table.resolve()), "sha256": table_hash(table)},
        "source": source,
        "files": {name: {"name": path.name, "sha256": file_hash(path)} for name, path in files.items()},
        "counts": {
            "kept": summary.n_kept,
            "dropped": summary.n_dropped,
            "reasons": summary.reasons,
            "categories": summary.categories,
        },
        "messages": summary.messages,
        "warnings": summary.warnings,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits, read a megabyte at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def table_hash(table: Path) -> str | dict[str, str]:
    """Return the hash of a table file, or the hash of each file of a folder table."""
    if table.is_file():
        return file_hash(table)
    return {path.name: file_hash(path) for path in sorted(table.glob("*.parquet"))}
