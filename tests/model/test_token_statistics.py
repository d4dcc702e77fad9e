"""Tests gradscore.model.token_statistics: every target token's statistics equal those of whole logits, row by row."""

import numpy as np
import pytest
import torch

from gradscore.data.batch import collate
from gradscore.model import forward
from gradscore.model.token_statistics import token_statistics
from tests import cases


def by_definition(model: torch.nn.Module, row: object) -> np.ndarray:
    """Return loss, entropy and distance of each target token of one row, [tokens, 3], in plain words."""
    ids = torch.from_numpy(row.input_ids)
    p = torch.softmax(model(input_ids=ids[None], use_cache=False).logits[0], dim=-1).numpy()
    found = []
    for t in np.flatnonzero(row.target_mask):
        wanted = np.zeros(p.shape[1])
        wanted[row.input_ids[t]] = 1.0
        q = p[t - 1]
        found.append((-np.log(q[row.input_ids[t]]), -(q * np.log(q)).sum(), np.linalg.norm(q - wanted)))
    return np.array(found)


@pytest.mark.parametrize("own_forward", [False, True], ids=["plain head", "own forward"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", cases.ARCHITECTURES)
def test_statistics_equal_the_slow_twin(
    name: str, side: str, own_forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Eager attention gives NaN for left padding in float64 (tests/model/test_forward.py), so that is held in float32.
    dtype, rtol = (torch.float64, 1e-9) if side == "right" else (torch.float32, 1e-4)
    model = cases.architecture(name, dtype=dtype)
    if own_forward:
        monkeypatch.setattr("gradscore.model.token_statistics.PLAIN_HEADS", frozenset())
    monkeypatch.setattr(forward, "LOGITS_PER_CHUNK", 3 * cases.VOCABULARY)
    rows = cases.rows()
    found = token_statistics(model, collate(rows, pad_id=0, padding_side=side))
    for i, row in enumerate(rows):
        here = found.rows == i
        values = torch.stack([found.losses[here], found.entropies[here], found.distances[here]], 1)
        np.testing.assert_allclose(values, by_definition(model, row), rtol=rtol)


def test_row_means_are_over_target_tokens() -> None:
    found = token_statistics(cases.architecture("llama"), cases.batch())
    means = found.row_means(found.losses, 4)
    assert means[2] == pytest.approx(float(found.losses[found.rows == 2].mean()))


def test_a_certain_distribution_has_no_entropy_rather_than_nan() -> None:
    model = cases.architecture("llama")
    model.lm_head.weight *= 1e6
    found = token_statistics(model, cases.batch())
    assert found.entropies.isfinite().all()
    assert found.entropies.min() == 0.0
    assert found.distances.max() == pytest.approx(2**0.5)
