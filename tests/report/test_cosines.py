"""Tests gradscore.report.cosines: cosines of pairs, never of a row with itself."""

import numpy as np
import pytest

from gradscore.report.cosines import MAX_PAIRS, pair_cosines


def test_few_rows_give_every_pair_once() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    found = pair_cosines(vectors)
    slow = [
        np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)
        for i, a in enumerate(vectors.astype(float))
        for b in vectors[i + 1 :].astype(float)
    ]
    assert found is not None
    assert np.sort(found.values) == pytest.approx(np.sort(slow), abs=1e-6)
    assert found.error == pytest.approx(1 / np.sqrt(8))


def test_many_rows_give_random_pairs_of_different_rows() -> None:
    found = pair_cosines(np.eye(300, dtype=np.float32))
    assert found is not None
    assert len(found.values) == MAX_PAIRS
    assert not found.values.any()  # a row with itself would read 1


def test_copies_read_one_and_opposites_minus_one() -> None:
    found = pair_cosines(np.array([[1, 2], [1, 2], [-1, -2]], dtype=np.float32))
    assert found is not None
    assert np.sort(found.values) == pytest.approx([-1, -1, 1])
    assert found.share_high == pytest.approx(1 / 3)
    assert found.share_opposed == pytest.approx(2 / 3)


def test_rows_without_direction_are_left_out() -> None:
    assert pair_cosines(np.array([[1, 0], [0, 0]], dtype=np.float32)) is None
    assert pair_cosines(np.empty((0, 4), dtype=np.float32)) is None
