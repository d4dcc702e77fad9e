"""The dataset that a table was made from, opened again and checked row by row against the table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gradscore.config import DataConfig
from gradscore.data.read import RowSource, open_source, read_rows
from gradscore.errors import DatasetError
from gradscore.filter.reasons import Decisions
from gradscore.records import Row
from gradscore.table.read import ScoreTable


def reopen_source(table: ScoreTable, dataset: str | None = None) -> RowSource:
    """Return the dataset that the table records, or `dataset` in its place, open for reading.

    Rows that cannot be read do not stop it: either the table knows them, or their key shows the change.

    Raises:
        DatasetError: it is gone or cannot be read.
    """
    record = table.source
    if dataset is None and record.format != "hub" and not Path(record.dataset).exists():
        raise DatasetError(
            f"The dataset that was scored is no longer at {record.dataset}. Pass --dataset with its new place."
        )
    return open_source(
        DataConfig(
            dataset=dataset or record.dataset,
            split=record.split or "train",
            subset=record.subset,
            data_files=record.data_files,
            skip_bad_rows=True,
        )
    )


def read_categories(source: RowSource, table: ScoreTable, category_field: str) -> list[str | None]:
    """Return the value of a column of the dataset for each table row, as text.

    Raises:
        DatasetError: no row of the source has the field.
    """
    rows = read_rows(source, DataConfig(dataset=source.record.dataset, category_field=category_field))
    by_index = {row.row_index: row.category for row in rows}
    return [by_index.get(index) for index in table.arrow["row_index"].to_pylist()]


@dataclass
class SourceCheck:
    """Picks the kept rows out of a stream of source rows, and compares every row with the table."""

    decisions: Decisions
    n_rows: int
    """Rows that the source had when it was scored."""
    not_scored: list[tuple[int, str]] = field(default_factory=list)
    """Row index and key of the rows that the table does not know (limit, sample or shard)."""
    _changed: list[int] = field(default_factory=list)
    _n_seen: int = 0

    def kept(self, rows: Iterable[Row], dataset: str) -> Iterator[Row]:
        """Yield the kept rows in source order; the whole source is compared even so.

        Raises:
            DatasetError: at the end, if any row is changed, missing or extra.
        """
        positions = [-1] * self.n_rows
        for position, index in enumerate(self.decisions.row_index.tolist()):
            positions[index] = position
        keys, keep = self.decisions.row_key.tolist(), self.decisions.keep.tolist()
        for row in rows:
            self._n_seen += 1
            if row.row_index >= self.n_rows:
                continue
            position = positions[row.row_index]
            if position < 0:
                self.not_scored.append((row.row_index, row.row_key))
            elif keys[position] != row.row_key:
                self._changed.append(row.row_index)
            elif keep[position]:
                yield row
        self._raise_if_different(dataset)

    def _raise_if_different(self, dataset: str) -> None:
        found = []
        if self._changed:
            found.append(f"{len(self._changed)} rows changed ({_shown(self._changed)})")
        if self._n_seen < self.n_rows:
            missing = range(self._n_seen, self.n_rows)
            found.append(f"{len(missing)} rows are missing ({_shown(missing)})")
        if self._n_seen > self.n_rows:
            extra = range(self.n_rows, self._n_seen)
            found.append(f"{len(extra)} rows were added ({_shown(extra)})")
        if found:
            raise DatasetError(
                f"{dataset} is not as it was when it was scored: {'; '.join(found)}; it had {self.n_rows} rows. "
                "Nothing was written. Score it again, or pass --dataset with the data as it was."
            )


def _shown(indices: Iterable[int], limit: int = 5) -> str:
    names = [str(index) for _, index in zip(range(limit + 1), indices, strict=False)]
    return "row " + ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
