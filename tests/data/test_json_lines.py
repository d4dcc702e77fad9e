"""JSON Lines: rows, exact bytes, and lines that are no rows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.data.json_lines import count_json_lines, parse_line, read_json_lines


def rows_of(tmp_path, content):
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    rows = list(read_json_lines(path))
    assert count_json_lines(path) == len(rows)
    return rows


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends_and_blank_lines_are_no_part_of_rows(tmp_path, end):
    rows = rows_of(tmp_path, end.join([b"", b'{"a": 1}', b"  ", b'{ "a":2}']))
    assert [row.content for row in rows] == [{"a": 1}, {"a": 2}]
    assert [row.raw for row in rows] == [b'{"a": 1}', b'{ "a":2}']


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers())))
def test_written_rows_are_read_again(tmp_path_factory, values):
    content = "".join(json.dumps(value) + "\n" for value in values)
    rows = rows_of(tmp_path_factory.mktemp("lines"), content.encode())
    assert [row.content for row in rows] == values
    assert b"".join(row.raw + b"\n" for row in rows) == content.encode()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": 1', "line 7 column 8: broken JSON (Expecting ',' delimiter)"),
        (b'{"a": "x\x00y"}', "line 7 column 9: broken JSON (Invalid control character at)"),
        (b"[1]", "line 7: a row must be a JSON object, this line is a list"),
        (b'"text"', "line 7: a row must be a JSON object, this line is a str"),
        (b'{"a": "\xff"}', "line 7 column 8: not UTF-8 (invalid start byte)"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_place(line, problem):
    row = parse_line(line, 7)
    assert (row.content, row.problem, row.raw) == (None, problem, line)


def test_endless_nesting_and_digits_are_problems_not_crashes():
    assert "cannot be read" in parse_line(b'{"a":' + b"[" * 100_000, 1).problem
    assert "cannot be read" in parse_line(b'{"a":' + b"1" * 10_000 + b"}", 1).problem


def test_escaped_nul_is_text():
    assert parse_line(rb'{"a": "x\u0000y"}', 1).content == {"a": "x\0y"}
