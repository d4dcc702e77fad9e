"""Tests gradscore.report.agreement: rows are matched by content, and what cannot be compared is said."""

from pathlib import Path

import numpy as np
import pytest

from gradscore.errors import TableError
from gradscore.report.agreement import compare_tables, match_rows, movers
from gradscore.table.read import ScoreTable, read_table
from tests.table.rows import scored, write_table


def table(folder: Path, name: str, keys: list[int], **columns: list[float | None]) -> ScoreTable:
    rows = [
        scored(i, row_key=f"{key:032x}", **{column: values[i] for column, values in columns.items()})
        for i, key in enumerate(keys)
    ]
    return read_table(write_table(folder / f"{name}.parquet", rows), lists=False)


def test_a_table_agrees_with_itself_and_nothing_moves(tmp_path: Path) -> None:
    one = table(tmp_path, "a", list(range(20)))
    found = compare_tables(one, one, share=0.3)
    assert {column.name for column in found.columns} == {"gsnr", "loss"}
    assert all(column.correlation.rho == pytest.approx(1) and column.shared == 1 for column in found.columns)
    assert found.differences == found.only_left == found.only_right == ()
    assert all(mover.left_place == mover.right_place for mover in movers(one, one, found.matched, "gsnr", 5))


def test_a_shuffled_dataset_is_matched_by_content(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(12)
    a = table(tmp_path, "a", list(range(12)), gsnr=[float(i) for i in range(12)])
    b = table(tmp_path, "b", order.tolist(), gsnr=[float(key) for key in order])
    column = next(each for each in compare_tables(a, b, share=0.5).columns if each.name == "gsnr")
    assert column.correlation.rho == pytest.approx(1)
    assert column.shared == 1.0


def test_copies_are_matched_one_to_one_and_rows_of_one_table_alone_are_counted(tmp_path: Path) -> None:
    matched = match_rows(table(tmp_path, "a", [7, 7, 1, 2]), table(tmp_path, "b", [7, 1, 7, 7]))
    assert sorted(zip(matched.left.tolist(), matched.right.tolist(), strict=True)) == [(0, 0), (1, 2), (2, 1)]
    assert (matched.n_only_left, matched.n_only_right) == (1, 1)


def test_the_row_that_moved_most_comes_first_with_both_places(tmp_path: Path) -> None:
    a = table(tmp_path, "a", list(range(6)), gsnr=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    b = table(tmp_path, "b", list(range(6)), gsnr=[9.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    first = movers(a, b, match_rows(a, b), "gsnr", 1)[0]
    assert (first.row_index, first.left_value, first.right_value) == (0, 1.0, 9.0)
    assert (first.left_place, first.right_place) == (0.0, 1.0)


def test_other_rows_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no row of one is in the other\. The first was made from"):
        compare_tables(table(tmp_path, "a", [1, 2, 3, 4]), table(tmp_path, "b", [5, 6, 7, 8]), share=0.3)


def test_other_columns_cannot_be_compared_and_some_are_named(tmp_path: Path) -> None:
    nothing: list[float | None] = [None] * 5
    a = table(tmp_path, "a", list(range(5)), gsnr=nothing)
    b = table(tmp_path, "b", list(range(5)), loss=nothing)
    with pytest.raises(
        TableError,
        match=r"the first has loss \(5 of these rows are scored\), the second gsnr \(5 are\)\. Score both",
    ):
        compare_tables(a, b, share=0.3)
    c = table(tmp_path, "c", list(range(5)))
    assert compare_tables(c, a, share=0.3).only_left == ("gsnr",)


def test_rows_without_scores_are_named_where_they_are_the_reason(tmp_path: Path) -> None:
    rows = [scored(i, status="nan", gsnr=None, loss=None) for i in range(5)]
    one = read_table(write_table(tmp_path / "a.parquet", rows), lists=False)
    with pytest.raises(
        TableError, match=r"first has none \(0 of these rows are scored\).*status and reason say why"
    ):
        compare_tables(one, one, share=0.3)
