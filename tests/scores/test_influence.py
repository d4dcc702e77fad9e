"""Tests gradscore.scores.influence against definitions written out, whatever the batches, and its laws."""

import dataclasses

import numpy as np
import pytest
import torch

from gradscore.gradients.engine import SampleGradients
from gradscore.scores.influence import Reference, ReferenceSum

TRUSTED = np.random.default_rng(0).normal(size=(6, 7))
ROWS = np.random.default_rng(1).normal(size=(4, 7))
CATEGORIES = ["a", "b", "a", None, "a", "b"]


def gradients(values: np.ndarray) -> SampleGradients:
    """Return rows [n, 7] as the gradients of two parameters of 3 and 4 coordinates."""
    vectors = (torch.from_numpy(values[:, :3]), torch.from_numpy(values[:, 3:]))
    norms = torch.stack([v.square().sum(1) for v in vectors], 1)
    return SampleGradients(torch.zeros(len(values), dtype=torch.float64), norms, vectors)


def reference(adam: bool = False, batches: tuple[slice, ...] = (slice(None),)) -> Reference:
    total = ReferenceSum()
    for batch in batches:
        total.add(gradients(TRUSTED[batch]), CATEGORIES[batch])
    return total.mean(with_squares=adam)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("batches", [(slice(None),), (slice(0, 1), slice(1, 4), slice(4, 6))])
def test_influence_is_the_cosine_with_the_mean_of_the_trusted_rows(batches: tuple[slice, ...]) -> None:
    found = reference(batches=batches).influence(gradients(ROWS))
    np.testing.assert_allclose(found, [cosine(row, TRUSTED.mean(0)) for row in ROWS])


def test_a_category_has_its_own_mean_and_others_that_of_all() -> None:
    found = reference().influence_by_category(gradients(ROWS), ["b", None, "unknown", "a"])
    means = [TRUSTED[[1, 5]].mean(0), TRUSTED.mean(0), TRUSTED.mean(0), TRUSTED[[0, 2, 4]].mean(0)]
    np.testing.assert_allclose(found, [cosine(row, mean) for row, mean in zip(ROWS, means, strict=True)])


def test_adam_divides_each_coordinate_of_the_row_by_its_root_mean_square() -> None:
    found = reference(adam=True).influence(gradients(ROWS))
    root = np.sqrt((TRUSTED**2).mean(0)) + 1e-8
    np.testing.assert_allclose(found, [cosine(row / root, TRUSTED.mean(0)) for row in ROWS])


def test_the_only_trusted_row_agrees_with_itself_and_not_with_its_opposite() -> None:
    total = ReferenceSum()
    total.add(gradients(ROWS[:1]), [None])
    found = total.mean(with_squares=False).influence(
        gradients(np.stack([3 * ROWS[0], -ROWS[0], 0 * ROWS[0]]))
    )
    np.testing.assert_allclose(found, [1.0, -1.0, np.nan])


def test_trusted_rows_that_are_not_finite_are_left_out() -> None:
    broken = TRUSTED.copy()
    broken[3, 2] = np.inf
    total = ReferenceSum()
    total.add(gradients(broken), CATEGORIES)
    rest = np.delete(TRUSTED, 3, 0)
    assert total.n_rows == 5
    found = total.mean(with_squares=False).influence(gradients(ROWS))
    np.testing.assert_allclose(found, [cosine(row, rest.mean(0)) for row in ROWS])
    nothing = ReferenceSum()
    nothing.add(gradients(np.full((1, 7), np.nan)), [None])
    assert nothing.n_rows == 0


def test_means_are_the_same_whether_squares_are_kept_or_not() -> None:
    plain, adam = reference(), reference(adam=True)
    assert plain.mean_squares is None
    for a, b in zip(plain.overall, dataclasses.replace(adam, mean_squares=None).overall, strict=True):
        assert torch.equal(a, b)
