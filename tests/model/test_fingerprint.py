"""Tests gradscore.model.fingerprint: equal content gives an equal name, other content another."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.model import fingerprint
from gradscore.model.fingerprint import fingerprint_files, fingerprint_folder


def write(folder: Path, files: dict[str, bytes]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def test_place_and_order_do_not_matter(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "model.safetensors": b"abc"}
    one, two = write(tmp_path / "one", files), write(tmp_path / "two", files)
    assert fingerprint_files(one) == fingerprint_files(list(reversed(two)))
    assert fingerprint_folder(tmp_path / "one") == fingerprint_files(one)


def test_name_content_and_boundaries_matter(tmp_path: Path) -> None:
    variants = [
        {"a.bin": b"xy", "b.bin": b"z"},
        {"a.bin": b"x", "b.bin": b"yz"},
        {"a.bin": b"xy", "c.bin": b"z"},
        {"a.bin": b"xy", "b.bin": b"Z"},
        {"a.bin": b"xy"},
        {},
    ]
    found = {fingerprint_files(write(tmp_path / str(i), files)) for i, files in enumerate(variants)}
    assert len(found) == len(variants)


def test_other_files_of_the_folder_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, {"config.json": b"{}"})
    before = fingerprint_folder(tmp_path)
    write(tmp_path, {"README.md": b"words", "optimizer.pt": b"state"})
    assert fingerprint_folder(tmp_path) == before


def test_large_files_are_sampled_at_both_ends_and_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "WHOLE_BYTES", 10)
    monkeypatch.setattr(fingerprint, "BLOCK_BYTES", 4)
    monkeypatch.setattr(fingerprint, "SAMPLED_BLOCKS", 3)
    content = bytearray(range(100))
    (file,) = write(tmp_path, {"model.bin": bytes(content)})
    before = fingerprint_files([file])
    changed = []
    for place in range(100):
        other = bytearray(content)
        other[place] ^= 255
        write(tmp_path, {"model.bin": bytes(other)})
        if fingerprint_files([file]) != before:
            changed.append(place)
    assert changed == [*range(4), *range(24, 28), *range(48, 52), *range(72, 76), *range(96, 100)]


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_fingerprints_agree_exactly_when_contents_do(one: bytes, two: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        names = [fingerprint_files(write(Path(folder), {"model.bin": content})) for content in (one, two)]
    assert (names[0] == names[1]) == (one == two)
