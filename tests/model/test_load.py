"""Tests gradscore.model.load and locate: what loads is frozen and complete, what does not says why."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BloomConfig,
    FalconConfig,
    GPT2Config,
    LlamaConfig,
    Phi3Config,
    T5Config,
)

from gradscore.config import ModelConfig
from gradscore.errors import ModelError, UnsupportedError
from gradscore.model.load import choose_device, context_length, load_model, position_boundary
from gradscore.records import SilentReporter
from tests.cases import architecture
from tests.model.folders import load, save_adapter, save_llama
from tests.tiny_tokenizer import byte_tokenizer, save_byte_tokenizer


class Listener(SilentReporter):
    text = ""

    def message(self, text: str) -> None:
        self.text += text


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("model") / "llama")


def refusal(name: object, **settings: object) -> str:
    with pytest.raises(ModelError) as error:
        load_model(ModelConfig(model=str(name), **settings))
    assert "Traceback" not in str(error.value)
    return str(error.value)


def test_loaded_model_is_frozen_in_evaluation_mode_and_described(llama: Path) -> None:
    loaded = load(llama)
    assert not loaded.model.training
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.model.config.use_cache is False
    assert loaded.tokenizer.is_fast
    assert (loaded.dtype, loaded.pad_id, loaded.attention) == (torch.float32, 0, "sdpa")
    assert loaded.description.startswith(f"{llama}: LlamaForCausalLM, 0.0M parameters, float32 on ")


def test_attention_of_the_engine_counts_only_where_the_user_left_it_open(llama: Path) -> None:
    assert load_model(ModelConfig(model=str(llama)), attention="eager").attention == "eager"
    assert load_model(ModelConfig(model=str(llama), attn="sdpa"), attention="eager").attention == "sdpa"


def test_dtype_is_the_one_asked_for(llama: Path) -> None:
    loaded = load_model(ModelConfig(model=str(llama), dtype="bfloat16"))
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}


def test_loading_leaves_random_numbers_and_progress_bars_alone(llama: Path) -> None:
    from transformers.utils import logging

    was_on, state = logging.is_progress_bar_enabled(), torch.get_rng_state()
    load(llama)
    assert logging.is_progress_bar_enabled() == was_on
    assert torch.equal(torch.get_rng_state(), state)


def test_fingerprint_follows_the_weights_and_not_the_place(llama: Path, tmp_path: Path) -> None:
    same = save_llama(tmp_path / "same")
    other = save_llama(tmp_path / "other", seed=1)
    assert load(same).fingerprint == load(llama).fingerprint
    assert load(other).fingerprint != load(llama).fingerprint


@pytest.mark.parametrize(("name", "expected"), [("llama", 64), ("gpt2", 64)])
def test_context_length_is_found(name: str, expected: int) -> None:
    assert context_length(architecture(name).config) == expected


def test_context_length_is_none_without_a_limit() -> None:
    model = torch.nn.Module()
    model.config = BloomConfig()
    assert context_length(model.config) is None


def test_no_model_named() -> None:
    with pytest.raises(ModelError, match=r"No model was named.* Pass --model"):
        load_model(ModelConfig())


def test_path_that_does_not_exist(tmp_path: Path) -> None:
    assert "does not exist on this machine. Check the path." in refusal(tmp_path / "absent")
    assert "does not exist" in refusal("./absent")
    assert "does not exist" in refusal("absent.gguf")


def test_folder_that_is_no_model_lists_what_it_holds(tmp_path: Path) -> None:
    assert "it holds: nothing" in refusal(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    assert "is no model: it has no config.json; it holds: notes.txt" in refusal(tmp_path)
    assert "is a file that no model can be loaded from" in refusal(tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model"])
def test_unknown_hub_name_without_network(name: str) -> None:
    message = refusal(name)
    assert f"The model {name} is neither a folder here nor in the local cache" in message
    assert "HF_HUB_OFFLINE" in message


def test_broken_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{nope")
    assert "cannot be loaded: It looks like the config file" in refusal(tmp_path)


def test_unknown_architecture(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "weird"}')
    assert "model type `weird`" in refusal(tmp_path)


def test_own_code_is_not_run_unasked(tmp_path: Path) -> None:
    auto_map = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "weird", "auto_map": auto_map}))
    (tmp_path / "own.py").write_text("raise SystemExit('it was run')")
    assert "brings its own Python code" in refusal(tmp_path)
    assert "--trust-remote-code" in refusal(tmp_path)


def test_encoders_and_encoder_decoders_are_refused(tmp_path: Path) -> None:
    BertConfig().save_pretrained(tmp_path)
    assert "is an encoder (bert), and gradients of answers need a causal language model" in refusal(tmp_path)
    T5Config().save_pretrained(tmp_path)
    assert "is an encoder-decoder (t5)" in refusal(tmp_path)


def test_quantised_model_is_unsupported(tmp_path: Path) -> None:
    config = LlamaConfig().to_dict() | {"quantization_config": {"quant_method": "bitsandbytes"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match=r"is quantised \(bitsandbytes\).* Pass the unquantised model"):
        load_model(ModelConfig(model=str(tmp_path)))


def test_missing_tokenizer(tmp_path: Path) -> None:
    save_llama(tmp_path, tokenizer=False)
    assert "has no tokenizer that can be used" in refusal(tmp_path)


def test_tokenizer_that_transformers_makes_up_from_nothing(tmp_path: Path) -> None:
    GPT2Config(n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
    assert "its vocabulary is empty" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content", ["{nope", "{}", '{"model": {"type": "BPE", "vocab": {}, "merges": ["a b"]}}']
)
def test_broken_tokenizer(content: str, tmp_path: Path) -> None:
    save_llama(tmp_path)
    (tmp_path / "tokenizer.json").write_text(content)
    assert "has no tokenizer that can be used: " in refusal(tmp_path)


def test_tokenizer_of_another_model(tmp_path: Path) -> None:
    save_llama(tmp_path, vocab_size=100)
    message = refusal(tmp_path)
    assert "gives ids up to 259, and the model has only 100 embeddings" in message


def test_special_tokens_without_an_embedding_are_told_and_never_pad(tmp_path: Path) -> None:
    save_llama(tmp_path)
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "<|new|>"})
    tokenizer.save_pretrained(tmp_path)
    listener = Listener()
    loaded = load_model(ModelConfig(model=str(tmp_path)), reporter=listener)
    assert "has no embedding for <|new|>; rows with such tokens fail." in listener.text
    assert (loaded.tokenizer.pad_token_id, loaded.pad_id) == (260, 2)


def test_missing_weight_file(tmp_path: Path) -> None:
    save_llama(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "cannot be loaded: Error no file named model.safetensors" in refusal(tmp_path)


def test_cut_weight_file(tmp_path: Path) -> None:
    save_llama(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "cannot be loaded" in refusal(tmp_path)


def test_missing_weights_are_never_left_at_random(tmp_path: Path) -> None:
    save_llama(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_hidden_layers": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "has no weights for 9 parameters" in refusal(tmp_path)


def test_weights_without_a_place_are_told(tmp_path: Path) -> None:
    save_llama(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    listener = Listener()
    load_model(ModelConfig(model=str(tmp_path)), reporter=listener)
    assert "holds weights that the model has no place for: model.layers.1." in listener.text


def test_adapter_given_as_model_names_its_base(llama: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter", llama)
    assert f"is a PEFT adapter, not a model. Pass --model {llama} --adapter {adapter}." in refusal(adapter)


def test_broken_adapter_given_as_model_still_says_so(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{nope")
    assert "Pass --model ITS_BASE_MODEL --adapter" in refusal(tmp_path)


def test_device_that_is_not_there(llama: Path) -> None:
    message = refusal(llama, device="cuda:7")
    assert "--device cuda:7 cannot be used; this machine has" in message
    assert "--device cuda:7" in message
    assert "cannot be used" in refusal(llama, device="abacus")


def test_auto_device_exists() -> None:
    assert torch.ones(1, device=choose_device("auto")).item() == 1


def test_tokenizer_alone_is_no_model(tmp_path: Path) -> None:
    save_byte_tokenizer(tmp_path)
    assert "has no config.json" in refusal(tmp_path)


def test_longrope_changes_positions_beyond_its_original_length() -> None:
    """A row's score once depended on the longest row of its batch in such models."""
    factors = {
        "rope_type": "longrope",
        "short_factor": [1.0] * 2,
        "long_factor": [2.0] * 2,
        "rope_theta": 1e4,
    }
    config = Phi3Config(
        hidden_size=16, num_attention_heads=4, max_position_embeddings=128, pad_token_id=0,
        original_max_position_embeddings=64, rope_parameters={**factors, "original_max_position_embeddings": 64},
    )  # fmt: skip
    assert position_boundary(config) == 64
    assert position_boundary(architecture("llama").config) is None


def test_falcon_with_alibi_is_refused_in_eager_attention(tmp_path: Path) -> None:
    config = FalconConfig(
        vocab_size=300, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, alibi=True, bos_token_id=1, eos_token_id=2
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    save_byte_tokenizer(tmp_path)
    with pytest.raises(UnsupportedError, match="adds alibi twice"):
        load_model(ModelConfig(model=str(tmp_path)), attention="eager")
