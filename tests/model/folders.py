"""Model and adapter folders on disk, for tests that load them as a user would."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from gradscore.config import ModelConfig
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.load import LoadedModel, load_model
from tests.tiny_tokenizer import save_byte_tokenizer

SHAPE = {
    "vocab_size": 260,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def save_llama(folder: Path, *, seed: int = 0, tokenizer: bool = True, **changes: int) -> Path:
    """Write a tiny random Llama, with the byte tokenizer unless told otherwise, and return its folder."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(LlamaConfig(**{**SHAPE, **changes})).save_pretrained(folder)
    if tokenizer:
        save_byte_tokenizer(folder)
    return folder


def load(folder: Path) -> LoadedModel:
    """Return the model in `folder`, loaded with default settings."""
    return load_model(ModelConfig(model=str(folder)))


def save_adapter(folder: Path, model_folder: Path, *, seed: int = 1, **settings: int) -> Path:
    """Write an adapter for the model in `model_folder` whose B is not zero, and return its folder."""
    model = attach_adapter(load(model_folder), ModelConfig(**settings), seed)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for parameter in lora_tensors(model).values():
            parameter += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(str(folder), save_embedding_layers=False)
    return folder
