"""Tests gradscore.table.lists: a sample of a list column is some of its rows, each with its own index."""

from pathlib import Path

import numpy as np

from gradscore.table.lists import sample_lists
from tests.table.rows import scored, write_table


def test_each_value_comes_with_its_own_row(tmp_path: Path) -> None:
    rows = [scored(i, layer_norms=(float(i), 2.0 * i)) for i in range(30)]
    path = write_table(tmp_path / "scores.parquet", rows)
    indices, values = sample_lists(path, "layer_norms", 12, seed=3)
    assert len(set(indices.tolist())) == 12
    assert np.array_equal(values, np.stack([indices, 2 * indices], axis=1))
    assert np.array_equal(sample_lists(path, "layer_norms", 12, seed=3)[0], indices)


def test_a_sample_larger_than_the_table_is_the_table(tmp_path: Path) -> None:
    path = write_table(tmp_path / "scores", [scored(i, layer_norms=(1.0,)) for i in range(5)])
    assert sample_lists(path, "layer_norms", 99)[0].tolist() == [0, 1, 2, 3, 4]


def test_rows_without_a_value_are_left_out_and_none_at_all_is_empty(tmp_path: Path) -> None:
    rows = [scored(i, sketch=(1.0, 2.0) if i % 2 else None) for i in range(6)]
    path = write_table(tmp_path / "scores.parquet", rows)
    assert sample_lists(path, "sketch", 99)[0].tolist() == [1, 3, 5]
    indices, values = sample_lists(path, "layer_norms", 99)
    assert (len(indices), len(values)) == (0, 0)
