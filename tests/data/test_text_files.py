"""Opening text files: gzip, byte-order marks, and wide encodings that are refused."""

import gzip

import pytest

from gradscore.data.text_files import open_bytes
from gradscore.errors import DatasetError


def read(path):
    with open_bytes(path) as stream:
        return stream.read()


def test_mark_is_skipped_and_gzip_is_unpacked(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfabc")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfabc"))
    (tmp_path / "c").write_bytes(b"ab")
    assert read(tmp_path / "a") == read(tmp_path / "b.gz") == b"abc"
    assert read(tmp_path / "c") == b"ab"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_refused_with_the_conversion(tmp_path, encoding):
    path = tmp_path / "wide.jsonl"
    path.write_text('{"a": "b"}', encoding=encoding)
    wide = "UTF-32" if "32" in encoding else "UTF-16"
    with pytest.raises(DatasetError, match=rf"encoded in {wide}.*iconv -f {wide} -t UTF-8 wide.jsonl"):
        read(path)
