"""Tests gradscore.report.columns: what counts as a score, and in which order."""

from pathlib import Path

from gradscore.report.columns import score_columns
from gradscore.table.read import read_table
from tests.table.rows import scored, write_table


def test_leading_columns_come_first_details_last_and_constants_not_at_all(tmp_path: Path) -> None:
    rows = [scored(i, loss_first=float(i), gsnr_unbiased=float(i)) for i in range(4)]
    columns = score_columns(read_table(write_table(tmp_path / "s.parquet", rows)))
    assert [column.name for column in columns] == ["gsnr", "loss", "gsnr_unbiased", "loss_first"]
    assert [column.is_detail for column in columns] == [False, False, False, True]
    assert columns[1].unit == "nats per target token"
