"""The model as it was before any adapter, for the time of a few passes."""

from collections.abc import Iterator
from contextlib import contextmanager

from peft import PeftModel
from torch import nn


@contextmanager
def without_adapter(model: nn.Module) -> Iterator[None]:
    """Let the model run without its adapter inside the context; a model that has none is as it is.

    PEFT marks adapter weights as trainable when it puts them back; that is undone, since frozen weights are what
    keeps the hooks engine from forming weight gradients.
    """
    if not isinstance(model, PeftModel):
        yield
        return
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        with model.disable_adapter():
            yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)
