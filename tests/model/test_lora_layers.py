"""Tests gradscore.model.lora_layers: which modules lie in the layers that were named."""

import pytest

from gradscore.config import ModelConfig
from gradscore.errors import ConfigError
from gradscore.model.lora_layers import in_layers
from gradscore.model.roles import layer_index
from tests.cases import ARCHITECTURES, FUSED_EXPERTS, architecture


def layers(words: str, name: str = "llama", n_layers: int = 5) -> set[int | None]:
    model = architecture(name, n_layers=n_layers)
    ending = {"gpt2": "c_attn", "gpt_neox": "query_key_value", "phi3": "qkv_proj"}.get(name, "q_proj")
    return {layer_index(found) for found in in_layers(model, [ending], words)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("last:1", {4}),
        ("last:2", {3, 4}),
        ("last:99", {0, 1, 2, 3, 4}),
        ("last:25%", {3, 4}),
        ("last:100%", {0, 1, 2, 3, 4}),
        (r"layers\.[02]\.", {0, 2}),
    ],
)
def test_words_name_layers(words: str, expected: set[int]) -> None:
    assert layers(words) == expected


@pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in FUSED_EXPERTS])
def test_the_last_layer_is_the_same_everywhere(name: str) -> None:
    assert layers("last:1", name, n_layers=3) == {2}


def test_no_layer_left_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"5 numbered layers.*model\.layers\.0\.self_attn\.q_proj"):
        layers("layers.77")


@pytest.mark.parametrize("words", ["last:0", "last:x", "last:", "last:1.5", "last:150%", "("])
def test_wrong_words_are_refused_at_birth(words: str) -> None:
    with pytest.raises(ConfigError, match="--lora-layers"):
        ModelConfig(lora_layers=words)
