"""Tests gradscore.model.roles: the words attention and ffn mean the same modules in every architecture."""

import pytest
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    GPTBigCodeConfig,
    GPTJConfig,
    GPTNeoConfig,
    OPTConfig,
    PreTrainedConfig,
    Qwen3MoeConfig,
    Starcoder2Config,
)

from gradscore.errors import UnsupportedError
from gradscore.model.roles import (
    is_expert,
    layer_index,
    module_name,
    module_role,
    modules_with_role,
    plain_parameter_name,
)
from tests.cases import ARCHITECTURES, GROUPED, SHAPE, architecture, with_lora

SMALL = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
GPT = {**SMALL, "n_embd": 16, "n_layer": 2, "n_head": 4}
MORE: dict[str, PreTrainedConfig] = {
    "falcon": FalconConfig(**SMALL, hidden_size=16, num_hidden_layers=2, num_attention_heads=4),
    "bloom": BloomConfig(**SMALL, hidden_size=16, n_layer=2, n_head=4),
    "opt": OPTConfig(
        **SMALL, hidden_size=16, ffn_dim=24, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=8
    ),
    "gptj": GPTJConfig(**GPT, rotary_dim=4),
    "gpt_bigcode": GPTBigCodeConfig(**GPT),
    "gpt_neo": GPTNeoConfig(
        **SMALL, hidden_size=16, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
    ),
    "starcoder2": Starcoder2Config(**SHAPE, num_key_value_heads=2),
    "qwen3_moe": Qwen3MoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8),
}

LLAMA = ({"q_proj", "k_proj", "v_proj", "o_proj"}, {"gate_proj", "up_proj"}, {"down_proj"})
GPT2 = ({"c_attn", "c_proj"}, {"c_fc"}, {"c_proj"})
NEOX = ({"query_key_value", "dense"}, {"dense_h_to_4h"}, {"dense_4h_to_h"})
FUSED = (LLAMA[0], {"gate_up_proj"}, {"down_proj"})
OPT = ({"q_proj", "k_proj", "v_proj", "out_proj"}, {"fc1"}, {"fc2"})

EXPECTED: dict[str, tuple[set[str], set[str], set[str]]] = {
    **dict.fromkeys(("llama", "qwen2", "qwen3", "gemma2", "gemma3"), LLAMA),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), GPT2),
    **dict.fromkeys(("gpt_neox", "falcon", "bloom"), NEOX),
    **dict.fromkeys(("mixtral", "qwen3_moe"), FUSED),
    "qwen2_moe": (LLAMA[0], {"gate_up_proj", "gate_proj", "up_proj"}, {"down_proj"}),
    "phi": ({"q_proj", "k_proj", "v_proj", "dense"}, {"fc1"}, {"fc2"}),
    "phi3": ({"qkv_proj", "o_proj"}, {"gate_up_proj"}, {"down_proj"}),
    "opt": OPT,
    "gptj": (OPT[0], {"fc_in"}, {"fc_out"}),
    "gpt_neo": (OPT[0], {"c_fc"}, {"c_proj"}),
    "starcoder2": (LLAMA[0], {"c_fc"}, {"c_proj"}),
}


def build(name: str) -> nn.Module:
    return architecture(name) if name in ARCHITECTURES else AutoModelForCausalLM.from_config(MORE[name])


@pytest.mark.parametrize("name", [*ARCHITECTURES, *MORE])
def test_words_mean_the_expected_modules(name: str) -> None:
    model = build(name)
    found = tuple(
        {n.rpartition(".")[2] for n in modules_with_role(model, {role})}
        for role in ("attention", "ffn_in", "ffn_out")
    )
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", [*ARCHITECTURES, *MORE])
def test_every_parameter_of_a_block_has_a_role_and_each_block_has_all_three(name: str) -> None:
    model = build(name)
    roles: dict[int, set[str]] = {0: set(), 1: set()}
    for parameter, _ in model.named_parameters():
        block = layer_index(parameter)
        if block is not None:
            roles[block].add(module_role(parameter))
    for found in roles.values():
        assert {"attention", "ffn_in", "ffn_out", "norm"} <= found
        assert found <= {"attention", "ffn_in", "ffn_out", "norm", "router"}


@pytest.mark.parametrize("name", ["llama", "gpt2", "mixtral", "qwen2_moe"])
def test_names_are_the_same_inside_an_adapter(name: str) -> None:
    plain = architecture(name)
    expected = {role: modules_with_role(plain, {role}) for role in ("attention", "ffn_in", "router", "head")}
    parameters = [n for n, _ in plain.named_parameters()]
    adapted = with_lora(plain)
    found = {role: modules_with_role(adapted, {role}) for role in ("attention", "ffn_in", "router", "head")}
    assert found == expected
    assert [plain_parameter_name(n) for n, _ in adapted.named_parameters() if ".lora_" not in n] == parameters


@pytest.mark.parametrize(
    ("parameter", "role", "block"),
    [
        ("base_model.model.model.layers.11.self_attn.q_proj.lora_A.default.weight", "attention", 11),
        ("base_model.model.transformer.h.3.mlp.c_proj.lora_magnitude_vector.default.weight", "ffn_out", 3),
        ("base_model.model.transformer.h.3.attn.c_proj.base_layer.bias", "attention", 3),
        ("base_model.model.lm_head.modules_to_save.default.weight", "head", None),
        ("model.layers.0.block_sparse_moe.experts.3.w2.weight", "ffn_out", 0),
        ("model.layers.0.mlp.gate.weight", "router", 0),
        ("model.layers.0.mlp.experts.gate_up_proj", "ffn_in", 0),
        ("model.embed_tokens.weight", "embedding", None),
        ("model.norm.weight", "norm", None),
        ("transformer.ln_f.bias", "norm", None),
        ("model.layers.0.mlp", "other", 0),
        ("score.weight", "other", None),
    ],
)
def test_role_and_block_of_a_name(parameter: str, role: str, block: int | None) -> None:
    assert module_role(parameter) == role
    assert layer_index(parameter) == block


def test_module_name_is_idempotent_and_names_the_adapted_module() -> None:
    name = module_name("base_model.model.transformer.h.0.attn.c_attn.lora_B.default.weight")
    assert name == "transformer.h.0.attn.c_attn"
    assert module_name(name) == name


def test_fused_experts_are_told_from_separate_ones() -> None:
    assert is_expert("model.layers.0.mlp.experts.down_proj")
    assert not is_expert("model.layers.0.mlp.experts.3.down_proj.weight")
    assert not is_expert("model.layers.0.mlp.shared_expert.down_proj.weight")


def test_an_unknown_architecture_is_refused_rather_than_guessed() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [nn.ModuleDict({"q_proj": nn.Linear(2, 2), "mystery": nn.Linear(2, 2)})]
            )

    with pytest.raises(
        UnsupportedError, match=r"ffn_in means in this model \(Strange\).* mystery\. Known families: GPT-2"
    ):
        modules_with_role(Strange(), {"ffn_in"})
