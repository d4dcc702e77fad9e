"""Tests gradscore.report.confounds against slow, obvious twins and known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.report.confounds import overlap, random_overlap, share_between_categories, spearman

NAN = float("nan")


def slow_ranks(values: list[float]) -> np.ndarray:
    """Return average ranks by counting."""
    return np.array([sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=30))
def test_rank_correlation_is_that_of_counted_ranks(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    found = spearman(x, y)
    ranks = [slow_ranks(side.tolist()) for side in (x, y)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        assert found is None
    else:
        assert found is not None
        assert found.rho == pytest.approx(float(np.corrcoef(*ranks)[0, 1]), abs=1e-12)
        assert -1 <= found.low <= found.rho <= found.high <= 1


def test_missing_values_do_not_count_and_three_rows_say_nothing() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, NAN])
    assert spearman(x, np.array([1.0, 4.0, 9.0, 16.0, 0.0])) == (spearman(x[:4], x[:4]))
    assert spearman(x, np.array([1.0, 2.0, 3.0, NAN, 5.0])) is None


def test_the_interval_covers_an_unrelated_pair_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    pairs = (spearman(*generator.normal(size=(2, 30))) for _ in range(400))
    covered = np.mean([found is not None and found.low <= 0 <= found.high for found in pairs])
    assert 0.92 <= covered <= 0.98


def test_share_between_categories_is_one_for_separate_groups_and_small_by_chance() -> None:
    labels = np.array(["a"] * 50 + ["b"] * 50, dtype=object)
    assert share_between_categories(np.repeat([1.0, 2.0], 50), labels) == pytest.approx(1.0)
    values = np.random.default_rng(0).normal(size=100)
    found = share_between_categories(values, labels)
    ranks = slow_ranks(values.tolist())
    between = sum(50 * (ranks[labels == name].mean() - ranks.mean()) ** 2 for name in "ab")
    assert found == pytest.approx(between / ((ranks - ranks.mean()) ** 2).sum())
    assert share_between_categories(values, np.full(100, None, dtype=object)) is None


def test_rows_without_a_category_are_a_category() -> None:
    labels = np.array(["a", "a", None, None], dtype=object)
    assert share_between_categories(np.array([1.0, 1.0, 2.0, 2.0]), labels) == pytest.approx(1.0)


def test_overlap_counts_the_rows_that_both_choices_keep() -> None:
    kept = np.array([True, True, False, False])
    high = overlap(kept, np.array([4.0, 1.0, 3.0, NAN]), "x", is_highest=True)
    low = overlap(kept, np.array([4.0, 1.0, 3.0, NAN]), "x", is_highest=False)
    assert high is not None
    assert low is not None
    assert (high.share, low.share) == (0.5, 0.5)
    assert overlap(kept, np.array([1.0, NAN, NAN, NAN]), "x", is_highest=True) is None
    assert overlap(~(kept | True), np.ones(4), "x", is_highest=True) is None


def test_random_overlap_is_that_of_random_choices() -> None:
    generator = np.random.default_rng(0)
    kept = np.arange(50) < 20
    shares = [kept[generator.permutation(50)[:20]].mean() for _ in range(2000)]
    mean, low, high = random_overlap(20, 50)
    assert np.mean(shares) == pytest.approx(mean, abs=0.01)
    assert np.std(shares) == pytest.approx((high - low) / 3.92, rel=0.06)
    assert random_overlap(50, 50) == (1.0, 1.0, 1.0)
