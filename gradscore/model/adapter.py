"""Put a LoRA adapter on a loaded model: an existing one, or a new one from a seed.

An adapter that does not fit its model is refused. PEFT by itself fills missing tensors with random ones and
only warns, and scores of such an adapter would mean nothing.
"""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.utils import load_peft_weights
from torch import nn
from transformers.pytorch_utils import Conv1D

from gradscore.config import ModelConfig
from gradscore.errors import ConfigError, ModelError, UnsupportedError
from gradscore.model.adapter_config import read_adapter_config
from gradscore.model.checkpoints import checkpoint_views
from gradscore.model.load import LoadedModel
from gradscore.model.lora_layers import in_layers
from gradscore.model.roles import ROLES, Role, is_expert, module_role, modules_with_role
from gradscore.records import Reporter, SilentReporter

WORDS: dict[str, tuple[Role, ...]] = {"attention": ("attention",), "ffn": ("ffn_in", "ffn_out")}


def attach_adapter(
    loaded: LoadedModel, config: ModelConfig, seed: int, reporter: Reporter | None = None
) -> PeftModel:
    """Return the model with a trainable adapter on it, in evaluation mode; `loaded.model` is changed in place.

    An existing one is `adapter`, or the first of `checkpoints` where these are adapters: views of one run have
    the same shape, so that the others can be put in its place.

    A new adapter depends on `seed` alone: the state of torch's random numbers neither matters nor changes.
    Its B is zero, so it computes what the model alone does, and the gradient of its A is exactly zero.

    Raises:
        ModelError: the adapter does not exist or belongs to another model, or no module has the names asked for.
        ConfigError: `lora_layers` names no layer of this model, or an existing adapter has its layers already.
        UnsupportedError: it is no LoRA adapter, or the words `attention` and `ffn` mean nothing in this model.
    """
    reporter = reporter or SilentReporter()
    existing = config.adapter or _first_checkpoint(config)
    if existing is not None:
        if config.lora_layers is not None:
            raise ConfigError(
                f"--lora-layers {config.lora_layers} is for a new adapter, and {existing} has its layers already. Leave one out."
            )
        return _load_adapter(loaded, existing, reporter)
    return _new_adapter(loaded.model, config, seed, reporter)


def lora_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the adapter's own parameters by name: what training changes and a view replaces."""
    return {name: p for name, p in model.named_parameters() if ".lora_" in name}


def _first_checkpoint(config: ModelConfig) -> str | None:
    if config.checkpoints is None:
        return None
    first = checkpoint_views(config.checkpoints)[0]
    return first.path if first.kind == "adapter" else None


def _new_adapter(model: nn.Module, config: ModelConfig, seed: int, reporter: Reporter) -> PeftModel:
    targets = _targets(model, config.lora_targets, reporter)
    if config.lora_layers is not None:
        targets = in_layers(model, targets, config.lora_layers)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.dropout if config.view_source == "dropout" else 0.0,
        target_modules=targets,
        revision=config.revision,
        # Conv1D keeps its weight transposed; a model has either kind in its blocks, not both.
        fan_in_fan_out=any(isinstance(m, Conv1D) for m in model.modules()),
    )
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.is_cuda})
    with torch.random.fork_rng(devices=devices), _expected_warnings():
        torch.manual_seed(seed)
        try:
            adapted = get_peft_model(model, lora)
        except ValueError as error:
            raise _no_target(model, config.lora_targets) from error
    if getattr(lora, "target_parameters", None):  # PEFT renames the targets of some mixtures to fused ones
        raise UnsupportedError(
            f"--lora-targets {config.lora_targets} covers fused experts in this model (PEFT renames its shared "
            "experts to them), and these cannot carry LoRA. Pass --lora-targets attention."
        )
    return adapted.eval()


def _targets(model: Any, words: str, reporter: Reporter) -> list[str]:
    """Return PEFT's `target_modules`; the words become the shortest names that mean the same modules.

    `all-linear` is resolved here, because PEFT's own also puts LoRA on the fused experts of some mixtures.
    """
    if words == "all-linear":
        _tell_uncovered(_expert_names(model), reporter)
        head = model.get_output_embeddings()
        return [n for n, m in model.named_modules() if isinstance(m, nn.Linear | Conv1D) and m is not head]
    if words not in WORDS:
        return [name.strip() for name in words.split(",") if name.strip()]
    names = modules_with_role(model, WORDS[words])
    experts = [n for n in names if is_expert(n)]
    linear = [n for n in names if not is_expert(n)]
    if not linear:
        raise UnsupportedError(
            f"--lora-targets {words}: all of this model's {words} weights are fused experts "
            f"({len(experts)} parameters such as {experts[0]}), which cannot carry LoRA. "
            "Pass --lora-targets attention, or count full weights with --parameters ffn."
        )
    _tell_uncovered(experts, reporter)
    return sorted({_suffix(n) for n in linear})


def _expert_names(model: nn.Module) -> list[str]:
    """Return the names of fused expert parameters, which no adapter covers."""
    return [n for n, p in model.named_parameters() if p.ndim == 3 and is_expert(n)]


def _suffix(name: str) -> str:
    last_two = ".".join(name.split(".")[-2:])
    return last_two if last_two in ROLES else name.rpartition(".")[2]


def _tell_uncovered(experts: Collection[str], reporter: Reporter) -> None:
    if experts:
        reporter.message(
            f"{len(experts)} fused expert parameters, such as {next(iter(experts))}, cannot carry LoRA and are not covered."
        )


def _no_target(model: nn.Module, words: str) -> ModelError:
    linear = {n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, nn.Linear | Conv1D)}
    return ModelError(
        f"--lora-targets {words} names no module that can carry LoRA; this model has: {', '.join(sorted(linear))}. "
        "Pass some of these, or all-linear, attention or ffn."
    )


def _load_adapter(loaded: LoadedModel, name: str, reporter: Reporter) -> PeftModel:
    adapter_config = read_adapter_config(name)
    try:
        # PEFT warns of missing tensors in words that change; they are compared, and refused, just below.
        with _expected_warnings():
            warnings.filterwarnings("ignore", message=".*missing adapter keys")
            model = PeftModel.from_pretrained(loaded.model, name, is_trainable=True)
    except (RuntimeError, ValueError) as error:
        raise _other_model(loaded, name, adapter_config, _difference(str(error))) from error
    stored = set(load_peft_weights(name, device="cpu"))
    expected = set(get_peft_model_state_dict(model, save_embedding_layers=False))
    # Trainers save resized embeddings with the adapter; PEFT puts them into the model itself.
    extra = {n for n in stored - expected if module_role(n) not in ("embedding", "head")}
    if extra or expected - stored:
        parts = [f"it lacks {n}" for n in sorted(expected - stored)[:3]] + [
            f"this model has no place for {n}" for n in sorted(extra)[:3]
        ]
        raise _other_model(loaded, name, adapter_config, "; ".join(parts))
    parent = adapter_config.base_model_name_or_path
    if parent and Path(parent).name != Path(loaded.model.name_or_path).name:
        reporter.message(
            f"The adapter {name} names {parent} as its model; it fits, and is put on {loaded.name}."
        )
    return model.eval()


def _difference(message: str) -> str:
    """Return what differs, in short, from the long messages of torch and PEFT."""
    lines = [line.strip().rstrip(".") for line in message.splitlines()]
    shapes = [line for line in lines if line.startswith("size mismatch")]
    if shapes:
        return "; ".join(shapes[:2])
    return "it adapts modules that this model lacks" if "not found in the base model" in message else lines[0]


def _other_model(loaded: LoadedModel, name: str, adapter_config: Any, found: str) -> ModelError:
    parent = adapter_config.base_model_name_or_path or "a model it does not name"
    return ModelError(
        f"The adapter {name} does not belong to {loaded.name}: {found}. "
        f"It was made for {parent}; pass that as --model, or another adapter."
    )


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Silence one warning: PEFT asks transformers 5 for gradient checkpointing by its old name, to no effect."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        yield
