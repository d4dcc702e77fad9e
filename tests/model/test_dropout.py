"""Tests gradscore.model.dropout: something is dropped in every architecture, from the seed alone, and only inside."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from gradscore.config import ModelConfig
from gradscore.errors import UnsupportedError
from gradscore.model.adapter import attach_adapter
from gradscore.model.dropout import dropout_views, set_dropout
from tests.cases import ATTENTION, architecture
from tests.model.test_adapter import loaded

IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10]])


def drawn(model: nn.Module, seed: int) -> torch.Tensor:
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        return model(input_ids=IDS).logits


def settings_of(model: nn.Module) -> list[object]:
    return [
        (m.training, {k: v for k, v in vars(m).items() if "drop" in k or k == "p"}) for m in model.modules()
    ]


@pytest.mark.parametrize(("name", "attention"), ATTENTION)
def test_draws_follow_from_the_seed_and_end_with_the_context(name: str, attention: str) -> None:
    model = architecture(name, attention)
    before, calm = settings_of(model), drawn(model, 0)
    with set_dropout(model, 0.5) as places:
        assert places > 0
        assert torch.equal(drawn(model, 1), drawn(model, 1))
        assert not torch.equal(drawn(model, 1), drawn(model, 2))
        assert not torch.equal(drawn(model, 1), calm)
    assert settings_of(model) == before
    assert torch.equal(drawn(model, 1), calm)


def test_settings_come_back_after_an_error() -> None:
    model = architecture("gpt2")
    before = settings_of(model)

    def fail() -> None:
        with set_dropout(model, 0.5):
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert settings_of(model) == before


def test_only_modules_that_drop_are_in_training_mode() -> None:
    model = architecture("llama")
    with set_dropout(model, 0.5):
        assert {type(m).__name__ for m in model.modules() if m.training} == {"LlamaAttention"}


def test_adapter_for_dropout_views_drops_too() -> None:
    config = ModelConfig(view_source="dropout", dropout=0.5)
    with_dropout = attach_adapter(loaded(architecture("llama")), config, seed=0)
    without = attach_adapter(loaded(architecture("llama")), ModelConfig(), seed=0)
    with set_dropout(with_dropout, 0.5) as many, set_dropout(without, 0.5) as few:
        assert (few, many) == (2, 2 + 14)


def test_expected_value_is_kept() -> None:
    layer = nn.Sequential(nn.Dropout(0.0)).eval()
    with set_dropout(layer, 0.25) as places, torch.random.fork_rng():
        torch.manual_seed(0)
        dropped = layer(torch.ones(100_000))
    assert places == 1
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)


def test_model_without_any_dropout_is_refused() -> None:
    with (
        pytest.raises(
            UnsupportedError, match=r"Linear has neither dropout modules nor.* --view-source warmup"
        ),
        set_dropout(nn.Linear(2, 2), 0.1),
    ):
        pass


def test_dropout_views_are_numbered_and_carry_the_seed() -> None:
    views = dropout_views(3, seed=11)
    assert [(v.name, v.kind, v.step, v.seed, v.path) for v in views] == [
        (f"dropout-{k}", "dropout", k, 11, None) for k in range(3)
    ]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_weights_are_dropped_where_a_fused_kernel_takes_the_rate(attention: str) -> None:
    model = architecture("gpt2", attention)
    with set_dropout(model, 0.5):
        for name, module in model.named_modules():
            if isinstance(module, nn.Dropout) and not name.endswith("attn_dropout"):
                module.p = 0.0
        assert not torch.equal(drawn(model, 1), drawn(model, 2))


def test_dora_drops_too() -> None:
    config = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], use_dora=True, lora_dropout=0.5)
    model = get_peft_model(architecture("llama"), config).eval()
    for name, parameter in model.named_parameters():
        if ".lora_B" in name:
            parameter.data += 0.2
    with set_dropout(model, 0.5):
        for module in model.modules():
            if type(module).__name__ == "LlamaAttention":
                module.attention_dropout = 0.0
        assert not torch.equal(drawn(model, 1), drawn(model, 2))
        assert all(m.training for m in model.modules() if hasattr(m, "lora_dropout"))
