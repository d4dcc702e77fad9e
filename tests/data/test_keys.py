"""Row keys: equal for equal content, whatever the format did to it, and different otherwise."""

import datetime
import decimal
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.data.keys import bytes_key, canonical, row_key
from gradscore.errors import UnsupportedError

LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
ROWS = st.dictionaries(
    st.text(),
    st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10),
)


def test_a_key_is_32_hex_digits_and_known():
    # Tables in the field hold these keys: a change here breaks every one of them.
    # Made by: printf '%s' '{"a":"\u00fc","b":1}' | b2sum -l 128
    assert row_key({"b": 1, "a": "ü"}) == "13fe8d85dbe8ceb938d820935607119d"


@settings(max_examples=200)
@given(ROWS | st.dictionaries(st.text(), st.text()))
def test_key_is_the_hash_of_the_canonical_json_as_the_slow_way_writes_it(row):
    text = json.dumps(canonical(row), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    assert row_key(row) == bytes_key(text.encode("ascii"))


@settings(max_examples=30)
@given(ROWS)
def test_key_does_not_depend_on_the_order_of_fields(row):
    assert row_key(dict(reversed(list(row.items())))) == row_key(row)


@settings(max_examples=30)
@given(ROWS)
def test_key_survives_a_round_trip_through_json(row):
    assert row_key(json.loads(json.dumps(row))) == row_key(row)


@settings(max_examples=30)
@given(ROWS)
def test_canonical_form_is_its_own_canonical_form(row):
    assert canonical(canonical(row)) == canonical(row)


@settings(max_examples=30)
@given(ROWS, st.text(), st.text())
def test_another_text_gives_another_key(row, old, new):
    assert (row_key({**row, "x": old}) == row_key({**row, "x": new})) == (old == new)


def test_null_fields_count_as_absent_at_every_depth_but_not_inside_lists():
    assert row_key({"a": {"b": 1, "c": None}, "d": None}) == row_key({"a": {"b": 1}})
    assert row_key({"a": [1, None]}) != row_key({"a": [1]})


def test_arrow_filled_nulls_and_floats_do_not_change_the_key():
    rows = [{"a": 3, "m": [{"x": "p"}]}, {"a": 2.5, "m": [{"y": "q"}]}]
    read = pa.Table.from_pylist([{**row, "a": float(row["a"])} for row in rows]).to_pylist()
    assert read[0]["m"] == [{"x": "p", "y": None}]
    assert [row_key(row) for row in read] == [row_key(row) for row in rows]


def test_arrays_tuples_numpy_scalars_and_dates_are_data():
    day = datetime.date(2024, 2, 29)
    assert canonical((1, np.array([2, 3]), np.float32(0.5))) == [1, [2, 3], 0.5]
    assert canonical(day) == "2024-02-29"
    assert canonical(datetime.datetime(2024, 2, 29, 1, 2)) == "2024-02-29T01:02:00"
    assert canonical([decimal.Decimal("1.50"), b"\x01\xff", datetime.timedelta(seconds=2)]) == [
        "1.50",
        "01ff",
        2.0,
    ]


def test_true_is_not_one_and_a_lone_surrogate_has_a_key():
    assert row_key({"a": True}) != row_key({"a": 1})
    assert row_key({"a": "\ud800"}) != row_key({"a": "\ud801"})


def test_what_is_no_data_is_named():
    with pytest.raises(UnsupportedError, match="values of type BytesIO, which have no text form"):
        row_key({"image": io.BytesIO()})


def test_bytes_key_is_the_hash_of_the_bytes():
    assert bytes_key(b"x") == bytes_key(b"x") != bytes_key(b"y")
    assert len(bytes_key(b"")) == 32
