"""CSV and TSV: quotes, lines inside quotes, broken records."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.data.delimited import read_delimited
from gradscore.errors import DatasetError


def rows_of(tmp_path, content, delimiter=","):
    path = tmp_path / "data.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_delimited(path, delimiter))


def test_quotes_and_line_ends_inside_them_belong_to_the_field(tmp_path):
    rows = rows_of(tmp_path, 'q,a\r\n"say ""hi"",\nplease",1\r\n\r\n,\r\n')
    assert [row.content for row in rows] == [{"q": 'say "hi",\nplease', "a": "1"}, {"q": "", "a": ""}]


def test_tabs(tmp_path):
    assert rows_of(tmp_path, "q\ta\nx, y\t2\n", "\t")[0].content == {"q": "x, y", "a": "2"}


@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"))] * 2), max_size=5))
def test_written_records_are_read_again(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("q", "a"), *records])
    assert [tuple(row.content.values()) for row in read_delimited(path, ",")] == records


def test_wrong_number_of_fields_is_a_problem_and_the_next_row_is_fine(tmp_path):
    rows = rows_of(tmp_path, 'q,a\n"x\ny",2\nx\nx,y,z\nu,v\n')
    assert [row.problem for row in rows] == [
        None,
        "line 4: 1 fields, but the header has 2",
        "line 5: 3 fields, but the header has 2",
        None,
    ]
    assert rows[3].content == {"q": "u", "a": "v"}


def test_broken_quotes_are_a_problem(tmp_path):
    assert "line 2: broken record" in rows_of(tmp_path, 'q,a\n"x"y,2\nu,v\n')[0].problem
    assert (
        "line 3: broken record (unexpected end of data)"
        in rows_of(tmp_path, 'q,a\n1,2\n"x,2\nu,v\n')[1].problem
    )


def test_a_field_larger_than_the_standard_limit(tmp_path):
    long = "word " * 60_000
    assert rows_of(tmp_path, f"q,a\n{long},2\n")[0].content["q"] == long


def test_latin1_is_a_problem_of_its_row(tmp_path):
    rows = rows_of(tmp_path, b"q,a\nna\xefve,2\nu,v\n")
    assert rows[0].problem == "line 2: not UTF-8 (invalid continuation byte)"
    assert rows[1].content == {"q": "u", "a": "v"}


@pytest.mark.parametrize("header", ["q,q", "q,", '"q"x,a'])
def test_header_must_name_every_column_once(tmp_path, header):
    with pytest.raises(DatasetError, match=r"header line|names every column once"):
        rows_of(tmp_path, f"{header}\n1,2\n")


def test_no_rows(tmp_path):
    assert rows_of(tmp_path, "") == rows_of(tmp_path, "q,a\n") == []
