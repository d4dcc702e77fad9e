"""Load a causal language model with its tokenizer, frozen and ready to be differentiated.

Everything that could change a number is fixed here: evaluation mode (no dropout, and no gradient
checkpointing, which breaks vmap), no cache, a stated dtype, and an attention implementation that has a derivative. A model
that does not load is an error; nothing is ever put in its place, nor are weights left at random.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from huggingface_hub.errors import HFValidationError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from gradscore.config import ModelConfig
from gradscore.errors import ModelError, UnsupportedError
from gradscore.model.locate import adapter_as_model, locate_model
from gradscore.records import Reporter, SilentReporter

ATTENTION = ("eager", "sdpa")
CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A frozen model with its tokenizer, and what was chosen for it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    dtype: torch.dtype
    name: str
    """Path or Hub name as the user gave it."""
    attention: str
    """`eager` or `sdpa`."""
    fingerprint: str
    """`sha256:…` over the files of a local model, `hub:NAME@COMMIT` for one from the Hub."""

    @property
    def description(self) -> str:
        """One line for the log: class, size, dtype, device, attention."""
        millions = sum(p.numel() for p in self.model.parameters()) / 1e6
        kind = type(self.model).__name__
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.name}: {kind}, {millions:.1f}M parameters, {dtype} on {self.device}, {self.attention} attention"

    @property
    def pad_id(self) -> int:
        """A token id for padding that the model knows; which one does not matter, since padding is masked."""
        ids = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        return next((i for i in ids if i is not None and i < embeddings(self.model)), 0)


def position_boundary(config: PretrainedConfig) -> int | None:
    """Return the length beyond which a model encodes positions another way for the whole batch, or None.

    LongRoPE (arXiv:2402.13753) has one set of factors for sequences up to its original length and one for longer
    ones; transformers chooses by the longest row of a batch.
    """
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) != "longrope":
        return None
    return rope.get("original_max_position_embeddings") or getattr(
        text, "original_max_position_embeddings", None
    )


@dataclass(frozen=True, eq=False)
class LoadedText:
    """What is known of a model without its weights: its configuration and tokenizer."""

    tokenizer: PreTrainedTokenizerBase
    config: PretrainedConfig
    name: str
    """Path or Hub name as the user gave it."""
    source: str
    """Where the weights are loaded from."""
    options: dict[str, Any]
    """Arguments that go with it."""
    fingerprint: str


def load_text(config: ModelConfig, reporter: Reporter | None = None) -> LoadedText:
    """Return the configuration and tokenizer of the model that the configuration names; no weights are read.

    Raises:
        ModelError: there is no such model, it is no causal language model, or it has no fast tokenizer.
        UnsupportedError: the model is quantised.
    """
    if not config.model:
        raise ModelError(
            "No model was named, and there is no default. Pass --model with a path or a Hub name."
        )
    name = str(config.model)
    folder, fingerprint = locate_model(name, reporter or SilentReporter())
    source = str(folder or name)
    options: dict[str, Any] = {"trust_remote_code": config.trust_remote_code}
    if folder is None:
        options["revision"] = config.revision or "main"
    with _quiet_progress_bars(), _translated(name, config):
        model_config = AutoConfig.from_pretrained(source, **options)
    _check_causal(name, model_config)
    return LoadedText(
        tokenizer=_load_tokenizer(name, source, options, config),
        config=model_config,
        name=name,
        source=source,
        options=options,
        fingerprint=fingerprint or f"hub:{name}@{getattr(model_config, '_commit_hash', None)}",
    )


def load_model(
    config: ModelConfig, attention: str | None = None, reporter: Reporter | None = None
) -> LoadedModel:
    """Return the model that the configuration names, frozen, in evaluation mode, with its tokenizer.

    `attention` is what the gradient engine needs; it counts where the user left `attn` at auto. Without
    either, transformers' own choice is taken (sdpa where the model has it).

    Raises:
        ModelError: there is no such model, it is no causal language model, or its files are incomplete.
        UnsupportedError: the model is quantised, or its attention has no derivative here.
    """
    device, dtype = choose_device(config.device), config.dtype
    chosen = torch.bfloat16 if device.type == "cuda" else torch.float32
    chosen = chosen if dtype == "auto" else getattr(torch, dtype)
    text = load_text(config, reporter)
    with _quiet_progress_bars():
        return _load_weights(text, config, attention, device, chosen, reporter or SilentReporter())


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if there is one, else the CPU.

    Raises:
        ModelError: there is no such device on this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        found = f"{torch.cuda.device_count()} CUDA devices" if torch.cuda.is_available() else "no CUDA device"
        raise ModelError(
            f"--device {name} cannot be used; this machine has {found}. Pass --device auto or cpu."
        ) from error
    return device


def context_length(config: PretrainedConfig) -> int | None:
    """Return the most tokens that a model was made for, or None where its configuration sets no limit."""
    text = config.get_text_config()
    lengths = [getattr(text, name, None) for name in CONTEXT_NAMES]
    return next((int(n) for n in lengths if isinstance(n, int) and n > 0), None)


def _load_weights(
    text: LoadedText,
    config: ModelConfig,
    attention: str | None,
    device: torch.device,
    dtype: torch.dtype,
    reporter: Reporter,
) -> LoadedModel:
    wanted = config.attn if config.attn != "auto" else attention
    with _translated(text.name, config):
        model, info = AutoModelForCausalLM.from_pretrained(
            text.source,
            config=text.config,
            dtype=dtype,
            attn_implementation=wanted,
            output_loading_info=True,
            **text.options,
        )
    _check_loaded(text.name, model, info, text.tokenizer, reporter)
    return LoadedModel(
        model=_freeze(model, device),
        tokenizer=text.tokenizer,
        device=device,
        dtype=dtype,
        name=text.name,
        attention=model.config._attn_implementation,
        fingerprint=text.fingerprint,
    )


def _freeze(model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    try:
        model = model.to(device)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"The model does not fit on {device}: {error}. Pass --dtype bfloat16, a smaller model, or --device cpu."
        ) from error
    model.config.use_cache = False
    return model.requires_grad_(False).eval()


def _check_causal(name: str, config: PretrainedConfig) -> None:
    """Refuse encoders and encoder-decoders; transformers would build a causal head on some of them."""
    text = config.get_text_config()
    masked = text.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    decodes = getattr(text, "is_decoder", False) or getattr(text, "causal", False)
    if config.is_encoder_decoder or (masked and not decodes):
        kind = "an encoder-decoder" if config.is_encoder_decoder else "an encoder"
        raise ModelError(
            f"{name} is {kind} ({config.model_type}), and gradients of answers need a causal language model. "
            "Pass a decoder-only model, such as a Llama, Qwen or GPT-2."
        )
    quantisation = getattr(config, "quantization_config", None)
    if quantisation is not None:
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else type(quantisation)
        raise UnsupportedError(
            f"{name} is quantised ({method}), and gradients through quantised weights are not checked in this "
            "release. Pass the unquantised model; --dtype bfloat16 halves its memory."
        )


def _load_tokenizer(
    name: str, source: str, options: dict[str, Any], config: ModelConfig
) -> PreTrainedTokenizerBase:
    missing = (
        f"{name} has no tokenizer that can be used{{}}. Copy its tokenizer.json and tokenizer_config.json into "
        "the model's folder (save_pretrained of the tokenizer writes them)."
    )
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except Exception as error:  # tokenizers raises a plain Exception for a broken file
        if "trust_remote_code" in str(error):
            raise _remote_code(name) from error
        raise ModelError(missing.format(f": {str(error).splitlines()[0]}")) from error
    # With no files at all, transformers makes an empty tokenizer of the model's class.
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ModelError(missing.format(": its vocabulary is empty"))
    if not tokenizer.is_fast:
        raise ModelError(missing.format(": only a slow one, which does not give token offsets"))
    return tokenizer


def _check_loaded(
    name: str,
    model: PreTrainedModel,
    info: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    reporter: Reporter,
) -> None:
    if getattr(model, "peft_config", None):
        raise adapter_as_model(name, None)
    missing = sorted(map(str, info["missing_keys"]))
    if missing:
        raise ModelError(
            f"{name} has no weights for {len(missing)} parameters, {', '.join(missing[:3])} among them; they would be "
            "random. Check that the files are complete and of this architecture."
        )
    unexpected = sorted(map(str, info["unexpected_keys"]))
    if unexpected:
        reporter.message(
            f"{name} holds weights that the model has no place for: {', '.join(unexpected[:3])}."
        )
    _check_vocabulary(name, embeddings(model), tokenizer, reporter)
    if (model.config.model_type, model.config._attn_implementation) == (
        "falcon",
        "eager",
    ) and model.config.alibi:
        raise UnsupportedError(
            f"{name} is a Falcon with alibi, to whose eager attention transformers adds alibi twice, so that its numbers "
            "are those of another model. Pass --attn sdpa, and --engine hooks or loop."
        )
    if model.config._attn_implementation not in ATTENTION:
        raise UnsupportedError(
            f"{name} asks for {model.config._attn_implementation} attention, whose second use per sample is not "
            f"supported. Pass --attn {' or '.join(ATTENTION)}."
        )


def embeddings(model: PreTrainedModel) -> int:
    """Return how many token ids the model knows."""
    return int(model.get_input_embeddings().weight.shape[0])


def _check_vocabulary(name: str, known: int, tokenizer: PreTrainedTokenizerBase, reporter: Reporter) -> None:
    """Refuse the tokenizer of another model, but not one to which special tokens were added that no row may hold."""
    added = tokenizer.get_added_vocab()
    beyond = {token: i for token, i in tokenizer.get_vocab().items() if i >= known}
    if beyond.keys() - added.keys():
        raise ModelError(
            f"The tokenizer of {name} gives ids up to {max(beyond.values())}, and the model has only {known} embeddings. "
            "Pass the tokenizer and the model of the same training run."
        )
    if beyond:
        reporter.message(
            f"The model {name} has no embedding for {', '.join(sorted(beyond)[:3])}; rows with such tokens fail."
        )


def _remote_code(name: str) -> ModelError:
    return ModelError(
        f"{name} brings its own Python code, which is not run unasked. Read it, then pass --trust-remote-code."
    )


@contextmanager
def _translated(name: str, config: ModelConfig) -> Iterator[None]:
    """Turn what transformers raises for a model that cannot be loaded into a message for the user."""
    try:
        yield
    except (ImportError, RuntimeError, SafetensorError, ValueError, OSError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason and not config.trust_remote_code:
            raise _remote_code(name) from error
        if isinstance(error, ImportError):
            raise ModelError(
                f"{name} needs a package that is not installed: {reason[:300]}. Install it, then try again."
            ) from error
        if not isinstance(error, HFValidationError) and (
            "connect to" in reason or "is not a local" in reason
        ):
            raise ModelError(
                f"The model {name} is neither a folder here nor in the local cache, and the Hub gave no answer or does "
                "not know it. Check the spelling, the connection and HF_HUB_OFFLINE; private models need `hf auth login`."
            ) from error
        raise ModelError(
            f"The model {name} cannot be loaded: {reason[:400]} "
            "Check that its files are complete and that transformers knows the architecture."
        ) from error


@contextmanager
def _quiet_progress_bars() -> Iterator[None]:
    """Keep transformers' own progress bars off the terminal while loading."""
    was_on = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            transformers_logging.enable_progress_bar()
