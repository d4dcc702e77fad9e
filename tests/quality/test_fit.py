"""Tests quality/fit.py: scales against plain quantiles, the calibration against scikit-learn, and that no sound row is scaled by itself."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gradscore.errors import TableError
from gradscore.quality.fit import (
    FEWEST_OPTIONAL,
    FOLDS,
    INVERSE_PENALTY,
    LabelledRows,
    calibrate,
    choose_features,
    fit_quality,
    knot_scores,
    knots,
    score_out_of_fold,
)
from gradscore.quality.model import apply, distance

KINDS = ("swapped", "truncated", "refusal")
BETTER = {"loss": "low", "alignment": "high", "noise": "low", "stop_loss": "low"}


def labelled(n_sound: int = 60, n_each: int = 10, n_unused: int = 4, strength: float = 2.0) -> LabelledRows:
    """Return rows whose faulty ones have a higher `loss`; `noise` says nothing."""
    kinds = np.array(
        [None] * n_sound + [kind for kind in KINDS for _ in range(n_each)] + ["copy"] * n_unused, dtype=object
    )
    rng = np.random.default_rng(0)
    is_faulty = np.array([kind in KINDS for kind in kinds])
    columns = {
        "loss": np.exp(rng.normal(size=len(kinds)) + strength * is_faulty),
        "noise": rng.normal(size=len(kinds)),
    }
    return LabelledRows(columns, kinds, kinds != "copy")


def of_sound(rows: LabelledRows) -> dict[str, np.ndarray]:
    return {name: values[rows.is_sound] for name, values in rows.columns.items()}


def features_of(rows: LabelledRows, *names: str) -> tuple:
    return choose_features(of_sound(rows), names, BETTER)


def test_knots_are_quantiles_of_the_bad_half() -> None:
    values = np.random.default_rng(1).exponential(size=200)
    scores = knot_scores(200)
    assert scores[:3] == (0.0, 0.5, 1.0)
    assert scores[-1] == pytest.approx(NormalDist().inv_cdf(199.5 / 200), rel=1e-5)
    low = knots(values, scores, "low")
    assert low[0] == pytest.approx(np.median(values), rel=1e-5)
    assert low[-1] == pytest.approx(values.max(), rel=1e-5)
    worse = np.mean(values > low[2])
    assert worse == pytest.approx(1 - NormalDist().cdf(1.0), abs=1 / 200)
    assert knots(-values, scores, "high") == tuple(-value for value in low)


def test_the_calibration_is_scikit_learns() -> None:
    rng = np.random.default_rng(2)
    d = rng.exponential(size=80) * 4
    is_sound = rng.random(80) < 1 / (1 + np.exp(-(1.5 - 0.6 * d)))
    twin = LogisticRegression(C=INVERSE_PENALTY, tol=1e-10).fit(d[:, None], is_sound)
    intercept, slope = calibrate(d, is_sound)
    assert intercept == pytest.approx(twin.intercept_[0], abs=1e-3)
    assert slope == pytest.approx(-twin.coef_[0, 0], abs=1e-3)


def test_where_faulty_rows_lie_no_farther_out_quality_is_the_share_of_sound_rows() -> None:
    rows = labelled(strength=-2.0)
    model = fit_quality(rows, features_of(rows, "loss"), seed=0, n_bootstrap=2)
    assert model.slope == 0.0
    np.testing.assert_allclose(apply(model, rows.columns).quality, 60 / 90, atol=1e-4)


def test_sound_rows_have_the_higher_quality_and_it_is_calibrated() -> None:
    rows = labelled(n_sound=300, n_each=40)
    model = fit_quality(rows, features_of(rows, "loss", "noise"), seed=0, n_bootstrap=50)
    found = apply(model, rows.columns)
    quality, low, high = (values[rows.is_used] for values in found)
    is_sound = rows.is_sound[rows.is_used]
    assert quality[is_sound].mean() > quality[~is_sound].mean() + 0.3
    assert quality.mean() == pytest.approx(is_sound.mean(), abs=0.03)
    assert (low <= quality).all()
    assert (quality <= high).all()
    assert (high - low).mean() > 0.02


def test_no_sound_row_is_scored_by_a_scale_that_it_is_part_of() -> None:
    """The worst sound row of all lies as far out as the worst of the others, wherever it is itself."""
    rows = labelled()
    (feature,) = features_of(rows, "loss")
    place = int(np.argmax(np.where(rows.is_sound, rows.columns["loss"], 0)))
    moved = {"loss": rows.columns["loss"].copy()}
    moved["loss"][place] *= 1000
    before, after = (
        score_out_of_fold(changed, [feature], seed=0)[place]
        for changed in (rows, replace(rows, columns=moved))
    )
    assert before == after == pytest.approx(feature.scores[-1] ** 2)


def test_a_sound_row_is_scored_by_the_other_folds_and_a_faulty_one_by_all() -> None:
    rows = labelled()
    features = features_of(rows, "loss")
    found = score_out_of_fold(rows, features, seed=3)
    order = np.random.default_rng(3).permutation(60)  # the 60 sound rows come first
    fold = np.empty(60, dtype=int)
    fold[order] = np.arange(60) % FOLDS
    by_fold = []
    for left_out in range(FOLDS):
        others = rows.columns["loss"][:60][fold != left_out]
        scaled = replace(features[0], values=knots(others, features[0].scores, "low"))
        by_fold.append(distance([scaled], [rows.columns["loss"]]))
    np.testing.assert_allclose(found[:60], np.array(by_fold)[fold, np.arange(60)])
    np.testing.assert_allclose(found[60:], np.mean(by_fold, axis=0)[60:])


def test_planted_kinds_do_not_change_the_order_of_rows() -> None:
    rows = labelled()
    features = features_of(rows, "loss", "noise")
    fewer = replace(rows, is_used=rows.is_used & (rows.kinds != "swapped"))
    first, second = (
        apply(fit_quality(some, features, seed=0, n_bootstrap=1), rows.columns).quality
        for some in (rows, fewer)
    )
    assert not np.allclose(first, second), "the probabilities follow from the faults"
    ties = np.unique(first).size
    assert np.unique(second).size == ties
    assert (np.argsort(first, kind="stable") == np.argsort(second, kind="stable")).all()


def test_the_same_seed_gives_the_same_model() -> None:
    rows = labelled()
    features = features_of(rows, "loss", "noise")
    a, b, c = (fit_quality(rows, features, seed, n_bootstrap=3) for seed in (1, 1, 2))
    assert a == b
    assert a.bootstrap != c.bootstrap


def test_features_are_complete_varied_and_claim_an_end() -> None:
    columns = {
        "plain": np.array([1.0, 2, 3, 4] * 10),
        "constant": np.ones(40),
        "gappy": np.array([np.nan, 2, 3, 4] * 10),
        "one_gap": np.array([np.nan] + [1.0, 2, 3] * 13),
        "no_claim": np.arange(40.0),
        "stop_loss": np.where(np.arange(40) < FEWEST_OPTIONAL, np.arange(40.0), np.nan),
        "number_excess": np.where(np.arange(40) < FEWEST_OPTIONAL - 1, np.arange(40.0), np.nan),
    }
    better = {name: "low" for name in columns if name != "no_claim"} | {"one_gap": "high"}
    found = choose_features(columns, [*columns, "absent"], better)
    assert {feature.name: (feature.better, feature.is_optional) for feature in found} == {
        "plain": ("low", False),
        "one_gap": ("high", False),
        "stop_loss": ("low", True),
    }


def test_rows_without_a_column_are_not_fitted_on_and_have_no_score() -> None:
    rows = labelled()
    rows.columns["loss"][5] = np.nan
    features = features_of(rows, "loss")
    found = score_out_of_fold(rows, features, seed=0)
    assert np.isnan(found[5])
    assert np.isfinite(np.delete(found, 5)).all()
    assert np.isfinite(fit_quality(rows, features, seed=0, n_bootstrap=1).intercept)


def test_too_few_faulty_rows_are_refused() -> None:
    rows = labelled(n_each=3)
    with pytest.raises(
        TableError, match=r"at least 10 faulty .* there are 9 and 60\. Pass a larger --sample"
    ):
        fit_quality(rows, features_of(rows, "loss"), seed=0)
