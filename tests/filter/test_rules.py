"""Tests gradscore.filter.rules: each rule against a slow obvious twin, and its laws."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradscore.errors import ConfigError
from gradscore.filter.rules import (
    NO_SCALE,
    order_best_first,
    parse_normalize,
    parse_top_k,
    quantile_within,
    rank_within,
    zscore_within,
)

Column = list[tuple[float, str | None]]
# Few distinct values and categories, so that ties, one-row categories and flat ones are common.
values = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5, 7.0, math.nan]) | st.floats(0.0, 1e6)
columns = st.lists(st.tuples(values, st.sampled_from(["a", "b", None])), max_size=12)


def arrays(column: Column) -> tuple[np.ndarray, np.ndarray]:
    labels = np.empty(len(column), dtype=object)
    labels[:] = [label for _, label in column]
    return np.array([value for value, _ in column], dtype=np.float64), labels


def members(column: Column, label: str | None) -> list[float]:
    """Return the values that count in a category."""
    return [value for value, other in column if other == label and not math.isnan(value)]


def slow_rank(column: Column) -> list[float]:
    """Slow and obviously right: count who is below and who is equal, for each row."""
    result = []
    for value, label in column:
        others = members(column, label)
        below, equal = sum(v < value for v in others), sum(v == value for v in others)
        result.append(math.nan if math.isnan(value) else (below + (equal + 1) / 2) / len(others))
    return result


def slow_zscore(column: Column) -> list[float]:
    """Slow and obviously right: mean and deviation of each row's category, anew for each row."""
    result = []
    for value, label in column:
        others = members(column, label)
        if math.isnan(value):
            result.append(math.nan)
        elif len(set(others)) == 1 or float(np.std(others)) == 0.0:
            result.append(0.0)
        else:
            result.append((value - float(np.mean(others))) / float(np.std(others)))
    return result


@given(columns)
def test_rank_agrees_with_counting(column: Column) -> None:
    ranks = rank_within(*arrays(column))
    np.testing.assert_allclose(ranks, slow_rank(column), rtol=1e-12)
    assert ((ranks > 0) & (ranks <= 1) | np.isnan(ranks)).all()


@example([(0.0, "a"), (4.7e-254, "a")])  # their squares are 0, and so is the deviation
@given(columns)
def test_zscore_agrees_with_each_category_by_itself(column: Column) -> None:
    # A deviation far below the mean loses digits in either method; 1e-6 allows for it.
    np.testing.assert_allclose(zscore_within(*arrays(column)), slow_zscore(column), rtol=1e-6, atol=1e-6)


def test_equal_values_have_zscore_zero_in_spite_of_rounding() -> None:
    assert zscore_within(*arrays([(0.1, "a")] * 3 + [(5.0, "b")])).tolist() == [0.0, 0.0, 0.0, 0.0]


@example([(0.0, "a"), (0.1, "b"), (2.2e-311, "a")], 0.25)  # a quantile that nothing can be divided by
@given(columns, st.sampled_from([0.25, 0.75, 1.0]))
def test_quantile_divides_by_the_category_or_by_all_rows(column: Column, q: float) -> None:
    scores, labels = arrays(column)
    known = scores[~np.isnan(scores)]
    own = {label: members(column, label) for label in ("a", "b", None)}
    has_scale = {label: len(v) > 1 and np.quantile(v, q) > NO_SCALE for label, v in own.items()}
    if any(own[label] and not has_scale[label] for label in own) and not np.quantile(known, q) > NO_SCALE:
        with pytest.raises(ConfigError, match="divides by a quantile, and that of all rows is "):
            quantile_within(scores, labels, q)
        return
    result = quantile_within(scores, labels, q)
    for value, label, normalized in zip(scores, labels, result.values, strict=True):
        if math.isnan(value):
            assert math.isnan(normalized)
        else:
            divisor = np.quantile(own[label] if has_scale[label] else known, q)
            np.testing.assert_allclose(normalized, value / divisor, rtol=1e-9)
    shown = {"a": "a", "b": "b", None: "(none)"}
    assert set(result.rescued) == {shown[c] for c in own if own[c] and not has_scale[c]}


def test_a_category_of_one_row_or_of_zero_quantile_uses_all_rows() -> None:
    column: Column = [(4.0, "one"), (0.0, "flat"), (0.0, "flat"), (1.0, "full"), (3.0, "full")]
    result = quantile_within(*arrays(column), 0.75)
    overall = np.quantile([4.0, 0.0, 0.0, 1.0, 3.0], 0.75)
    np.testing.assert_allclose(result.values, [4 / overall, 0, 0, 1 / 2.5, 3 / 2.5])
    assert result.rescued == ("flat", "one")


@given(columns, st.randoms(use_true_random=False), st.sampled_from(["rank", "zscore", "quantile:0.75"]))
def test_the_order_of_rows_does_not_matter(column: Column, random: object, method: str) -> None:
    order = list(range(len(column)))
    random.shuffle(order)  # type: ignore[attr-defined]
    normalize = parse_normalize(method)
    try:
        straight = normalize(*arrays(column)).values
    except ConfigError:
        with pytest.raises(ConfigError):
            normalize(*arrays([column[i] for i in order]))
        return
    shuffled = normalize(*arrays([column[i] for i in order])).values
    np.testing.assert_allclose(shuffled, straight[order], rtol=1e-6, atol=1e-6)


@given(columns, st.sampled_from(["none", "rank", "zscore", "quantile:0.75"]))
def test_normalisation_keeps_the_order_within_a_category(column: Column, method: str) -> None:
    scores, labels = arrays(column)
    try:
        result = parse_normalize(method)(scores, labels).values
    except ConfigError:
        return
    for label in ("a", "b", None):
        inside = np.array([other == label for other in labels], dtype=bool) & ~np.isnan(scores)
        order = np.argsort(scores[inside], kind="stable")
        assert (np.diff(result[inside][order]) >= 0).all()


@pytest.mark.parametrize(
    ("text", "n", "k"),
    [
        ("0.3", 999, 300),
        ("30%", 999, 300),
        ("30 %", 999, 300),
        ("300", 999, 300),
        ("1", 999, 1),
        ("1.0", 999, 999),
        ("100%", 999, 999),
        (".5", 5, 3),
        ("0.35", 10, 4),
        ("0.25", 2, 1),
        ("1e-3", 2500, 3),
        ("0.001", 10, 1),
        ("0.3", 0, 0),
        (" 5 ", 5, 5),
    ],
)
def test_top_k_counts(text: str, n: int, k: int) -> None:
    assert parse_top_k(text, n) == k


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "--top-k is 0, which keeps nothing"),
        ("0.0", r"--top-k is 0\.0, and a share must be above 0 and at most 1"),
        ("1.5", r"--top-k is 1\.5, and a share must be above 0 .* For a count give a whole number"),
        ("150%", "--top-k is 150%"),
        ("-1", "--top-k cannot be '-1'"),
        ("-0.3", "--top-k cannot be '-0.3'"),
        ("", "--top-k cannot be ''"),
        ("many", r"--top-k cannot be 'many'\. Give a share in \(0, 1\] such as 0\.3 or 30%, or a count"),
        ("nan", "--top-k cannot be 'nan'"),
        ("0.3.1", "--top-k cannot be"),
        ("11", "asks for 11 rows, but only 10 rows have a score to rank by"),
    ],
)
def test_top_k_that_makes_no_sense(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_top_k(text, 10)


@given(st.integers(1, 100), st.integers(1, 10_000))
def test_a_share_is_rounded_half_up_and_never_empty(percent: int, n: int) -> None:
    exact = Fraction(percent * n, 100)
    assert parse_top_k(f"{percent}%", n) == max(1, math.floor(exact + Fraction(1, 2)))
    assert parse_top_k(f"{percent / 100:.2f}", n) == parse_top_k(f"{percent}%", n)


@pytest.mark.parametrize("text", ["quantile", "quantile:", "quantile:0", "quantile:1.5", "quantile:x"])
def test_a_quantile_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Q must lie in \(0, 1\].* Give for example quantile:0\.75"):
        parse_normalize(text)


@pytest.mark.parametrize("text", ["max", "", "rank:1"])
def test_an_unknown_normalisation_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="It takes none, rank, zscore or quantile:Q"):
        parse_normalize(text)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from(["k1", "k2"]))), st.booleans())
def test_best_first_agrees_with_sorting_tuples(rows: list[tuple[float, str]], ascending: bool) -> None:
    sign = 1 if ascending else -1
    expected = sorted(range(len(rows)), key=lambda i: (sign * rows[i][0], rows[i][1], i))
    found = order_best_first(
        np.array([score for score, _ in rows], dtype=np.float64),
        pa.chunked_array([pa.array([key for _, key in rows], pa.string())]),
        np.arange(len(rows)),
        ascending=ascending,
    )
    assert found.tolist() == expected
