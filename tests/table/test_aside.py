"""Tests gradscore.table.aside: a file is whole or absent, and a failed write says what is safe."""

import errno
import os
from pathlib import Path

import pytest

from gradscore.errors import StorageError
from gradscore.table.aside import written_aside


def test_the_file_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with written_aside(target, what="a text", safe="-") as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_any_error_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(TypeError), written_aside(target, what="a text", safe="-") as temporary:
        temporary.write_text(3)  # type: ignore[arg-type]
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_says_what_is_safe_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(StorageError) as caught,
        written_aside(tmp_path / "out.txt", what="a text", safe="Page 1 is safe.") as temporary,
    ):
        temporary.write_text("half")
    assert str(caught.value) == (
        f"Writing a text to {tmp_path / 'out.txt'} failed: the disk or quota of {tmp_path} is full. "
        "Page 1 is safe. Free some space and run the same command again."
    )
    assert list(tmp_path.iterdir()) == []


def test_another_failure_names_the_folder_to_check(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"No such file or directory.*Check .*absent and run"),
        written_aside(tmp_path / "absent" / "out.txt", what="a text", safe="-") as temporary,
    ):
        temporary.write_text("x")
