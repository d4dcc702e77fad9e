"""JSON arrays, and telling them from JSON Lines whatever the file is called."""

import pytest

from gradscore.data.json_array import json_layout, load_json_array, read_json_array
from gradscore.errors import DatasetError


@pytest.mark.parametrize(
    ("name", "content", "layout"),
    [
        ("a.json", '[{"a": 1}]', "json"),
        ("a.json", '\n [\n{"a": 1}\n]', "json"),
        ("a.jsonl", '[{"a": 1},\n{"a": 2}]', "json"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.json", '{"a": 1}', "jsonl"),
        ("a.json", '{"a": \n{"a": 2}\n', "jsonl"),
        ("a.jsonl", '[1]\n{"a": 2}\n', "jsonl"),
        ("a.jsonl", "broken\n", "jsonl"),
        ("a.json", '{\n "a": 1\n}', "json"),
        ("a.jsonl", '{\n "a": 1\n}', "json"),
        ("a.jsonl", "", "jsonl"),
    ],
)
def test_layout_is_told_by_the_first_lines(tmp_path, name, content, layout):
    path = tmp_path / name
    path.write_text(content)
    assert json_layout(path) == layout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1},\n{"a" 2}]', "broken JSON at line 2 column 6: Expecting ':' delimiter"),
        (b'{"train": [], "test": []}', "holds an object with the keys train, test"),
        (b'"text"', "must hold a JSON array of rows, but it holds 'text'"),
        (b'["\xff"]', "is not UTF-8: byte 2 cannot be decoded"),
        (b"[" * 100_000, "holds JSON that cannot be read"),
    ],
)
def test_what_is_no_array_is_refused(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        load_json_array(path)


def test_elements_that_are_no_objects_are_rows_with_a_problem(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, 7, {"a": 2}]')
    rows = list(read_json_array(load_json_array(path)))
    assert [row.content for row in rows] == [{"a": 1}, None, {"a": 2}]
    assert rows[1].problem == "element 2 of the array: a row must be a JSON object, this is a int"
