"""Tests gradscore.gradients.lora: a plain LoRA layer as one function equals PEFT's, and all others are left to PEFT."""

from collections.abc import Callable

import pytest
import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora.layer import Linear as LoraLayer
from torch import Tensor, nn

from gradscore.data.batch import Batch
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.lora import FusedLayer, fused, fused_layer
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from tests import cases
from tests.gradients.test_engines import assert_equal_to_autograd

ANCHOR = torch.zeros((), requires_grad=True)


def lora_layers(model: nn.Module) -> dict[str, LoraLayer]:
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def fused_names(model: nn.Module) -> list[str]:
    return [name for name, layer in lora_layers(model).items() if fused_layer(layer) is not None]


class Counter:
    """Counts how often a fused layer ran, while it runs as before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layers: list[nn.Module] = []
        original = FusedLayer.forward

        def counting(layer: FusedLayer, x: Tensor, receive: Callable[..., None], anchor: Tensor) -> Tensor:
            self.layers.append(layer.layer)
            return original(layer, x, receive, anchor)

        monkeypatch.setattr(FusedLayer, "forward", counting)


def gradients(model: nn.Module, words: str = "lora", batch: Batch | None = None) -> SampleGradients:
    return HooksEngine(model, counted_parameters(model, words), Reduction()).gradients(batch or cases.batch())


@pytest.mark.parametrize("x_has_gradient", [False, True])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_equals_pefts_layer_forward_and_backward(name: str, x_has_gradient: bool) -> None:
    model = cases.with_lora(cases.architecture(name))
    torch.manual_seed(0)
    for layer in lora_layers(model).values():
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        x = torch.randn(3, 5, a.shape[1], dtype=torch.float64, requires_grad=x_has_gradient)
        e = torch.randn(3, 5, b.shape[0], dtype=torch.float64)
        received: list[tuple[Tensor, ...]] = []
        lean = fused_layer(layer)
        assert lean is not None
        found = lean.forward(x, lambda *values, kept=received: kept.append(values), ANCHOR)
        for factor in (a, b):
            factor.requires_grad_(True)
        expected = layer(x)
        torch.testing.assert_close(found, expected)
        wanted = [a, b, x] if x_has_gradient else [a, b]
        slopes = torch.autograd.grad((expected * e).sum(), wanted)
        if x_has_gradient:
            torch.testing.assert_close(torch.autograd.grad((found * e).sum(), x)[0], slopes[2])
        else:
            (found * e).sum().backward()
        ((x_kept, h, e_kept, u),) = received
        torch.testing.assert_close(torch.einsum("nto,nti->oi", u, x_kept), slopes[0])
        torch.testing.assert_close(torch.einsum("nto,nti->oi", e_kept, h), slopes[1])


def test_an_adapter_wider_than_its_base_is_added_as_peft_does() -> None:
    model = cases.with_lora(cases.architecture("llama", dtype=torch.bfloat16))
    for layer in lora_layers(model).values():
        layer.lora_A["default"].float(), layer.lora_B["default"].float()
        x = torch.randn(2, 3, layer.in_features, dtype=torch.bfloat16)
        lean = fused_layer(layer)
        assert lean is not None
        assert torch.equal(lean.forward(x, lambda *_: None, ANCHOR), layer(x))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "qwen2"])
def test_every_plain_layer_is_really_fused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cases.with_lora(cases.architecture(name))
    counter = Counter(monkeypatch)
    gradients(model)
    assert counter.layers
    assert {id(layer) for layer in counter.layers} == {id(layer) for layer in lora_layers(model).values()}
    assert len(counter.layers) == len(lora_layers(model))


def assert_left_to_peft(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch, words: str = "lora", n_fused: int = 0
) -> None:
    """Hold that all but `n_fused` layers are not fused, and that gradients are right all the same."""
    assert len(fused_names(model)) == n_fused
    counter = Counter(monkeypatch)
    batch = cases.batch()
    names = [p.name for p in counted_parameters(model, words)]
    assert_equal_to_autograd(gradients(model, words, batch), model, batch, names, 1e-9)
    assert len(counter.layers) == n_fused


def test_dora_is_left_to_peft(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_left_to_peft(cases.with_lora(cases.architecture("llama"), "dora"), monkeypatch)


def test_a_bias_on_b_is_left_to_peft(monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapted(LoraConfig(target_modules=["q_proj"], lora_bias=True), "qwen2")
    assert_left_to_peft(model, monkeypatch)


def adapted(config: LoraConfig, name: str = "llama") -> PeftModel:
    """Return a tiny model with a perturbed adapter of this configuration."""
    model = PeftModel(cases.architecture(name), config, autocast_adapter_dtype=False)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter += 0.2 * torch.randn_like(parameter)
    return model.eval().requires_grad_(False)


def test_dropout_is_left_to_peft_while_it_is_active() -> None:
    model = adapted(LoraConfig(target_modules=["q_proj", "v_proj"], lora_dropout=0.5))
    assert len(fused_names(model)) == 4
    for layer in lora_layers(model).values():
        layer.lora_dropout.train()
    assert fused_names(model) == []
    batch = cases.batch(lengths=(9,))
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(torch.cat(gradients(model, batch=batch).vectors, 1))
    torch.testing.assert_close(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2])


def test_two_active_adapters_are_left_to_peft(monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapted(LoraConfig(target_modules=["q_proj"]))
    model.add_adapter("second", LoraConfig(target_modules=["q_proj"], r=2), autocast_adapter_dtype=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".second." in name:
                parameter += 0.2 * torch.randn_like(parameter)
    model.base_model.set_adapter(["default", "second"])
    assert_left_to_peft(model.requires_grad_(False).eval(), monkeypatch)
    # With one of the two active, and that one counted, the layers are plain again.
    model.base_model.set_adapter("second")
    assert_left_to_peft(model.requires_grad_(False), monkeypatch, r"\.second\.", n_fused=2)


def test_a_merged_adapter_is_not_fused() -> None:
    model = adapted(LoraConfig(target_modules=["q_proj"]))
    model.merge_adapter()
    assert fused_names(model) == []
    model.unmerge_adapter()
    assert len(fused_names(model)) == 2


def test_a_disabled_adapter_is_not_fused() -> None:
    model = adapted(LoraConfig(target_modules=["q_proj"]))
    with model.disable_adapter():
        assert fused_names(model) == []
    assert len(fused_names(model)) == 2


@pytest.mark.parametrize("words", ["lora_A", "lora_B", "q_proj", "."])
def test_layers_counted_in_part_or_with_their_base_weight_are_left_to_hooks(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = adapted(LoraConfig(target_modules=["q_proj", "v_proj"]))
    counter = Counter(monkeypatch)
    batch = cases.batch()
    names = [p.name for p in counted_parameters(model, words)]
    assert_equal_to_autograd(gradients(model, words, batch), model, batch, names, 1e-9)
    assert counter.layers == []


@pytest.mark.parametrize("name", ["llama", "phi"])
def test_an_adapter_on_the_head_has_its_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head's weight alone was once taken for the head, and its adapter left out of the loss."""
    model = adapted(LoraConfig(target_modules=["lm_head"]), name)
    assert_left_to_peft(model, monkeypatch, n_fused=1)


def test_forward_is_pefts_again_after_an_error() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    layers = {name: fused_layer(layer) for name, layer in lora_layers(model).items()}
    lean = {name: layer for name, layer in layers.items() if layer is not None}

    def fail() -> None:
        with fused(lean, dict.fromkeys(lean, lambda *_: None)):
            assert all("forward" in vars(layer) for layer in lora_layers(model).values())
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert not any("forward" in vars(module) for module in model.modules())
