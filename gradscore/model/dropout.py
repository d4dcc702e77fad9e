"""Views by dropout: random draws of the same model, without training.

Many decoders have no dropout modules at all, only a rate inside their attention, and most of the code that
reads a rate asks the module's own `training` flag. So the flag is set on exactly the modules that drop
something; everything else stays in evaluation mode (in training mode layers could be skipped whole, or
activations recomputed).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from gradscore.errors import UnsupportedError
from gradscore.model.views import View

RATES = (
    "attention_dropout",
    "attn_dropout",
    "hidden_dropout",
    "resid_dropout",
    "residual_dropout",
    "dropout",
)
"""Attributes that hold a rate as a plain number, in transformers' attention and block modules."""


def dropout_views(count: int, seed: int) -> list[View]:
    """Return `count` dropout views; the draws of each row under each follow from `view_seed`."""
    return [View(f"dropout-{k}", "dropout", step=k, seed=seed) for k in range(count)]


@contextmanager
def set_dropout(model: nn.Module, rate: float) -> Iterator[int]:
    """Let the model drop activations at `rate` inside the context; gives the number of places that drop.

    Raises:
        UnsupportedError: the model has no place where something can be dropped.
    """
    before: list[tuple[Any, str, Any]] = []
    places = 0
    try:
        for module in model.modules():
            rates = ["p"] if isinstance(module, nn.Dropout) else _rates(module)
            for name in rates:
                before.append((module, name, getattr(module, name)))
                setattr(module, name, rate)
            places += len(rates)
            if rates or _holds_dropout(module):
                before.append((module, "training", module.training))
                module.training = True
        if places == 0:
            raise UnsupportedError(
                f"Dropout views need a model that can drop something, and {type(model).__name__} has neither "
                "dropout modules nor an attention dropout rate. Use --view-source warmup."
            )
        yield places
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


def _rates(module: nn.Module) -> list[str]:
    return [name for name in RATES if isinstance(getattr(module, name, None), int | float)]


def _holds_dropout(module: nn.Module) -> bool:
    """Return whether the module hands a dropout child's rate to a fused kernel, or decides on it by its own flag.

    GPT-2's and Falcon's sdpa attention do the first, PEFT's LoRA layers the second.
    """
    is_lora = hasattr(module, "lora_dropout")
    return is_lora or any(isinstance(child, nn.Dropout) for child in module.children())
