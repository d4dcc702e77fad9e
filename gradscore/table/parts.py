"""Finished rows on disk while a run goes on: small Parquet parts, each whole or absent.

Rows are collected for `part_seconds` and then written as one part, so a killed run loses at most that much
work. 10,000 collected rows make a part at once, which bounds the memory of fast runs.
"""

import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradscore.errors import TableError
from gradscore.records import Reporter, ScoredRow
from gradscore.table.aside import TEMPORARY_SUFFIX, storage_error, written_aside
from gradscore.table.derived import Derived
from gradscore.table.merge import RowId, write_table
from gradscore.table.run import RunFolder
from gradscore.table.schema import table_schema, to_arrow

ROWS_PER_PART = 10_000


class PartWriter:
    """Writes scored rows in parts and joins them into the finished table. One process per run folder."""

    def __init__(
        self,
        run: RunFolder,
        reporter: Reporter,
        *,
        measures: Sequence[str] = (),
        part_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._reporter = reporter
        self._measures = tuple(measures)
        self._part_seconds = part_seconds
        self._clock = clock
        self._token = secrets.token_hex(4)
        self._pending: dict[RowId, ScoredRow] = {}
        self._last_flush = clock()
        self._done = self._recover()

    def done(self) -> Mapping[RowId, str]:
        """Return the row_key of every row on disk, by (row_index, side)."""
        return self._done

    def add(self, rows: Sequence[ScoredRow]) -> None:
        """Take finished rows, and write a part when it is time.

        Raises:
            ValueError: a row was given before, which would put it into the table twice.
            StorageError: a part cannot be written; earlier parts are untouched.
        """
        for row in rows:
            row_id = (row.row_index, row.side)
            if row_id in self._done or row_id in self._pending:
                raise ValueError(f"Row {row.row_index} (side {row.side}) was scored twice.")
            self._pending[row_id] = row
        if len(self._pending) >= ROWS_PER_PART or self._clock() - self._last_flush >= self._part_seconds:
            self.flush()

    def flush(self) -> None:
        """Write the rows collected so far as one part; nothing happens when there are none.

        Raises:
            StorageError: the part cannot be written; earlier parts are untouched and the rows stay collected.
        """
        if self._pending:
            what = f"the scores of {len(self._pending)} rows"
            safe = f"The {len(self._done)} rows written before are safe and will not be scored again."
            with written_aside(self._next_path(), what=what, safe=safe) as temporary:
                pq.write_table(
                    to_arrow(list(self._pending.values()), self._measures), temporary, compression="zstd"
                )
            self._done.update({row_id: row.row_key for row_id, row in self._pending.items()})
            self._pending = {}
        self._last_flush = self._clock()

    def finish(
        self, metadata: Mapping[str, Any], expected: Collection[RowId], derived: Sequence[Derived] = ()
    ) -> Path:
        """Write the finished table to the run's output, drop the parts, and return the table's path.

        Rows on disk that are not expected (an earlier call covered more of the dataset) are left out, and
        said.

        Args:
            metadata: nested plain values for the table's footer; the column dictionary is added.
            expected: (row_index, side) of every row that the table must hold exactly once.
            derived: columns that are computed from the others while the table is written.

        Raises:
            TableError: an expected row is missing; the message names the first ones.
            StorageError: the table cannot be written; the parts are untouched.
        """
        self.flush()
        missing = sorted({row_id for row_id in expected if row_id not in self._done}, key=_sort_key)
        if missing:
            raise TableError(
                f"The table is not complete: {len(missing)} of {len(expected)} rows have no result "
                f"({_name_rows(missing)}). Run the same command again to score them."
            )
        wanted = set(expected)
        surplus = len(self._done) - len(wanted)
        if surplus:
            self._reporter.message(
                f"{surplus} rows scored earlier are not part of this run and are left out."
            )
        write_table(
            self._paths(),
            self._run.output,
            self._run.path,
            metadata=metadata,
            wanted=wanted,
            measures=self._measures,
            derived=derived,
        )
        shutil.rmtree(self._run.parts)
        return self._run.output

    def _paths(self) -> list[Path]:
        return sorted(self._run.parts.glob("part-*.parquet"))

    def _next_path(self) -> Path:
        paths = self._paths()
        number = int(paths[-1].stem.split("-")[1]) + 1 if paths else 0
        # The token keeps two processes that were started on one run by mistake from replacing each other's parts.
        return self._run.parts / f"part-{number:06d}-{self._token}.parquet"

    def _recover(self) -> dict[RowId, str]:
        """Return what is on disk after removing unfinished files and parts that cannot be read."""
        done: dict[RowId, str] = {}
        try:
            for leftover in self._run.parts.glob(f"*{TEMPORARY_SUFFIX}"):
                leftover.unlink()
            for path in self._paths():
                part = self._read_identity_columns(path)
                for row_index, side, row_key in part:
                    if done.setdefault((row_index, side), row_key) != row_key:
                        raise TableError(
                            f"Row {row_index} is in {self._run.parts} twice, with different content. "
                            f"Delete the folder {self._run.path} and score again."
                        )
        except OSError as error:
            raise storage_error(
                error, self._run.parts, what="the list of finished rows", safe="No part was changed."
            ) from error
        return done

    def _read_identity_columns(self, path: Path) -> Iterator[tuple[int, str | None, str]]:
        try:
            with pq.ParquetFile(path) as file:
                if not file.schema_arrow.equals(table_schema(self._measures)):
                    raise TableError(
                        f"The part {path} was written by another version of gradscore. "
                        "Finish the run with that version, or pass --overwrite to start anew."
                    )
                columns = file.read(columns=["row_index", "side", "row_key"])
        except pa.ArrowInvalid:
            path.unlink()
            self._reporter.message(f"{path.name} was torn and is dropped; its rows are scored again.")
            return iter(())
        return zip(*(columns[name].to_pylist() for name in ("row_index", "side", "row_key")), strict=True)


def _sort_key(row_id: RowId) -> tuple[int, str]:
    return row_id[0], row_id[1] or ""


def _name_rows(row_ids: Sequence[RowId], shown: int = 5) -> str:
    names = [f"row {index}" + (f" {side}" if side else "") for index, side in row_ids[:shown]]
    return ", ".join(names) + (", ..." if len(row_ids) > shown else "")
