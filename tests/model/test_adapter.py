"""Tests gradscore.model.adapter: where LoRA goes, that its start follows from the seed, and which adapters are refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import IA3Config, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from gradscore.config import ModelConfig
from gradscore.errors import ModelError, UnsupportedError
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.load import LoadedModel
from gradscore.model.roles import is_expert, module_name, modules_with_role
from gradscore.records import SilentReporter
from tests.cases import ARCHITECTURES, FUSED_EXPERTS, architecture, batch
from tests.model.folders import load, save_adapter, save_llama

IDS = torch.tensor([[3, 4, 5, 6]])


class Listener(SilentReporter):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def loaded(model: PreTrainedModel) -> LoadedModel:
    """Return a model that was built in-process as if it had been loaded."""
    return LoadedModel(
        model=model,
        tokenizer=None,  # type: ignore[arg-type]
        device=torch.device("cpu"),
        dtype=model.dtype,
        name="the model",
        attention="eager",
        fingerprint="",
    )


def attach(name: str, listener: Listener | None = None, seed: int = 0, **settings: object) -> PeftModel:
    return attach_adapter(loaded(architecture(name)), ModelConfig(**settings), seed, listener)


def adapted(model: PeftModel) -> set[str]:
    return {module_name(name) for name in lora_tensors(model)}


@pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in FUSED_EXPERTS])
@pytest.mark.parametrize("word", ["attention", "ffn", "all-linear"])
def test_words_put_lora_on_the_modules_of_that_role(name: str, word: str) -> None:
    model = attach(name, lora_targets=word)
    roles = {"attention": {"attention"}, "ffn": {"ffn_in", "ffn_out"}}
    wanted = roles.get(word, {"attention", "ffn_in", "ffn_out"})
    assert adapted(model) == set(modules_with_role(architecture(name), wanted))


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_new_adapter_changes_nothing_yet_and_is_all_that_trains(name: str) -> None:
    plain = architecture(name)(input_ids=IDS).logits
    model = attach(name)
    assert not model.training
    assert torch.equal(model(input_ids=IDS).logits, plain)
    trainable = {n for n, p in model.named_parameters() if p.requires_grad}
    assert trainable == set(lora_tensors(model))
    assert all(bool(p.any()) != (".lora_B" in n) for n, p in lora_tensors(model).items())


def test_conv1d_weights_are_known_to_be_transposed() -> None:
    assert attach("gpt2").peft_config["default"].fan_in_fan_out is True
    assert attach("llama").peft_config["default"].fan_in_fan_out is False


def test_merging_into_conv1d_gives_the_same_logits() -> None:
    model = attach("gpt2")
    for parameter in lora_tensors(model).values():
        parameter.data += 0.1
    logits = model(input_ids=IDS).logits
    torch.testing.assert_close(model.merge_and_unload()(input_ids=IDS).logits, logits)


def test_rank_alpha_and_names_are_taken() -> None:
    model = attach("llama", lora_rank=3, lora_alpha=12.0, lora_targets="q_proj, up_proj")
    assert {n.rpartition(".")[2] for n in adapted(model)} == {"q_proj", "up_proj"}
    assert {p.shape[0] for n, p in lora_tensors(model).items() if ".lora_A" in n} == {3}
    assert model.peft_config["default"].lora_alpha == 12.0


def test_dropout_is_there_for_dropout_views_only() -> None:
    assert attach("llama", dropout=0.3).peft_config["default"].lora_dropout == 0
    model = attach("llama", dropout=0.3, view_source="dropout")
    assert model.peft_config["default"].lora_dropout == 0.3


def test_start_follows_from_the_seed_and_leaves_random_numbers_alone() -> None:
    torch.manual_seed(7)
    one = lora_tensors(attach("llama", seed=5))
    state = torch.get_rng_state()
    torch.manual_seed(8)
    two, other = lora_tensors(attach("llama", seed=5)), lora_tensors(attach("llama", seed=6))
    torch.manual_seed(7)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[n], two[n]) for n in one)
    assert not all(torch.equal(one[n], other[n]) for n in one)


def test_fused_experts_are_said_to_be_left_out() -> None:
    listener = Listener()
    model = attach("qwen2_moe", listener, lora_targets="ffn")
    assert all("shared_expert" in name and not is_expert(name) for name in adapted(model))
    assert (
        "4 fused expert parameters, such as model.layers.0.mlp.experts.gate_up_proj" in listener.messages[0]
    )
    attach("mixtral", listener)
    assert "cannot carry LoRA and are not covered" in listener.messages[1]


def test_ffn_of_a_model_with_nothing_but_fused_experts_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"all of this model's ffn weights are fused experts.* --lora-targets att"
    ):
        attach("mixtral", lora_targets="ffn")
    with pytest.raises(UnsupportedError, match=r"w1,w2,w3 covers fused experts in this model"):
        attach("mixtral", lora_targets="w1,w2,w3")


def test_unknown_module_name_lists_those_there_are() -> None:
    with pytest.raises(
        ModelError, match=r"--lora-targets nope names no module.* down_proj, gate_proj, k_proj"
    ):
        attach("llama", lora_targets="nope")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("models")
    model = save_llama(home / "llama")
    return model, save_adapter(home / "adapter", model, lora_rank=4)


def test_existing_adapter_is_loaded_as_plain_peft_loads_it(folders: tuple[Path, Path]) -> None:
    model, adapter = folders
    ours = attach_adapter(load(model), ModelConfig(adapter=str(adapter)), seed=0)
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), adapter).eval()
    assert torch.equal(ours(input_ids=IDS).logits, theirs(input_ids=IDS).logits)
    assert all(p.requires_grad for p in lora_tensors(ours).values())
    assert not ours.training


def test_first_of_the_checkpoints_is_the_adapter(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, adapter = folders
    shutil.copytree(adapter, tmp_path / "checkpoint-5")
    config = ModelConfig(view_source="checkpoints", checkpoints=str(tmp_path))
    ours = attach_adapter(load(model), config, seed=0)
    given = attach_adapter(load(model), ModelConfig(adapter=str(adapter)), seed=0)
    assert torch.equal(ours(input_ids=IDS).logits, given(input_ids=IDS).logits)


def refusal(model: Path, adapter: Path) -> str:
    with pytest.raises(ModelError) as error:
        attach_adapter(load(model), ModelConfig(adapter=str(adapter)), seed=0)
    return str(error.value)


def test_adapter_for_a_wider_model_names_the_shapes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    message = refusal(save_llama(tmp_path / "wide", hidden_size=32), folders[1])
    assert "does not belong to" in message
    assert "torch.Size([4, 16]) from checkpoint, the shape in current model is torch.Size([4, 32])" in message
    assert f"It was made for {folders[0]}" in message


def test_adapter_for_a_deeper_or_shallower_model(folders: tuple[Path, Path], tmp_path: Path) -> None:
    message = refusal(save_llama(tmp_path / "shallow", num_hidden_layers=1), folders[1])
    assert "this model has no place for base_model.model.model.layers.1." in message
    for_all_layers = save_adapter(tmp_path / "adapter", folders[0], lora_targets="attention")
    message = refusal(save_llama(tmp_path / "deep", num_hidden_layers=3), for_all_layers)
    assert "it lacks base_model.model.model.layers.2.self_attn.k_proj.lora_A.weight" in message


def test_adapter_for_another_architecture(folders: tuple[Path, Path]) -> None:
    with pytest.raises(
        ModelError, match=r"does not belong to the model: it adapts modules that this model lacks"
    ):
        attach("gpt2", adapter=str(folders[1]))


def test_adapter_with_missing_tensors_is_never_filled_in(folders: tuple[Path, Path], tmp_path: Path) -> None:
    adapter = Path(shutil.copytree(folders[1], tmp_path / "adapter"))
    tensors = load_file(adapter / "adapter_model.safetensors")
    del tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"]
    save_file(tensors, adapter / "adapter_model.safetensors")
    assert "it lacks base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in refusal(
        folders[0], adapter
    )


def test_adapter_made_for_a_model_of_another_name_is_told(folders: tuple[Path, Path], tmp_path: Path) -> None:
    adapter = Path(shutil.copytree(folders[1], tmp_path / "adapter"))
    config = json.loads((adapter / "adapter_config.json").read_text()) | {
        "base_model_name_or_path": "some/other"
    }
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    listener = Listener()
    attach_adapter(load(folders[0]), ModelConfig(adapter=str(adapter)), 0, listener)
    assert "names some/other as its model; it fits, and is put on" in listener.messages[0]


def test_adapter_that_does_not_exist(folders: tuple[Path, Path], tmp_path: Path) -> None:
    assert "is no folder here, and the Hub gave no readable" in refusal(folders[0], tmp_path / "absent")
    assert "exists, but holds no readable adapter_config.json" in refusal(folders[0], tmp_path)


def test_other_kinds_of_adapter_are_unsupported(folders: tuple[Path, Path], tmp_path: Path) -> None:
    config = IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj"], feedforward_modules=[])
    get_peft_model(AutoModelForCausalLM.from_pretrained(folders[0]), config).save_pretrained(
        str(tmp_path / "ia3")
    )
    with pytest.raises(UnsupportedError, match=r"is a IA3 adapter; LoRA adapters"):
        attach_adapter(load(folders[0]), ModelConfig(adapter=str(tmp_path / "ia3")), seed=0)


def test_adapter_gets_its_gradient() -> None:
    model = attach("llama")
    rows = batch()
    model(input_ids=rows.input_ids, attention_mask=rows.attention_mask).logits.sum().backward()
    gradients = {n: p.grad for n, p in lora_tensors(model).items()}
    assert all(g is not None and bool(g.any()) == (".lora_B" in n) for n, g in gradients.items())
