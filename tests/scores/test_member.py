"""Tests gradscore.scores.member: losses, norms, layer norms and moments of one member's views."""

import numpy as np
import pytest
import torch

from gradscore.config import ScoreConfig
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.sketch import CountSketch
from gradscore.scores.member import MemberScores, score_member
from tests.scores.test_basis import made
from tests.scores.test_moments import slow_gsnr

CONFIG = ScoreConfig(momentum=0.8)
GROUPS = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
NAMES = ("first", "second")


def score(
    views: list[SampleGradients], sketch: CountSketch | None = None, **groups: torch.Tensor
) -> MemberScores:
    return score_member(views, groups.get("groups", GROUPS), CONFIG, NAMES, sketch)


def test_scores_follow_their_definitions() -> None:
    views, whole = made(4)
    for k, view in enumerate(views):
        view.losses[:] = torch.tensor([1.0, 2.0, 3.0]) + k
    found = score(views)
    np.testing.assert_allclose(found.losses, [[1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]])
    np.testing.assert_allclose(found.norms, np.linalg.norm(whole, axis=2))
    by_layer = [np.linalg.norm(part, axis=2) for part in (whole[:, :, :4], whole[:, :, 4:])]
    np.testing.assert_allclose(found.group_norms, np.stack(by_layer, 2))
    assert found.moments is not None
    np.testing.assert_allclose(found.moments.gsnr, [slow_gsnr(row, 0.8, 1e-12) for row in whole], rtol=1e-6)
    assert found.is_finite.all()
    assert found.sketch is None


def test_parameters_of_one_layer_are_taken_together() -> None:
    views, whole = made(2)
    found = score(views, groups=torch.ones(2, 1))
    np.testing.assert_allclose(found.group_norms[..., 0], np.linalg.norm(whole, axis=2))
    np.testing.assert_allclose(found.group_norms[..., 0], found.norms)


def test_one_view_has_losses_and_norms_but_no_moments() -> None:
    views, whole = made(1)
    found = score(views)
    assert found.moments is None
    np.testing.assert_allclose(found.norms[:, 0], np.linalg.norm(whole[:, 0], axis=1))


def test_the_sketch_is_that_of_the_mean_gradient() -> None:
    views, whole = made(3)
    sketch = CountSketch(6, seed=1)
    weights = 0.8 ** np.array([2, 1, 0])
    mean = torch.from_numpy(np.tensordot(whole, weights / weights.sum(), (1, 0)))
    found = score(views, sketch).sketch
    assert found is not None
    np.testing.assert_allclose(found, sketch.of(NAMES, (mean[:, :4], mean[:, 4:])).numpy())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["losses", "vectors"])
def test_a_row_is_finite_only_if_it_is_under_every_view(where: str, bad: float) -> None:
    views, _ = made(3)
    plain = score(views)
    field = views[1].vectors[0] if where == "vectors" else views[1].losses
    field[2] = bad
    found = score(views)
    assert found.is_finite.tolist() == [True, True, False]
    assert found.moments is not None
    assert plain.moments is not None
    np.testing.assert_array_equal(found.moments.gsnr[:2], plain.moments.gsnr[:2])
