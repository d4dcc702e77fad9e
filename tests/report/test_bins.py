"""Tests gradscore.report.bins: every value is in one bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.report.bins import bin_edges, binned, is_skewed, short_labels


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_every_value_is_counted_once(values: list[float]) -> None:
    array = np.array(values)
    labels = np.array(["a" if i % 2 else "b" for i in range(len(values))], dtype=object)
    assert sum(record["rows"] for record in binned(array, labels, ["a", "b"])) == len(values)


def test_skewed_values_have_even_bins_on_a_log_scale() -> None:
    values = np.geomspace(1, 1e4, 50)
    edges = bin_edges(values, 4)
    assert is_skewed(values)
    assert edges == pytest.approx([1, 10, 100, 1000, 10000])
    assert not is_skewed(values - 2)
    assert not is_skewed(np.empty(0))


def test_rare_labels_are_joined_and_none_is_named() -> None:
    labels = np.array([None] * 9 + list("aaaabbbccde") + ["f", "g"], dtype=object)
    shown, order = short_labels(labels, "(none)", "(other)")
    assert order == ["(none)", "a", "b", "c", "d", "(other)"]
    assert sorted(set(shown)) == sorted(order)
