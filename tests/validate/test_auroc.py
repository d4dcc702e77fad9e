"""Tests validate/auroc.py: against counting pairs one by one, on ties and gaps, and by laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gradscore.validate.auroc import (
    Draws,
    Flags,
    Numbers,
    auroc,
    bootstrap_auroc,
    estimate_auroc,
    estimate_gain,
)

values = st.one_of(st.integers(-3, 3).map(float), st.just(float("nan")))
samples = st.lists(st.tuples(values, st.booleans()), min_size=1, max_size=30)


def split(sample: list[tuple[float, bool]]) -> tuple[Numbers, Flags]:
    return np.array([value for value, _ in sample]), np.array([flag for _, flag in sample])


def slow_auroc(worth: Numbers, is_faulty: Flags, counts: Numbers | None = None) -> float | None:
    """Slow and obviously right: count every pair of a faulty and a sound row."""
    counts = np.ones(len(worth)) if counts is None else counts
    wins, pairs = 0.0, 0.0
    for i in range(len(worth)):
        for j in range(len(worth)):
            if is_faulty[i] and not is_faulty[j] and not np.isnan(worth[i]) and not np.isnan(worth[j]):
                weight = float(counts[i] * counts[j])
                pairs += weight
                wins += weight * (1.0 if worth[i] < worth[j] else 0.5 if worth[i] == worth[j] else 0.0)
    return wins / pairs if pairs else None


@given(samples)
def test_it_is_the_share_of_pairs(sample: list[tuple[float, bool]]) -> None:
    worth, is_faulty = split(sample)
    assert auroc(worth, is_faulty) == pytest.approx(slow_auroc(worth, is_faulty), abs=1e-6)


@given(samples)
def test_it_is_scikit_learns(sample: list[tuple[float, bool]]) -> None:
    worth, is_faulty = split(sample)
    has_value = ~np.isnan(worth)
    if len(set(is_faulty[has_value].tolist())) == 2:
        expected = roc_auc_score(is_faulty[has_value], -worth[has_value])
        assert auroc(worth, is_faulty) == pytest.approx(expected, abs=1e-6)


@given(samples)
def test_negated_values_give_one_minus_it(sample: list[tuple[float, bool]]) -> None:
    worth, is_faulty = split(sample)
    value, negated = auroc(worth, is_faulty), auroc(-worth, is_faulty)
    assert (value is None) == (negated is None)
    assert value is None or negated == pytest.approx(1 - value, abs=1e-6)


@given(samples, st.integers(0, 9))
def test_each_draw_is_the_share_of_its_pairs(sample: list[tuple[float, bool]], seed: int) -> None:
    worth, is_faulty = split(sample)
    draws = Draws.of(is_faulty.astype(object), seed, n_draws=5)
    drawn = bootstrap_auroc(worth, is_faulty, draws)
    for found, weights in zip(drawn, draws.weights, strict=True):
        expected = slow_auroc(worth, is_faulty, weights.astype(float))
        assert np.isnan(found) if expected is None else found == pytest.approx(expected, abs=1e-6)


def test_many_rows_in_blocks_are_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    worth, is_faulty = rng.normal(size=50).round(1), np.arange(50) % 3 == 0
    draws = Draws.of(is_faulty.astype(object), 0, n_draws=20)
    whole = bootstrap_auroc(worth, is_faulty, draws)
    monkeypatch.setattr("gradscore.validate.auroc.ROWS_PER_BLOCK", 7)
    np.testing.assert_allclose(bootstrap_auroc(worth, is_faulty, draws), whole, rtol=1e-6)


def test_draws_keep_the_size_of_every_stratum_and_follow_the_seed() -> None:
    strata = np.array(["a", None, "b", None, "a", None], dtype=object)
    draws = Draws.of(strata, 1, n_draws=50).weights
    for stratum, size in (("a", 2), ("b", 1), (None, 3)):
        places = [at for at, label in enumerate(strata) if label == stratum]
        np.testing.assert_allclose(draws[:, places].sum(1), size, rtol=1e-6)
    assert (Draws.of(strata, 1, n_draws=50).weights == draws).all()
    assert (Draws.of(strata, 2, n_draws=50).weights != draws).any()


@pytest.mark.parametrize("n", [2, 3, 30])
def test_draws_keep_the_variance_of_a_mean_however_few_the_rows(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    draws = Draws.of(np.full(n, "swapped", dtype=object), 0, n_draws=20_000)
    means = draws.weights @ values / n
    assert means.var() == pytest.approx(values.var(ddof=1) / n, rel=0.05)


def test_perfect_useless_and_wrong_columns_read_one_a_half_and_zero() -> None:
    is_faulty = np.repeat([True, False], 30)
    draws = Draws.of(is_faulty.astype(object), 0)
    perfect = estimate_auroc(np.arange(60.0), is_faulty, draws)
    constant = estimate_auroc(np.zeros(60), is_faulty, draws)
    wrong = estimate_auroc(-np.arange(60.0), is_faulty, draws)
    assert perfect is not None
    assert constant is not None
    assert wrong is not None
    assert (perfect.value, perfect.low, perfect.high) == (1.0, 1.0, 1.0)
    assert (constant.value, constant.low, constant.high) == (0.5, 0.5, 0.5)
    assert (wrong.value, wrong.low, wrong.high) == (0.0, 0.0, 0.0)
    assert perfect.is_above(0.5)
    assert wrong.is_below(0.5)
    assert not constant.is_above(0.5)
    assert not constant.is_below(0.5)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # Worth of faulty rows is N(0, 1) and of sound ones N(1, 1): the true AUROC is Phi(1 / sqrt 2) = 0.7602.
    rng = np.random.default_rng(0)
    is_faulty = np.repeat([True, False], [30, 120])
    covered = 0
    for trial in range(60):
        worth = rng.normal(size=150) + ~is_faulty
        found = estimate_auroc(worth, is_faulty, Draws.of(is_faulty.astype(object), trial, n_draws=200))
        assert found is not None
        covered += found.low <= 0.7602 <= found.high
    assert 51 <= covered < 60


@pytest.mark.parametrize("flags", [np.ones(4, bool), np.zeros(4, bool)])
def test_one_class_only_has_no_auroc(flags: Flags) -> None:
    assert estimate_auroc(np.arange(4.0), flags, Draws.of(flags.astype(object), 0)) is None


def test_all_values_missing_has_no_auroc() -> None:
    flags = np.array([True, False])
    draws = Draws.of(flags.astype(object), 0)
    assert estimate_auroc(np.full(2, np.nan), flags, draws) is None
    assert estimate_gain(np.arange(2.0), np.full(2, np.nan), flags, draws) is None


def test_a_paired_gain_is_narrower_than_its_parts() -> None:
    rng = np.random.default_rng(0)
    is_faulty = np.repeat([True, False], [40, 160])
    base = rng.normal(size=200) + 0.8 * ~is_faulty
    better = base + rng.normal(scale=0.1, size=200) + 0.3 * ~is_faulty
    draws = Draws.of(is_faulty.astype(object), 0)
    alone, gain = estimate_auroc(better, is_faulty, draws), estimate_gain(better, base, is_faulty, draws)
    assert alone is not None
    assert gain is not None
    assert gain.is_above(0)
    assert gain.high - gain.low < (alone.high - alone.low) / 2
    nothing = estimate_gain(base, base, is_faulty, draws)
    assert nothing is not None
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
