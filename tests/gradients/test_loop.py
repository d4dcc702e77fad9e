"""Tests gradscore.gradients.loop: it leaves the model as it was, and a parameter that is not used has gradient zero."""

import pytest
import torch
from torch import nn

from gradscore.gradients.loop import LoopEngine, requiring_grad
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from tests import cases


def test_left_padding_gives_the_same_numbers() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    engine = LoopEngine(model, counted_parameters(model, "lora"), Reduction())
    right, left = engine.gradients(cases.batch("right")), engine.gradients(cases.batch("left"))
    assert torch.equal(right.losses, left.losses)
    assert torch.equal(right.norms_squared, left.norms_squared)


@pytest.mark.parametrize("words", ["idle", "idle|up_proj"])
def test_what_the_loss_does_not_depend_on_has_gradient_zero(words: str) -> None:
    model = cases.architecture("llama")
    model.model.layers[0].mlp.idle = nn.Linear(3, 2, dtype=torch.float64)
    parameters = counted_parameters(model, words)
    found = LoopEngine(model, parameters, Reduction()).gradients(cases.batch())
    is_idle = torch.tensor(["idle" in parameter.name for parameter in parameters])
    assert (found.norms_squared[:, is_idle] == 0).all()
    assert (found.norms_squared[:, ~is_idle] > 0).all()
    assert found.vectors[is_idle.tolist().index(True)].shape == (4, 6)


def test_requires_grad_comes_back_even_after_an_error() -> None:
    model = cases.architecture("llama")
    norm = model.model.norm.weight
    norm.requires_grad_(True)
    parameters = [norm, model.lm_head.weight]

    def fail() -> None:
        with requiring_grad(parameters):
            assert all(parameter.requires_grad for parameter in parameters)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert [parameter.requires_grad for parameter in parameters] == [True, False]
