"""Which parameters are counted: those whose gradient enters the scores.

The same words mean the same thing over all known architectures; anything else is a regular expression on
parameter names. A parameter that two modules share (tied embeddings) is counted once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from gradscore.errors import ConfigError
from gradscore.model.roles import Role, layer_index, module_name, module_role, modules_with_role

ADAPTER_PARTS = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")

ROLE_WORDS: dict[str, tuple[Role, ...]] = {
    "attention": ("attention",),
    "ffn": ("ffn_in", "ffn_out"),
    "ffn-in": ("ffn_in",),
}


@dataclass(frozen=True)
class CountedParameter:
    """One counted parameter and where it lives."""

    name: str
    """As in `model.named_parameters()`."""
    module_names: tuple[str, ...]
    """The modules that hold it; more than one if it is shared."""
    attribute: str
    """Its name inside the module, such as `weight`."""
    numel: int
    group: str
    """The layer it belongs to, such as `layer 3`, for norms by layer."""


def counted_parameters(model: nn.Module, words: str) -> tuple[CountedParameter, ...]:
    """Return the parameters that `--parameters` names, in model order.

    Raises:
        ConfigError: nothing matches, the regular expression is broken, or `lora` without an adapter.
        UnsupportedError: `ffn` or `ffn-in` on an architecture whose module names are not known.
    """
    is_wanted = _chooser(model, words)
    holders: dict[int, list[str]] = {}
    for holder, module in model.named_modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                holders.setdefault(id(parameter), []).append(holder)
    chosen = tuple(
        CountedParameter(
            name=name,
            module_names=tuple(holders[id(parameter)]),
            attribute=name.rpartition(".")[2],
            numel=parameter.numel(),
            group=group_of(name),
        )
        for name, parameter in model.named_parameters()
        if is_wanted(name, parameter)
        and ".original_module." not in name  # PEFT's unused copy of a saved module
    )
    if not chosen:
        names = [name for name, _ in model.named_parameters()]
        raise ConfigError(
            f"--parameters {words} matches no parameter of this model. It has, for example: "
            f"{', '.join(names[:3] + names[-2:])}. Use lora, all, linear, attention, ffn, ffn-in, last-layer, or a regular "
            "expression that matches such names."
        )
    return chosen


def is_adapter(name: str) -> bool:
    """Return whether a parameter belongs to a LoRA adapter."""
    return any(part in ADAPTER_PARTS for part in name.split("."))


def group_of(name: str) -> str:
    """Return the label of the layer a parameter belongs to: `layer 3`, or its role outside the layers."""
    index = layer_index(name)
    return module_role(name) if index is None else f"layer {index}"


def group_names(parameters: tuple[CountedParameter, ...]) -> tuple[str, ...]:
    """Return the distinct groups in model order."""
    return tuple(dict.fromkeys(parameter.group for parameter in parameters))


def _chooser(model: nn.Module, words: str) -> Callable[[str, nn.Parameter], bool]:
    """Return the test that decides whether a named parameter is counted."""
    last = max((layer_index(name) or 0 for name, _ in model.named_parameters()), default=0)
    by_word: dict[str, Callable[[str, nn.Parameter], bool]] = {
        "lora": lambda name, _: is_adapter(name),
        "all": lambda name, _: not is_adapter(name),
        "linear": lambda name, p: not is_adapter(name) and layer_index(name) is not None and p.ndim >= 2,
        "last-layer": lambda name, _: not is_adapter(name) and layer_index(name) == last,
    }
    if words == "lora" and not any(is_adapter(name) for name, _ in model.named_parameters()):
        raise ConfigError(
            "--parameters lora needs an adapter, and this model has none. Keep a view source that makes one "
            "(warmup, dropout), give --adapter, or count full weights with --parameters linear."
        )
    if words in by_word:
        return by_word[words]
    if words in ROLE_WORDS:
        matrices = set(modules_with_role(model, ROLE_WORDS[words]))
        return lambda name, p: not is_adapter(name) and module_name(name) in matrices and p.ndim >= 2
    try:
        pattern = re.compile(words)
    except re.error as error:
        raise ConfigError(
            f"--parameters {words!r} is no known word and no regular expression ({error}). "
            f"Words are: {', '.join([*by_word, *ROLE_WORDS])}."
        ) from error
    return lambda name, _: pattern.search(name) is not None
