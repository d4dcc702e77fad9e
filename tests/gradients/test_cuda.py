"""The engines on a GPU against plain autograd on the same GPU; skipped where there is none."""

import pytest
import torch

from gradscore.data.batch import collate
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from gradscore.model.load import choose_device
from tests import cases

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


@pytest.mark.parametrize("engine", [HooksEngine, VmapEngine])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.bfloat16, 5e-2)])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_engines_agree_with_autograd(
    name: str, dtype: torch.dtype, tolerance: float, engine: type[GradientEngine]
) -> None:
    model = cases.with_lora(cases.architecture(name, "eager", dtype)).to("cuda")
    parameters = counted_parameters(model, "lora")
    batch = collate(cases.rows(), pad_id=0, device="cuda")
    expected = LoopEngine(model, parameters, Reduction()).gradients(batch)
    difference = engine(model, parameters, Reduction()).gradients(batch).minus(expected)
    errors = difference.inner(difference).sqrt() / expected.inner(expected).sqrt()
    assert errors.max() <= tolerance


def test_inner_products_are_taken_in_float32_of_half_precision_models() -> None:
    model = cases.with_lora(cases.architecture("llama", "sdpa", torch.bfloat16)).to("cuda")
    parameters = counted_parameters(model, "lora")
    gradients = HooksEngine(model, parameters, Reduction()).gradients(
        collate(cases.rows(), pad_id=0, device="cuda")
    )
    assert {vector.dtype for vector in gradients.vectors} == {torch.float32}


def test_a_gpu_is_picked_by_itself() -> None:
    assert choose_device("auto").type == "cuda"
