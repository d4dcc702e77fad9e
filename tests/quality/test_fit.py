"""Tests quality/fit.py: against scikit-learn, on known data, and that no fit ever sees what it is judged on."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gradscore.errors import TableError
from gradscore.quality.fit import (
    FOLDS,
    INVERSE_PENALTY,
    LabelledRows,
    choose_features,
    fit_logistic,
    fit_quality,
    prior_weights,
    score_unseen,
)
from gradscore.quality.model import Feature, Numbers, apply, half_lines

FAMILIES = ("foreign", "broken", "boilerplate")
ROW = "row"


def labelled(n_sound: int = 60, n_each: int = 10, n_unused: int = 4, strength: float = 2.0) -> LabelledRows:
    """Return rows whose faulty ones have a higher `loss`; `number` says which row it is; `noise` says nothing."""
    families = np.array(
        [None] * n_sound + [f for f in FAMILIES for _ in range(n_each)] + ["copy"] * n_unused, dtype=object
    )
    rng = np.random.default_rng(0)
    n = len(families)
    is_faulty = np.array([family in FAMILIES for family in families])
    columns = {
        "loss": np.exp(rng.normal(size=n) + strength * is_faulty),
        "noise": rng.normal(size=n),
        "number": np.arange(n, dtype=float),
    }
    return LabelledRows(columns, families, families, families != "copy")


def test_the_stored_model_is_scikit_learns() -> None:
    rows = labelled()
    features = choose_features(rows.columns, ["loss", "noise"])
    unseen = score_unseen(rows, features, seed=0)
    model = fit_quality(rows, features, unseen, seed=0, n_bootstrap=3)
    used = rows.is_used
    z, is_sound = half_lines(features, rows.columns), np.array([f is None for f in rows.families])
    logistic = LogisticRegression(C=INVERSE_PENALTY, max_iter=1000, tol=1e-10).fit(z[used], is_sound[used])
    calibration = LogisticRegression(C=1.0, max_iter=1000, tol=1e-10).fit(unseen[used, None], is_sound[used])
    expected = calibration.predict_proba(logistic.decision_function(z)[:, None])[:, 1]
    np.testing.assert_allclose(apply(model, rows.columns).quality, expected, atol=1e-5)


def test_sound_rows_have_the_higher_quality_and_it_is_calibrated() -> None:
    rows = labelled(n_sound=300, n_each=40)
    features = choose_features(rows.columns, ["loss", "noise"], {"loss": "low"})
    model = fit_quality(rows, features, score_unseen(rows, features, seed=0), seed=0, n_bootstrap=50)
    quality, low, high = apply(model, rows.columns)
    is_sound = np.array([f is None for f in rows.families])[rows.is_used]
    quality, low, high = quality[rows.is_used], low[rows.is_used], high[rows.is_used]
    assert quality[is_sound].mean() > quality[~is_sound].mean() + 0.3
    assert quality.mean() == pytest.approx(is_sound.mean(), abs=0.03)
    assert (low <= quality).all()
    assert (quality <= high).all()
    assert (high - low).mean() > 0.02
    assert model.weights[1] < 0, "a high loss speaks against a row"


class LeakDetector:
    """Fits nothing, and remembers which rows each fit was given, by their `number`."""

    def __init__(self, center: float, scale: float) -> None:
        self.seen: list[set[int]] = []
        self._center, self._scale = center, scale

    def __call__(self, z: Numbers, is_sound: np.ndarray, weight: Numbers) -> Numbers:
        rows = np.rint(z.sum(1) * self._scale + self._center).astype(int)
        self.seen.append(set(rows.tolist()))
        # The intercept tells fits apart: the score of a row is then the mean of the numbers of its fits.
        return np.array([float(len(self.seen) - 1), 0.0, 0.0])


def test_no_fit_sees_the_kind_or_the_sound_row_that_it_scores() -> None:
    rows = labelled()
    (feature,) = choose_features({"number": rows.columns["number"] - 40}, ["number"])
    rows.columns["number"][:] -= 40  # both signs, so that the numbers are not taken by their logarithm
    detector = LeakDetector(feature.center, feature.scale)
    scores = score_unseen(rows, [feature], seed=0, fitter=detector)
    number = rows.columns["number"].astype(int)
    assert len(detector.seen) == FOLDS * len(FAMILIES)
    for at, family in enumerate(FAMILIES):
        own = set(number[rows.families == family].tolist())
        fits = range(at * FOLDS, (at + 1) * FOLDS)
        assert all(not detector.seen[fit] & own for fit in fits)
        assert all(scores[rows.families == family] == np.mean(fits))
    sound = number[[family is None for family in rows.families]]
    for row in sound:
        without = [fit for fit, seen in enumerate(detector.seen) if row not in seen]
        assert len(without) == len(FAMILIES)
        assert scores[number == row] == pytest.approx(np.mean(without))
    unused = set(number[~rows.is_used].tolist())
    assert not any(seen & unused for seen in detector.seen)
    assert len(set.union(*detector.seen)) == len(number) - len(unused)


def test_a_single_family_leaves_nothing_to_judge_by() -> None:
    rows = labelled()
    one = LabelledRows(
        rows.columns,
        rows.families,
        rows.kinds,
        rows.is_used & (rows.families != "broken") & (rows.families != "foreign"),
    )
    features = choose_features(rows.columns, ["loss"])
    unseen = score_unseen(one, features, seed=0)
    assert np.isnan(unseen).all()
    model = fit_quality(one, features, unseen, seed=0, n_bootstrap=2)
    assert (model.slope, model.offset) == (1.0, 0.0)


def test_where_unseen_kinds_are_not_found_quality_says_nothing() -> None:
    rows = labelled()
    features = choose_features(rows.columns, ["loss", "noise"])
    is_sound = np.array([f is None for f in rows.families])
    model = fit_quality(rows, features, np.where(is_sound, -1.0, 1.0), seed=0, n_bootstrap=2)
    assert model.slope == 0
    np.testing.assert_allclose(apply(model, rows.columns).quality, 60 / 90, atol=1e-5)


def test_the_same_seed_gives_the_same_model() -> None:
    rows = labelled()
    features = choose_features(rows.columns, ["loss", "noise"])
    a, b, c = (
        fit_quality(rows, features, score_unseen(rows, features, seed), seed, n_bootstrap=3)
        for seed in (1, 1, 2)
    )
    assert a == b
    assert a.bootstrap != c.bootstrap


def test_features_are_complete_varied_and_taken_by_logarithm_where_positive() -> None:
    columns = {
        "positive": np.array([1.0, 2, 3, 4] * 10),
        "signed": np.array([-1.0, 2, 3, 4] * 10),
        "constant": np.ones(40),
        "gappy": np.array([np.nan, 2, 3, 4] * 10),
        "one_gap": np.array([np.nan] + [1.0, 2, 3] * 13),
    }
    found = choose_features(columns, [*columns, "absent"])
    assert {feature.name: feature.transform for feature in found} == {
        "positive": "log",
        "signed": "identity",
        "one_gap": "log",
    }


def test_rows_without_a_column_are_not_fitted_on_and_have_no_score() -> None:
    rows = labelled()
    rows.columns["loss"][5] = np.nan
    features = choose_features(rows.columns, ["loss"])
    unseen = score_unseen(rows, features, seed=0)
    assert np.isnan(unseen[5])
    assert np.isfinite(np.delete(unseen, 5)).all()
    assert np.isfinite(fit_quality(rows, features, unseen, seed=0, n_bootstrap=1).weights).all()


def test_too_few_faulty_rows_are_refused() -> None:
    rows = labelled(n_each=3)
    features = choose_features(rows.columns, ["loss"])
    with pytest.raises(
        TableError, match=r"at least 10 faulty .* there are 9 and 60\. Pass a larger --sample"
    ):
        fit_quality(rows, features, score_unseen(rows, features, seed=0), seed=0)


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    z, is_sound, counts = rng.normal(size=(30, 2)), rng.random(30) < 0.6, rng.integers(0, 3, 30)
    repeated = np.repeat(np.arange(30), counts)
    weighted = fit_logistic(z, is_sound, counts.astype(float), np.zeros(2))
    plain = fit_logistic(z[repeated], is_sound[repeated], np.ones(len(repeated)), np.zeros(2))
    np.testing.assert_allclose(weighted, plain, atol=1e-4)


def test_without_a_prior_it_is_scikit_learns_logistic_regression() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(60, 3))
    is_sound = rng.random(60) < 1 / (1 + np.exp(-z @ np.array([1.0, -2.0, 0.0])))
    weight = rng.random(60) + 0.5
    twin = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(z, is_sound, sample_weight=weight)
    found = fit_logistic(z, is_sound, weight, np.zeros(3), inverse_penalty=0.3)
    np.testing.assert_allclose(found, [*twin.intercept_, *twin.coef_[0]], atol=1e-5)


def test_without_evidence_the_weights_are_the_prior() -> None:
    features = [
        Feature("a", "log", 0, 1, "low"),
        Feature("b", "log", 0, 1, "high"),
        Feature("c", "log", 0, 1),
    ]
    prior = prior_weights(features)
    assert prior.tolist() == [0, -1, 1, 0, 0, 0]
    found = fit_logistic(np.zeros((4, 6)), np.array([True, True, True, False]), np.ones(4), prior)
    np.testing.assert_allclose(found, [np.log(3), *prior], atol=1e-5)
