"""Tests gradscore.table.parts: atomic parts, what a resumed run finds, and a finish that misses nothing."""

import errno
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.errors import StorageError, TableError
from gradscore.records import SilentReporter
from gradscore.table import parts
from gradscore.table.parts import PartWriter
from gradscore.table.read import read_table
from gradscore.table.run import RunFolder
from tests.table.rows import IDENTITY, metadata, scored, write_table


@pytest.fixture(autouse=True)
def known_part_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscore.table.parts.secrets.token_hex", lambda n: "0000")


class Listener(SilentReporter):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


class Clock:
    """A clock that the test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def open_writer(folder: Path, **options: Any) -> PartWriter:
    run = RunFolder.open(folder / "scores.parquet", IDENTITY, config_mapping={}, overwrite=True)
    return PartWriter(run, options.pop("reporter", SilentReporter()), **options)


def part_names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "scores.run" / "parts").iterdir())


def test_a_part_is_written_when_its_time_has_come(tmp_path: Path) -> None:
    clock = Clock()
    writer = open_writer(tmp_path, part_seconds=30, clock=clock)
    writer.add([scored(0)])
    clock.seconds = 29.9
    writer.add([scored(1)])
    assert part_names(tmp_path) == []
    assert writer.done() == {}
    clock.seconds = 30
    writer.add([scored(2)])
    assert part_names(tmp_path) == ["part-000000-0000.parquet"]
    assert set(writer.done()) == {(0, None), (1, None), (2, None)}
    writer.add([scored(3)])
    writer.flush()
    writer.flush()
    assert part_names(tmp_path) == ["part-000000-0000.parquet", "part-000001-0000.parquet"]


def test_many_rows_make_a_part_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 2)
    writer = open_writer(tmp_path, clock=Clock())
    writer.add([scored(0), scored(1)])
    assert len(part_names(tmp_path)) == 1


def test_a_resumed_run_knows_what_is_done(tmp_path: Path) -> None:
    first = open_writer(tmp_path)
    first.add([scored(4, side="chosen"), scored(4, side="rejected"), scored(1)])
    first.flush()
    second = open_writer(tmp_path)
    assert second.done() == {
        (4, "chosen"): f"{4:032x}",
        (4, "rejected"): f"{4:032x}",
        (1, None): f"{1:032x}",
    }
    second.add([scored(0)])
    second.flush()
    assert part_names(tmp_path) == ["part-000000-0000.parquet", "part-000001-0000.parquet"]


def test_unfinished_files_go_and_a_torn_part_is_scored_again(tmp_path: Path) -> None:
    first = open_writer(tmp_path)
    for index in range(3):
        first.add([scored(index)])
        first.flush()
    folder = tmp_path / "scores.run" / "parts"
    torn = folder / "part-000001-0000.parquet"
    torn.write_bytes(torn.read_bytes()[:-20])
    (folder / "part-000002-0000.parquet").write_bytes(b"")
    (folder / "part-000003-0000.parquet.tmp").write_bytes(b"PAR1")
    listener = Listener()
    assert set(open_writer(tmp_path, reporter=listener).done()) == {(0, None)}
    assert listener.said == [
        "part-000001-0000.parquet was torn and is dropped; its rows are scored again.",
        "part-000002-0000.parquet was torn and is dropped; its rows are scored again.",
    ]
    assert part_names(tmp_path) == ["part-000000-0000.parquet"]


def test_a_row_given_twice_is_a_mistake(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.add([scored(1)])
    with pytest.raises(ValueError, match=r"Row 1 \(side None\) was scored twice"):
        writer.add([scored(1)])
    writer.flush()
    with pytest.raises(ValueError, match="Row 1"):
        writer.add([scored(1)])
    with pytest.raises(ValueError, match="Row 2"):
        writer.add([scored(2), scored(2)])


def test_rows_that_two_parts_hold_count_once_unless_they_differ(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.add([scored(0), scored(1)])
    writer.flush()
    folder = tmp_path / "scores.run" / "parts"
    (folder / "part-000001-0000.parquet").write_bytes((folder / "part-000000-0000.parquet").read_bytes())
    output = open_writer(tmp_path).finish(metadata(), {(0, None), (1, None)})
    assert read_table(output).arrow["row_index"].to_pylist() == [0, 1]

    writer = open_writer(tmp_path)
    writer.add([scored(0)])
    writer.flush()
    table = pq.read_table(folder / "part-000000-0000.parquet")
    changed = table.set_column(1, table.schema.field(1), [["f" * 32]])
    pq.write_table(changed, folder / "part-000001-0000.parquet")
    with pytest.raises(TableError, match=r"Row 0 is in .* twice, with different content"):
        open_writer(tmp_path)


def test_parts_of_another_version_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.add([scored(0)])
    writer.flush()
    path = tmp_path / "scores.run" / "parts" / "part-000000-0000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["gsnr"]), path)
    with pytest.raises(TableError, match="written by another version of gradscore"):
        open_writer(tmp_path)


def test_finish_names_the_missing_rows_and_keeps_the_parts(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.add([scored(3, side="chosen")])
    expected = {(index, side) for index in range(4) for side in ("chosen", "rejected")}
    with pytest.raises(TableError) as caught:
        writer.finish(metadata(), expected)
    assert "7 of 8 rows have no result (row 0 chosen, row 0 rejected, row 1 chosen," in str(caught.value)
    assert part_names(tmp_path) == ["part-000000-0000.parquet"]
    assert not (tmp_path / "scores.parquet").exists()


def test_rows_beyond_the_expected_are_left_out_and_said(tmp_path: Path) -> None:
    listener = Listener()
    writer = open_writer(tmp_path, reporter=listener)
    writer.add([scored(index) for index in range(4)])
    output = writer.finish(metadata(), {(2, None)})
    assert read_table(output).arrow["row_index"].to_pylist() == [2]
    assert listener.said == ["3 rows scored earlier are not part of this run and are left out."]


def test_a_full_disk_keeps_earlier_parts_and_the_rows_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(tmp_path)
    writer.add([scored(0)])
    writer.flush()
    whole = (tmp_path / "scores.run" / "parts" / "part-000000-0000.parquet").read_bytes()

    def full(table: Any, path: Path, **options: Any) -> None:
        path.write_bytes(b"PAR1 half a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.add([scored(1), scored(2)])
    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(StorageError) as caught:
            writer.flush()
    assert "Writing the scores of 2 rows to " in str(caught.value)
    assert "is full. The 1 rows written before are safe" in str(caught.value)
    assert part_names(tmp_path) == ["part-000000-0000.parquet"]
    assert (tmp_path / "scores.run" / "parts" / "part-000000-0000.parquet").read_bytes() == whole
    writer.flush()
    assert set(open_writer(tmp_path).done()) == {(0, None), (1, None), (2, None)}


@settings(max_examples=10, deadline=None)
@given(data=st.data(), n=st.integers(1, 12))
def test_the_table_is_the_same_for_any_order_and_any_parts(
    data: st.DataObject, n: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [scored(index, layer_norms=(float(index),)) for index in range(n)]
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, n))
    folder = tmp_path_factory.mktemp("orders")
    writer = open_writer(folder)
    writer.add(shuffled[:cut])
    writer.flush()
    resumed = open_writer(folder)
    resumed.add(shuffled[cut:])
    output = resumed.finish(metadata(), {(index, None) for index in range(n)})
    undisturbed = write_table(tmp_path_factory.mktemp("whole") / "scores.parquet", rows)
    assert pq.read_table(output).equals(pq.read_table(undisturbed))
