"""Tests gradscore.gradients.vmap: chunks of any size, and what functorch refuses is said in our words."""

import pytest
import torch
from torch import Tensor, nn

from gradscore.errors import UnsupportedError
from gradscore.gradients import vmap
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from tests import cases


def engine(model: nn.Module, words: str = "lora") -> VmapEngine:
    return VmapEngine(model, counted_parameters(model, words), Reduction())


@pytest.mark.parametrize(("room", "sizes"), [(0, [1, 1, 1, 1]), (1, [1, 1, 1, 1]), (3, [3, 1]), (4, [4])])
def test_chunks_give_what_one_pass_gives(
    room: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks hold as many rows as there is room for, and at least one."""
    made = engine(cases.with_lora(cases.architecture("llama")))
    expected = made.gradients(cases.batch())
    seen: list[int] = []
    original = VmapEngine._chunk
    monkeypatch.setattr(VmapEngine, "_chunk", lambda *a: (seen.append(len(a[1])), original(*a))[1])
    counted = sum(parameter.numel for parameter in made.parameters)
    monkeypatch.setattr(vmap, "GRADIENTS_PER_CHUNK", room * counted)
    found = made.gradients(cases.batch())
    assert seen == sizes
    torch.testing.assert_close(found.losses, expected.losses)
    torch.testing.assert_close(found.norms_squared, expected.norms_squared, rtol=1e-6, atol=1e-12)
    for vector, other in zip(found.vectors, expected.vectors, strict=True):
        torch.testing.assert_close(vector, other, rtol=1e-6, atol=1e-9)


def test_left_padding_is_moved_to_the_right() -> None:
    made = engine(cases.with_lora(cases.architecture("llama")))
    right, left = made.gradients(cases.batch("right")), made.gradients(cases.batch("left"))
    assert torch.equal(right.norms_squared, left.norms_squared)


def test_data_dependent_control_flow_is_refused_with_another_engine_named() -> None:
    with pytest.raises(UnsupportedError) as error:
        engine(cases.architecture("mixtral"), "linear").gradients(cases.batch())
    text = str(error.value)
    assert text.startswith("The vmap engine cannot run MixtralForCausalLM: functorch refuses it (")
    assert text.endswith("Use --engine hooks or --engine loop.")


def test_another_error_is_not_passed_off_as_functorchs() -> None:
    class Broken(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("in the middle")

    model = cases.architecture("llama")
    model.model.layers[0].mlp.up_proj = Broken(16, 24, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="in the middle"):
        engine(model, "ffn").gradients(cases.batch())
