"""Every engine against plain autograd, one row at a time, on every architecture, adapter and attention."""

import pytest
import torch
from torch import nn

from gradscore.errors import UnsupportedError
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from tests import cases
from tests.reference import row_gradients, row_loss

ENGINES: list[type[GradientEngine]] = [HooksEngine, VmapEngine, LoopEngine]

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Largest error of a gradient, relative to the norm of the row's whole gradient.

Rotary angles, eager attention's softmax and Gemma's embedding scale are float32 in transformers even in a float64
model; they are the same float32 values in both computations, so that the comparison is exact but for rounding.
"""


def assert_equal_to_autograd(
    gradients: SampleGradients, model: nn.Module, batch: cases.Batch, names: list[str], tolerance: float
) -> None:
    rows = list(batch.rows)
    for n, expected in enumerate(row_gradients(model, rows, names)):
        whole = sum(gradient.square().sum() for gradient in expected.values()).sqrt()
        assert whole > 0, "a comparison of zeros proves nothing"
        for i, name in enumerate(names):
            error = (gradients.vectors[i][n] - expected[name].flatten()).norm() / whole
            assert error <= tolerance, f"row {n}, {name}: relative error {error:.1e}"
            squared = expected[name].square().sum()
            assert abs(gradients.norms_squared[n, i] - squared) <= 2 * tolerance * whole**2, f"norm of {name}"
        torch.testing.assert_close(
            gradients.losses[n], row_loss(model, rows[n]).detach(), rtol=tolerance, atol=tolerance
        )


HOOKS_LACK = {
    # Gemma's embedding multiplies its output by a constant, in a class of its own.
    ("gemma2", "all"),
    ("gemma3", "all"),
    # Fused experts and their router are parameters of modules that mix the rows of a batch.
    *(
        (name, words)
        for name in cases.FUSED_EXPERTS
        for words in ("all", "linear", "last-layer", "ffn", "ffn-in")
    ),
    # In Mixtral PEFT's all-linear puts LoRA on the experts too, by multiplying weights.
    ("mixtral", "lora"),
}
"""What the hooks engine has no formula for. It must refuse exactly these, and the loop engine covers them."""


def supports(engine: type[GradientEngine], name: str, words: str) -> bool:
    if engine is VmapEngine:
        return name not in cases.FUSED_EXPERTS
    return engine is LoopEngine or (name, words) not in HOOKS_LACK


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "attention", "adapter"), cases.LORA_CASES)
def test_lora_gradients(name: str, attention: str, adapter: str, engine: type[GradientEngine]) -> None:
    model = cases.with_lora(cases.architecture(name, attention), adapter)
    parameters = counted_parameters(model, "lora")
    if not supports(engine, name, "lora"):
        with pytest.raises(UnsupportedError):
            engine(model, parameters, Reduction()).gradients(cases.batch())
        return
    batch = cases.batch()
    gradients = engine(model, parameters, Reduction()).gradients(batch)
    assert_equal_to_autograd(gradients, model, batch, [p.name for p in parameters], TOLERANCE[torch.float64])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", ["all", "linear", "ffn", "ffn-in", "last-layer"])
@pytest.mark.parametrize(("name", "attention"), cases.ATTENTION)
def test_full_weight_gradients(name: str, attention: str, words: str, engine: type[GradientEngine]) -> None:
    model = cases.architecture(name, attention)
    parameters = counted_parameters(model, words)
    if not supports(engine, name, words):
        with pytest.raises(UnsupportedError):
            engine(model, parameters, Reduction()).gradients(cases.batch())
        return
    batch = cases.batch()
    gradients = engine(model, parameters, Reduction()).gradients(batch)
    assert_equal_to_autograd(gradients, model, batch, [p.name for p in parameters], 5e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox"])
def test_float32(name: str, engine: type[GradientEngine]) -> None:
    model = cases.with_lora(cases.architecture(name, "sdpa", torch.float32))
    parameters = counted_parameters(model, "lora")
    batch = cases.batch()
    gradients = engine(model, parameters, Reduction()).gradients(batch)
    assert_equal_to_autograd(gradients, model, batch, [p.name for p in parameters], TOLERANCE[torch.float32])
