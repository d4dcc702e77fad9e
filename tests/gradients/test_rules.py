"""Tests gradscore.gradients.rules: which modules have a rule, and how rows are told apart in what passes them."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from gradscore.errors import UnsupportedError
from gradscore.gradients.rules import by_row, embedding_rule, linear_rule, magnitude_rule, norm_rule, rule_for
from tests import cases


@pytest.mark.parametrize(
    ("name", "module", "rule"),
    [
        ("llama", "model.layers.0.mlp.up_proj", linear_rule),
        ("llama", "lm_head", linear_rule),
        ("llama", "model.embed_tokens", embedding_rule),
        ("llama", "model.layers.0.input_layernorm", norm_rule),
        ("qwen3", "model.layers.0.self_attn.q_norm", norm_rule),
        ("gpt2", "transformer.h.0.mlp.c_fc", linear_rule),
        ("gpt2", "transformer.wpe", embedding_rule),
        ("gpt2", "transformer.h.0.ln_1", norm_rule),
        ("gemma2", "model.embed_tokens", None),
        ("mixtral", "model.layers.0.mlp.experts", None),
        ("llama", "model.layers.0.mlp", None),
    ],
)
def test_rules_go_by_exact_type(name: str, module: str, rule: object) -> None:
    assert rule_for(cases.architecture(name), module) is rule


def test_rules_of_adapters() -> None:
    prefix = "base_model.model.model.layers.0.self_attn.q_proj"
    model = cases.with_lora(cases.architecture("llama"), "dora")
    assert rule_for(model, f"{prefix}.lora_A.default") is linear_rule
    assert rule_for(model, f"{prefix}.lora_magnitude_vector.default") is magnitude_rule
    # PEFT's layer for embeddings looks its A up and has no module for it.
    config = LoraConfig(target_modules=["embed_tokens"], task_type="CAUSAL_LM")
    embedding = get_peft_model(cases.architecture("llama"), config)
    assert rule_for(embedding, "base_model.model.model.embed_tokens.lora_embedding_A") is None


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 7, 5), (2, 3, 4, 5)])
def test_rows_first_is_left_as_it_is(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    assert by_row(values, torch.Size((2, 3)), "m") is values


def test_rows_and_positions_in_one_axis_are_taken_apart_in_order() -> None:
    values = torch.arange(12.0).reshape(6, 2)
    assert torch.equal(by_row(values, torch.Size((2, 3)), "m"), values.reshape(2, 3, 2))


@pytest.mark.parametrize("shape", [(1, 6, 5), (5, 5), (2, 5), (6,)])
def test_rows_that_are_not_told_apart_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError) as error:
        by_row(torch.randn(shape), torch.Size((2, 3)), "layers.0.gate")
    assert str(error.value) == (
        f"The hooks engine cannot tell rows apart in layers.0.gate, which was called with shape {shape} for 2 rows of "
        "3 tokens. Use --engine loop."
    )
