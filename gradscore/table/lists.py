"""Random rows of a list column, read batch by batch: a million sketches are gigabytes, a sample is not."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gradscore.table.read import table_files

ROWS_PER_BATCH = 10_000


def sample_lists(
    path: str | Path, name: str, n: int, *, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the row indices and values, one row each, of about `n` random rows that have a value.

    Args:
        path: a finished table.
        name: a list column whose lists have one length.
        n: rows to draw, over all rows of the table; fewer come back where some have no value.
        seed: of the draw.

    Raises:
        TableError: nothing is there, or it is no finished table.
    """
    files = table_files(Path(path).expanduser())
    total = sum(pq.read_metadata(file).num_rows for file in files)
    wanted = np.zeros(total, dtype=bool)
    wanted[np.random.default_rng(seed).permutation(total)[:n]] = True
    indices, values, start = [np.empty(0, np.int64)], [], 0
    for file in files:
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(ROWS_PER_BATCH, columns=["row_index", name]):
                has_value = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
                chosen = np.flatnonzero(wanted[start : start + batch.num_rows] & has_value)
                start += batch.num_rows
                if len(chosen):
                    taken = batch.take(chosen)
                    flat = taken.column(name).flatten().to_numpy(zero_copy_only=False)
                    values.append(flat.astype(np.float32).reshape(len(chosen), -1))
                    indices.append(taken.column("row_index").to_numpy())
    matrix = np.concatenate(values) if values else np.empty((0, 0), np.float32)
    return np.concatenate(indices), matrix
