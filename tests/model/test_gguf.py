"""Tests gradscore.model.gguf: a GGUF file becomes an ordinary model folder, once."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from gradscore.config import ModelConfig
from gradscore.errors import ModelError, StorageError
from gradscore.model import gguf as converter
from gradscore.model.gguf import convert_gguf, find_gguf
from gradscore.model.load import load_model
from gradscore.records import SilentReporter
from tests.model.folders import save_llama

IDS = torch.tensor([[3, 4, 5, 6]])
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


class Listener(SilentReporter):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Return a query or key weight with each head's halves interleaved, which is how GGUF rotates positions."""
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def write_gguf(file: Path, model: LlamaForCausalLM, folder: Path) -> None:
    """Write a Llama with its byte tokenizer as an unquantised GGUF file, by the format's own writer."""
    gguf = pytest.importorskip("gguf", reason="gguf is an optional package")
    config = model.config
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = AutoTokenizer.from_pretrained(folder).get_vocab()
    writer.add_tokenizer_model("gpt2")
    # The format cannot hold an empty list of merges, so there is one, and a token for it.
    writer.add_token_list([*sorted(vocabulary, key=vocabulary.__getitem__), "zq"])
    writer.add_token_types([3 if i < 4 else 1 for i in range(config.vocab_size)])
    writer.add_token_merges(["z q"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, tensor in model.state_dict().items():
        if name.endswith("q_proj.weight"):
            tensor = interleaved(tensor, config.num_attention_heads)
        if name.endswith("k_proj.weight"):
            tensor = interleaved(tensor, config.num_key_value_heads)
        writer.add_tensor(gguf_name(name), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    module = name.removesuffix(".weight")
    if module in outside:
        return f"{outside[module]}.weight"
    _, _, block, inner = module.split(".", 3)
    return f"blk.{block}.{NAMES[inner]}.weight"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = save_llama(tmp_path / "plain", head_dim=4, vocab_size=261)
    (tmp_path / "packed").mkdir()
    write_gguf(tmp_path / "packed" / "tiny.gguf", AutoModelForCausalLM.from_pretrained(plain), plain)
    return tmp_path / "packed" / "tiny.gguf"


def test_converted_model_computes_what_the_original_does(file: Path, tmp_path: Path) -> None:
    listener = Listener()
    loaded = load_model(ModelConfig(model=str(file)), reporter=listener)
    original = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(input_ids=IDS).logits, original(input_ids=IDS).logits)
    assert not getattr(loaded.model, "is_quantized", False)
    assert (
        loaded.tokenizer("hello").input_ids[-5:]
        == AutoTokenizer.from_pretrained(tmp_path / "plain")("hello").input_ids[-5:]
    )
    assert "Converting tiny.gguf once" in listener.messages[0]


def test_folder_with_one_file_is_that_file_and_the_cache_is_used_again(file: Path, tmp_path: Path) -> None:
    first = load_model(ModelConfig(model=str(file)))
    listener = Listener()
    second = load_model(ModelConfig(model=str(file.parent)), reporter=listener)
    assert second.fingerprint == first.fingerprint
    assert not any("Converting" in message for message in listener.messages)
    (kept,) = (tmp_path / "cache" / "gradscore").iterdir()
    assert second.model.name_or_path == str(kept)
    AutoModelForCausalLM.from_pretrained(kept)


def test_changed_file_is_converted_anew(file: Path, tmp_path: Path) -> None:
    convert_gguf(file, SilentReporter())
    other = save_llama(tmp_path / "other", head_dim=4, vocab_size=261, seed=3)
    write_gguf(file, AutoModelForCausalLM.from_pretrained(other), other)
    convert_gguf(file, SilentReporter())
    assert len(list((tmp_path / "cache" / "gradscore").iterdir())) == 2


def test_interrupted_conversion_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_file: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(converter, "_save_plain", interrupt)
    with pytest.raises(KeyboardInterrupt):
        convert_gguf(file, SilentReporter())
    assert list((tmp_path / "cache" / "gradscore").iterdir()) == []


def test_full_disk_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: Path, _folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(converter, "_save_plain", full)
    with pytest.raises(StorageError, match=r"could not be kept in .*No space left.* set XDG_CACHE_HOME"):
        convert_gguf(file, SilentReporter())


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(converter.importlib.util, "find_spec", lambda _: None)
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"a\.gguf is a GGUF file.* Run: pip install gguf"):
        convert_gguf(tmp_path / "a.gguf", SilentReporter())


def test_file_that_is_no_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf", reason="gguf is an optional package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.gguf").write_bytes(b"not a model at all, only some words in a file")
    with pytest.raises(ModelError, match=r"a\.gguf cannot be read as a model"):
        load_model(ModelConfig(model=str(tmp_path / "a.gguf")))


def test_which_file_is_meant(tmp_path: Path) -> None:
    assert find_gguf(tmp_path) is None
    (tmp_path / "a.gguf").touch()
    assert find_gguf(tmp_path) == tmp_path / "a.gguf" == find_gguf(tmp_path / "a.gguf")
    (tmp_path / "b.gguf").touch()
    with pytest.raises(ModelError, match=r"several GGUF files: a.gguf, b.gguf"):
        find_gguf(tmp_path)
    (tmp_path / "config.json").touch()
    assert find_gguf(tmp_path) is None
