"""Tests gradscore.table.schema: the column dictionary and the conversion of scored rows to Arrow."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.table.schema import COLUMNS, SCHEMA, column_dictionary, to_arrow
from tests.table.rows import scored

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def test_every_column_is_described_and_scores_say_a_direction() -> None:
    assert all(column.meaning for column in COLUMNS)
    scores = [column for column in COLUMNS if column.arrow_type == pa.float64()]
    assert len(scores) == 10
    assert all(column.direction.startswith("high: ") and column.unit for column in scores)
    assert [entry["name"] for entry in column_dictionary()] == SCHEMA.names


def test_no_rows_give_an_empty_table_with_the_schema() -> None:
    assert to_arrow([]).schema == SCHEMA
    assert to_arrow([]).num_rows == 0


@given(
    st.lists(
        st.tuples(
            st.none() | finite, st.none() | st.lists(finite, max_size=4).map(tuple), st.none() | st.text()
        ),
        max_size=5,
    )
)
def test_values_come_back_and_missing_ones_are_null(values: list[tuple]) -> None:
    rows = [
        scored(i, loss=loss, layer_norms=norms, category=category)
        for i, (loss, norms, category) in enumerate(values)
    ]
    back = to_arrow(rows).to_pylist()
    assert [(r["loss"], r["layer_norms"], r["category"]) for r in back] == [
        (loss, None if norms is None else list(norms), category) for loss, norms, category in values
    ]


def test_a_sketch_is_rounded_to_float16() -> None:
    back = to_arrow([scored(0, sketch=(0.1, -2.0)), scored(1)])["sketch"].to_pylist()
    assert back == [[float(np.float16(0.1)), -2.0], None]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"Row 7: gsnr is -?(nan|inf); a missing score must be None"):
        to_arrow([scored(7, gsnr=value)])
    with pytest.raises(ValueError, match="Row 7: layer_norms is not finite as float32"):
        to_arrow([scored(6, layer_norms=None), scored(7, layer_norms=(1.0, value))])


def test_a_sketch_too_large_for_float16_is_refused() -> None:
    with pytest.raises(ValueError, match="Row 0: sketch is not finite as float16"):
        to_arrow([scored(0, sketch=(1e6,))])
