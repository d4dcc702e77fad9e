"""Tests gradscore.gradients.positions: squares of single positions against formed ones, and what is refused."""

import pytest
import torch

from gradscore.errors import UnsupportedError
from gradscore.gradients.hooks import has_positions
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.positions import Positions
from tests import cases


def test_squares_and_total_equal_those_of_formed_contributions() -> None:
    batch = cases.batch()
    generator = torch.Generator().manual_seed(0)
    x, e = (torch.randn(4, 12, d, generator=generator, dtype=torch.float64) for d in (3, 5))
    positions = Positions()
    positions.start(batch)
    positions.add("a", x, e, scale=2.0)
    positions.add("b", x, 2 * e, scale=1.0)
    for n in range(4):
        predicting = [t for t in range(11) if batch.target_mask[n, t + 1]]
        formed = torch.stack([torch.outer(e[n, t], x[n, t]) for t in predicting])
        # The second matrix has twice the gradient, the first one half of it.
        assert positions.squares()[n] == pytest.approx(float((0.25 + 4) * formed.square().sum()))
        assert positions.total_squared()[n] == pytest.approx(float((0.25 + 4) * formed.sum(0).square().sum()))
    positions.start(batch)
    positions.add("a", x, e, scale=1.0)
    assert positions.squares()[0] > 0


def test_what_cannot_be_told_apart_is_refused() -> None:
    x, e = torch.ones(4, 12, 3), torch.ones(4, 12, 5)
    positions = Positions()
    positions.start(cases.batch())
    positions.add("a", x, e, scale=1.0)
    with pytest.raises(UnsupportedError, match="a is used more than once, or not once per token"):
        positions.add("a", x, e, scale=1.0)
    with pytest.raises(UnsupportedError, match=r"Leave gsnr_token and gsnr_token_unbiased out"):
        positions.add("b", x[:, :5], e[:, :5], scale=1.0)


@pytest.mark.parametrize(
    ("words", "is_had"), [("lora", True), ("linear", True), ("all", False), ("last-layer", False)]
)
def test_weights_of_linear_layers_alone_have_positions(words: str, is_had: bool) -> None:
    model = cases.with_lora(cases.architecture("llama"))
    assert has_positions(model, counted_parameters(model, words)) == is_had
    dora = cases.with_lora(cases.architecture("llama"), "dora")
    assert not has_positions(dora, counted_parameters(dora, "lora"))
