"""Open a text file as bytes, whether gzipped or not, and refuse what is not UTF-8 before anything is read wrongly."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gradscore.errors import DatasetError

UTF8_BOM = b"\xef\xbb\xbf"


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Give the file's bytes, decompressed and past a byte-order mark.

    Raises:
        DatasetError: the file is UTF-16 or UTF-32.
        OSError: the file cannot be opened, or is not the gzip file that its name says.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as opened:
        stream = cast(BinaryIO, opened)
        start = stream.read(4)
        _refuse_wide_encoding(path, start)
        stream.seek(len(UTF8_BOM) if start.startswith(UTF8_BOM) else 0)
        yield stream


def _refuse_wide_encoding(path: Path, start: bytes) -> None:
    is_marked = start[:2] in (b"\xff\xfe", b"\xfe\xff") or start == b"\x00\x00\xfe\xff"
    # Without a mark: the first two characters of any of our formats are ASCII, so one byte of each pair is 0.
    zeros = [start[place::2] == b"\x00\x00" for place in (0, 1)]
    if is_marked or zeros.count(True) == 1:
        wide = "UTF-32" if start in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff") else "UTF-16"
        raise DatasetError(
            f"{path} is encoded in {wide}; datasets must be UTF-8. Its first bytes are {start.hex(' ')}. "
            f"Convert it first: iconv -f {wide} -t UTF-8 {path.name} > utf8_{path.name}"
        )
