"""Tests gradscore.emit.formats: rows come back the same from every format, or the error says why not."""

import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.config import DataConfig
from gradscore.data.read import open_source
from gradscore.emit import formats
from gradscore.emit.formats import (
    filter_parquet,
    write_delimited,
    write_json_array,
    write_json_lines,
    write_parquet,
)
from gradscore.emit.outputs import Outputs
from gradscore.errors import DatasetError
from gradscore.records import Row


def rows_of(contents: list[dict[str, Any]]) -> list[Row]:
    return [Row(index, f"{index:032x}", content) for index, content in enumerate(contents)]


def write_csv(contents: list[dict[str, Any]], path: Path, columns: list[str]) -> tuple[str, ...]:
    outputs = Outputs(path, "csv", is_gzipped=False)
    return write_delimited(rows_of(contents), path, outputs, columns)


def contents_of(path: Path) -> list[dict[str, Any]]:
    return [dict(row.content) for row in open_source(DataConfig(dataset=str(path))).rows()]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=50, deadline=None)
@given(
    contents=st.lists(
        st.dictionaries(st.text(min_size=1, max_size=4), json_values, min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_json_comes_back_the_same(
    contents: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("json")
    write_json_lines(rows_of(contents), folder / "x.jsonl", is_gzipped=False)
    write_json_array(rows_of(contents), folder / "x.json", is_gzipped=False)
    assert contents_of(folder / "x.jsonl") == contents
    assert contents_of(folder / "x.json") == contents
    assert json.loads((folder / "x.json").read_bytes()) == contents


@settings(max_examples=50, deadline=None)
@given(contents=st.lists(st.fixed_dictionaries({"a": texts, "b, c": texts}), min_size=1, max_size=5))
def test_text_comes_back_the_same_from_csv_and_parquet(
    contents: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("text")
    assert write_csv(contents, folder / "x.csv", ["a", "b, c"]) == ()
    write_parquet(rows_of(contents), folder / "x.parquet", ["a", "b, c"])
    assert contents_of(folder / "x.csv") == contents
    assert contents_of(folder / "x.parquet") == contents


def test_lines_of_a_json_lines_source_keep_their_bytes(tmp_path: Path) -> None:
    raw = b'{"b":1.50,  "a" : "\\u00e9", "c":1e2}'
    write_json_lines([Row(0, "k", json.loads(raw), raw=raw)], tmp_path / "x.jsonl", is_gzipped=False)
    assert (tmp_path / "x.jsonl").read_bytes() == raw + b"\n"


def test_gzip_holds_the_same_bytes_and_no_time(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_json_lines(rows_of([{"a": "é"}]), tmp_path / name, is_gzipped=True)
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(packed).decode() == '{"a": "é"}\n'


def test_a_lone_surrogate_is_escaped(tmp_path: Path) -> None:
    write_json_lines(rows_of([{"a": "\ud800"}]), tmp_path / "x.jsonl", is_gzipped=False)
    assert (tmp_path / "x.jsonl").read_bytes() == b'{"a": "\\ud800"}\n'


def test_no_rows_still_make_a_file_of_the_format(tmp_path: Path) -> None:
    write_json_lines([], tmp_path / "x.jsonl", is_gzipped=False)
    write_json_array([], tmp_path / "x.json", is_gzipped=False)
    write_csv([], tmp_path / "x.csv", ["a", "b"])
    write_parquet([], tmp_path / "x.parquet", ["a", "b"])
    assert (tmp_path / "x.jsonl").read_bytes() == b""
    assert json.loads((tmp_path / "x.json").read_bytes()) == []
    assert (tmp_path / "x.csv").read_text() == "a,b\n"
    assert pq.read_table(tmp_path / "x.parquet").column_names == ["a", "b"]


def test_columns_that_only_later_rows_have_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "ROWS_PER_BATCH", 1)
    contents = [{"b": "1", "a": "2"}, {"b": "3", "c": 4}, {"a": "5", "c": None}]
    write_csv(contents, tmp_path / "x.csv", ["b", "a"])
    assert (tmp_path / "x.csv").read_text() == "b,a,c\n1,2,\n3,,4\n,5,\n"
    write_parquet(rows_of(contents), tmp_path / "x.parquet", ["b", "a"])
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"b": "1", "a": "2", "c": None},
        {"b": "3", "a": None, "c": 4},
        {"b": None, "a": "5", "c": None},
    ]


def test_batches_of_different_kinds_of_number_and_struct_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "ROWS_PER_BATCH", 1)
    contents: list[dict[str, Any]] = [
        {"n": 1, "m": [{"role": "user"}]},
        {"n": 1.5, "m": [{"role": "tool", "name": "f"}]},
        {"n": None, "m": []},
    ]
    write_parquet(rows_of(contents), tmp_path / "x.parquet", ["n", "m"])
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"n": 1.0, "m": [{"role": "user", "name": None}]},
        {"n": 1.5, "m": [{"role": "tool", "name": "f"}]},
        {"n": None, "m": []},
    ]


@pytest.mark.parametrize("text", ["\r", "a\rb", "a\r\nb", "\n", '"\r"', ""])
def test_line_ends_inside_a_csv_field_are_quoted(tmp_path: Path, text: str) -> None:
    # Python's csv writer left a lone carriage return bare, which broke the record in two.
    write_csv([{"a": text}], tmp_path / "x.csv", ["a"])
    assert contents_of(tmp_path / "x.csv") == [{"a": text}]
    assert (tmp_path / "x.csv").read_bytes().endswith(b'"\n')


def test_csv_writes_nested_values_as_json_and_names_their_columns(tmp_path: Path) -> None:
    contents = [
        {"a": [1, "x"], "b": {"k": None}, "c": True, "d": 0.1, "e": None, "f": datetime.date(2024, 1, 2)}
    ]
    assert write_csv(contents, tmp_path / "x.csv", list("abcdef")) == ("a", "b")
    (back,) = contents_of(tmp_path / "x.csv")
    assert back == {"a": '[1, "x"]', "b": '{"k": null}', "c": "true", "d": "0.1", "e": "", "f": "2024-01-02"}


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_column_of_several_kinds_does_not_fit_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(formats, "ROWS_PER_BATCH", size)
    with pytest.raises(DatasetError, match=r"Write \.jsonl instead"):
        write_parquet(rows_of([{"a": "x"}, {"a": {"b": 1}}]), tmp_path / "x.parquet", ["a"])


@pytest.mark.parametrize("value", [b"\x00", float("nan")])
def test_a_value_that_json_cannot_carry_names_its_row(tmp_path: Path, value: Any) -> None:
    with pytest.raises(DatasetError, match=r"Row 1 holds a value that JSON .* Write \.parquet instead"):
        write_json_lines(rows_of([{"a": 1}, {"a": value}]), tmp_path / "x.jsonl", is_gzipped=False)


def test_parquet_to_parquet_keeps_types_and_metadata(tmp_path: Path) -> None:
    frame = pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-01-02", None]), "n": [1, 2, 3]})
    table = pa.Table.from_pandas(frame).append_column("kind", pa.array(["a", "b", "a"]).dictionary_encode())
    table = table.append_column("small", pa.array([1, None, 3], pa.int8()))
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    filter_parquet(
        tmp_path / "x.parquet", tmp_path / "y.parquet", pa.array([True, False, True]).to_numpy(False)
    )
    back = pq.read_table(tmp_path / "y.parquet")
    assert back.schema.equals(pq.read_table(tmp_path / "x.parquet").schema, check_metadata=True)
    assert back.to_pylist() == table.filter(pa.array([True, False, True])).to_pylist()
