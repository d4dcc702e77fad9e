"""Which layers a new adapter is put on: the last few, a share of them, or those a regular expression finds."""

import math
import re
from collections.abc import Collection

from torch import nn
from transformers.pytorch_utils import Conv1D

from gradscore.config import LAST_LAYERS
from gradscore.errors import ConfigError
from gradscore.model.roles import layer_index


def in_layers(model: nn.Module, targets: Collection[str], words: str) -> list[str]:
    """Return the full names of the modules that `targets` means and that lie in the layers `words` names.

    Args:
        model: without an adapter.
        targets: full names or endings of names, as PEFT's `target_modules`.
        words: `last:N`, `last:P%` (rounded up), or a regular expression on full module names.

    Raises:
        ConfigError: no such layer, or no numbered layers at all.
    """
    endings = tuple(targets)
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D | nn.Embedding)
        and any(name == ending or name.endswith(f".{ending}") for ending in endings)
    ]
    indices = [index for name, _ in model.named_modules() if (index := layer_index(name)) is not None]
    n_layers = 1 + max(indices, default=-1)
    chosen = [name for name in names if _is_in(name, words, n_layers)]
    if not chosen:
        raise ConfigError(
            f"--lora-layers {words} leaves no module for the adapter. This model has {n_layers} numbered layers, and modules such "
            f"as {', '.join(names[:2]) or 'none that fit --lora-targets'}. Pass last:8, last:25%, or a regular expression "
            "on such names."
        )
    return chosen


def _is_in(name: str, words: str, n_layers: int) -> bool:
    index = layer_index(name)
    last = re.fullmatch(LAST_LAYERS, words)
    if last is None:
        return re.search(words, name) is not None
    wanted = int(last["count"]) if last["count"] else math.ceil(n_layers * float(last["percent"]) / 100)
    return index is not None and index >= n_layers - wanted
