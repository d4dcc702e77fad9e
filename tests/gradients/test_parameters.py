"""Tests gradscore.gradients.parameters: every word selects the same kind of parameter in every architecture."""

import re

import pytest
from peft import LoraConfig, get_peft_model
from torch import nn

from gradscore.errors import ConfigError, UnsupportedError
from gradscore.gradients.parameters import (
    CountedParameter,
    counted_parameters,
    group_names,
    group_of,
    is_adapter,
)
from tests import cases

FFN_IN = {
    "gpt2": ["mlp.c_fc"],
    "gpt_neox": ["mlp.dense_h_to_4h"],
    "phi": ["mlp.fc1"],
    "phi3": ["mlp.gate_up_proj"],
    "mixtral": ["mlp.experts.gate_up_proj"],
    "qwen2_moe": [
        "mlp.experts.gate_up_proj",
        "mlp.shared_expert.gate_proj",
        "mlp.shared_expert.up_proj",
    ],
}
FFN_OUT = {
    "gpt2": ["mlp.c_proj"],
    "gpt_neox": ["mlp.dense_4h_to_h"],
    "phi": ["mlp.fc2"],
    "mixtral": ["mlp.experts.down_proj"],
    "qwen2_moe": ["mlp.experts.down_proj", "mlp.shared_expert.down_proj"],
}
ATTENTION = {
    "gpt2": ["attn.c_attn", "attn.c_proj"],
    "gpt_neox": ["attention.query_key_value", "attention.dense"],
    "phi": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.dense"],
    "phi3": ["self_attn.qkv_proj", "self_attn.o_proj"],
}
LLAMA_ATTENTION = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
ROUTERS = {"mixtral": ["mlp.gate"], "qwen2_moe": ["mlp.gate", "mlp.shared_expert_gate"]}


def ffn_in(name: str) -> set[str]:
    return set(FFN_IN.get(name, ["mlp.gate_proj", "mlp.up_proj"]))


def ffn(name: str) -> set[str]:
    return ffn_in(name) | set(FFN_OUT.get(name, ["mlp.down_proj"]))


def linear(name: str) -> set[str]:
    return ffn(name) | set(ATTENTION.get(name, LLAMA_ATTENTION)) | set(ROUTERS.get(name, []))


def by_layer(parameters: tuple[CountedParameter, ...]) -> list[set[str]]:
    """Return, for each of the two layers, the names of the matrices inside it."""
    found: list[set[str]] = [set(), set()]
    for parameter in parameters:
        match = re.search(r"(?:layers|h)\.(\d)\.(.+?)(\.weight)?$", parameter.name.replace(".base_layer", ""))
        assert match is not None, parameter.name
        found[int(match[1])].add(match[2])
    return found


def attention(name: str) -> set[str]:
    return {matrix for matrix in linear(name) if "attn" in matrix or "attention" in matrix}


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize(
    ("words", "expected"), [("attention", attention), ("ffn-in", ffn_in), ("ffn", ffn), ("linear", linear)]
)
@pytest.mark.parametrize("name", cases.ARCHITECTURES)
def test_words_for_matrices(name: str, words: str, expected: object, adapted: bool) -> None:
    model = cases.with_lora(cases.architecture(name)) if adapted else cases.architecture(name)
    parameters = counted_parameters(model, words)
    assert by_layer(parameters) == [expected(name)] * 2
    assert all(model.get_parameter(p.name).ndim >= 2 for p in parameters)


@pytest.mark.parametrize("name", cases.ARCHITECTURES)
def test_last_layer_is_the_whole_last_block(name: str) -> None:
    model = cases.architecture(name)
    expected = [n for n, _ in model.named_parameters() if re.search(r"(layers|h)\.1\.", n)]
    assert [p.name for p in counted_parameters(model, "last-layer")] == expected
    assert expected


@pytest.mark.parametrize("name", cases.ARCHITECTURES)
def test_lora_is_the_adapter_and_all_is_the_rest(name: str) -> None:
    model = cases.with_lora(cases.architecture(name))
    lora = [p.name for p in counted_parameters(model, "lora")]
    rest = [p.name for p in counted_parameters(model, "all")]
    assert all(".lora_A." in n or ".lora_B." in n for n in lora)
    assert not any("lora" in n for n in rest)
    assert sorted(lora + rest) == sorted(n for n, _ in model.named_parameters())
    plain = cases.architecture(name)
    assert len(counted_parameters(plain, "all")) == len(rest)


def test_doras_magnitude_belongs_to_the_adapter() -> None:
    model = cases.with_lora(cases.architecture("llama"), "dora")
    names = [p.name for p in counted_parameters(model, "lora")]
    assert sum("lora_magnitude_vector" in n for n in names) == 14
    assert all(is_adapter(n) for n in names)


def test_tied_embeddings_are_counted_once_and_know_both_modules() -> None:
    parameters = counted_parameters(cases.architecture("gpt2"), "all")
    tied = [p for p in parameters if len(p.module_names) > 1]
    assert [(p.name, p.module_names) for p in tied] == [
        ("transformer.wte.weight", ("transformer.wte", "lm_head"))
    ]
    assert tied[0].attribute == "weight"
    assert tied[0].numel == cases.VOCABULARY * 16


def test_every_parameter_is_found_where_it_says() -> None:
    model = cases.architecture("qwen2")
    for parameter in counted_parameters(model, "all"):
        (module_name,) = parameter.module_names
        module = model.get_submodule(module_name)
        assert getattr(module, parameter.attribute) is model.get_parameter(parameter.name)
        assert parameter.numel == model.get_parameter(parameter.name).numel()


def test_a_regular_expression_searches_names_in_model_order() -> None:
    model = cases.architecture("llama")
    names = [p.name for p in counted_parameters(model, r"layers\.1\..*(q|v)_proj")]
    assert names == [f"model.layers.1.self_attn.{part}_proj.weight" for part in "qv"]


def test_groups_are_layers_and_what_lies_outside_them() -> None:
    parameters = counted_parameters(cases.architecture("llama"), "all")
    assert group_names(parameters) == ("embedding", "layer 0", "layer 1", "norm", "head")
    adapter = counted_parameters(cases.with_lora(cases.architecture("gpt2")), "lora")
    assert group_names(adapter) == ("layer 0", "layer 1")
    assert group_of("base_model.model.lm_head.lora_A.default.weight") == "head"


def test_nothing_matches() -> None:
    with pytest.raises(ConfigError) as error:
        counted_parameters(cases.architecture("llama"), "no_such_name")
    assert str(error.value).startswith(
        "--parameters no_such_name matches no parameter of this model. It has, for"
    )
    assert "model.embed_tokens.weight" in str(error.value)
    assert "last-layer, or a regular expression" in str(error.value)


def test_lora_without_an_adapter() -> None:
    with pytest.raises(ConfigError, match="--parameters lora needs an adapter, and this model has none"):
        counted_parameters(cases.architecture("llama"), "lora")


def test_a_broken_expression() -> None:
    with pytest.raises(ConfigError) as error:
        counted_parameters(cases.architecture("llama"), "layers(")
    assert "'layers(' is no known word and no regular expression (missing )" in str(error.value)
    assert str(error.value).endswith("Words are: lora, all, linear, last-layer, attention, ffn, ffn-in.")


@pytest.mark.parametrize("words", ["ffn", "ffn-in"])
def test_a_module_of_unknown_role_is_an_error_and_not_a_smaller_set(words: str) -> None:
    model = cases.architecture("llama")
    model.model.layers[1].mlp.side_door = nn.Linear(16, 24)
    with pytest.raises(UnsupportedError, match="is not known: it has the modules side_door"):
        counted_parameters(model, words)


def test_an_adapter_on_the_head_is_counted() -> None:
    config = LoraConfig(target_modules=["lm_head"], task_type="CAUSAL_LM")
    model = get_peft_model(cases.architecture("llama"), config)
    assert [p.group for p in counted_parameters(model, "lora")] == ["head", "head"]
