"""Stop a forward pass at the entrance of one layer, and start another one there.

The model's own code runs both times, so masks, positions and rotary angles stay its business; only the layers
below are replaced, for the time of one pass, by functions that hand their input on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from gradscore.data.batch import Midway
from gradscore.model.roles import layer_index

HIDDEN = "hidden_states"


class _ReachedError(Exception):
    """Unwinds a forward pass that has come to the layer asked for."""


def numbered_layers(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model in order; empty if it has none that are numbered, or two lists of them.

    Called in every pass, so it does not look inside the blocks.
    """
    lists = list(_lists_of_blocks(model, ""))
    return list(lists[0]) if len(lists) == 1 else []


def _lists_of_blocks(module: nn.Module, prefix: str) -> Iterator[nn.ModuleList]:
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList) and layer_index(f"{prefix}{name}.0") is not None:
            yield child
        else:
            yield from _lists_of_blocks(child, f"{prefix}{name}.")


def midway_of(model: nn.Module, layer: int, forward: Callable[[], Any]) -> Midway:
    """Return what enters layer number `layer` >= 1 when `forward` runs the model; nothing above it is computed."""
    layers = numbered_layers(model)
    seen: list[Any] = []

    def note_output(_module: nn.Module, _arguments: Any, output: Any) -> None:
        seen.append(isinstance(output, tuple))

    def stop(_module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        seen.append(_hidden(arguments, keywords))
        raise _ReachedError

    handles = [
        layers[layer - 1].register_forward_hook(note_output),
        layers[layer].register_forward_pre_hook(stop, with_kwargs=True),
    ]
    try:
        forward()
    except _ReachedError:
        is_tuple, hidden = seen
        return Midway(hidden=hidden.detach(), layer=layer, is_tuple=is_tuple)
    finally:
        for handle in handles:
            handle.remove()
    raise AssertionError(f"the forward pass never came to layer {layer}")


@contextmanager
def started_from(model: nn.Module, midway: Midway) -> Iterator[None]:
    """Let forward passes inside the context start from `midway`, whatever enters the model at the bottom."""
    layers = numbered_layers(model)

    def skip(*arguments: Any, **keywords: Any) -> Any:
        hidden = _hidden(arguments, keywords)
        return (hidden,) if midway.is_tuple else hidden

    def enter(_module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if arguments:
            return (midway.hidden, *arguments[1:]), keywords
        return arguments, {**keywords, HIDDEN: midway.hidden}

    below = layers[: midway.layer]
    handle = layers[midway.layer].register_forward_pre_hook(enter, with_kwargs=True)
    try:
        for layer in below:
            layer.forward = skip
        yield
    finally:
        handle.remove()
        for layer in below:
            vars(layer).pop("forward", None)


def _hidden(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    return arguments[0] if arguments else keywords[HIDDEN]
