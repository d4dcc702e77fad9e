"""Tests demo/tiny_model.py: an ordinary transformers folder, the same each time, that has learnt a little."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gradscore.demo.tiny_model import TinyModel, build_tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return build_tiny_model(tmp_path_factory.mktemp("tiny"), steps=30)


def test_training_lowers_the_loss(tiny: TinyModel) -> None:
    assert tiny.steps == 30
    assert 5.5 < tiny.loss_first < 7  # ln(512) = 6.2: it knows nothing yet
    assert tiny.loss_last < tiny.loss_first - 1


def test_transformers_loads_it_from_its_folder(tiny: TinyModel) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny.folder)
    model = AutoModelForCausalLM.from_pretrained(tiny.folder)
    ids = tokenizer("two hours", return_tensors="pt", add_special_tokens=False)["input_ids"]
    assert model(input_ids=ids).logits.shape == (1, ids.shape[1], model.config.vocab_size)
    assert model.config.eos_token_id == tokenizer.eos_token_id


def test_any_text_survives_the_tokenizer(tiny: TinyModel) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny.folder)
    text = "naïve 12 × 3 °C\n漢字 🙂"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_its_template_marks_turns(tiny: TinyModel) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny.folder)
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    assert text == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 2


def test_building_again_gives_the_same_weights_and_leaves_the_random_state(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first, second = (build_tiny_model(tmp_path / name, steps=2) for name in "ab")
    assert torch.equal(torch.rand(2), expected)
    assert (first.loss_first, first.loss_last) == (second.loss_first, second.loss_last)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]
