"""How each kind of module turns one call and the gradient of its output into per-sample gradients.

A rule is chosen by the module's exact type: a subclass may compute something else under the same name (Gemma's
embedding multiplies by a constant), and then the formula would be silently wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from peft.tuners.lora.dora import DoraLinearLayer
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from gradscore.errors import UnsupportedError
from gradscore.gradients import layers
from gradscore.gradients.reduction import Kept, Reduction


@dataclass(frozen=True)
class Call:
    """One call of a counted module during the forward pass, without the graph behind it."""

    module_name: str
    module: nn.Module
    names: Mapping[str, str]
    """Attribute of the module (`weight`, `bias`) to the full name of the counted parameter."""
    shape: torch.Size
    """Rows and positions of the batch."""
    x: Tensor
    """First argument."""
    output: Tensor | None
    """What the module returned, where the rule needs it; else None, so that it is not kept alive."""
    keywords: Mapping[str, Any]

    def by_row(self, values: Tensor) -> Tensor:
        """Return `values` with the rows of the batch as first axis; see the function of this name."""
        return by_row(values, self.shape, self.module_name)


def by_row(values: Tensor, shape: torch.Size, module_name: str) -> Tensor:
    """Return the input or output gradient of a module with the rows of the batch as first axis.

    Expert layers flatten rows and positions into one axis; it is taken apart again.

    Raises:
        UnsupportedError: rows are not told apart in these values.
    """
    if values.shape[0] == shape[0] and values.ndim >= 3:
        return values
    if values.ndim == 2 and values.shape[0] == shape.numel():
        return values.unflatten(0, shape)
    raise UnsupportedError(
        f"The hooks engine cannot tell rows apart in {module_name}, which was called with shape "
        f"{tuple(values.shape)} for {shape[0]} rows of {shape[1]} tokens. Use --engine loop."
    )


Rule = Callable[[Call, Tensor, Reduction], dict[str, Kept]]
"""(call, gradient of its output, what to keep) to what is kept of each counted parameter."""


def linear_rule(call: Call, e: Tensor, reduction: Reduction) -> dict[str, Kept]:
    """Return what is kept for y = x W^T + b, or y = x W + b in GPT-2's Conv1D."""
    x, e = (call.by_row(values).flatten(1, -2) for values in (call.x, e))
    kept = {}
    if "weight" in call.names:
        name = call.names["weight"]
        kept[name] = reduction.linear(name, x, e, transposed=type(call.module) is Conv1D)
    if "bias" in call.names:
        kept[call.names["bias"]] = reduction.formed(call.names["bias"], e.sum(1))
    return kept


def embedding_rule(call: Call, e: Tensor, reduction: Reduction) -> dict[str, Kept]:
    """Return what is kept for a lookup table; torch leaves the row of the padding token without gradient."""
    name = call.names["weight"]
    table = cast(nn.Embedding, call.module)
    ids = call.x.expand(call.shape[0], -1)
    if table.padding_idx is not None:
        e = e.masked_fill((ids == table.padding_idx)[:, :, None], 0.0)
    return {name: reduction.embedding(name, ids, e.expand(call.shape[0], -1, -1), table.num_embeddings)}


def magnitude_rule(call: Call, e: Tensor, reduction: Reduction) -> dict[str, Kept]:
    """Return what is kept for DoRA's magnitude vector."""
    name = call.names["weight"]
    base, bias = call.keywords["base_result"], call.keywords["base_layer"].bias
    base = base.detach() if bias is None else base.detach() - bias
    assert call.output is not None, "kept for the rules in NEEDS_OUTPUT"
    output, base, e = (call.by_row(values) for values in (call.output, base, e))
    return {
        name: reduction.formed(
            name, layers.magnitude_gradient(output, base, call.module.get_parameter("weight"), e)
        )
    }


def norm_rule(call: Call, e: Tensor, reduction: Reduction) -> dict[str, Kept]:
    """Return what is kept for a normalisation layer of any make, by running it again."""
    x, e = call.by_row(call.x), call.by_row(e)
    gradients = layers.module_gradients(call.module, x, e, list(call.names))
    return {name: reduction.formed(name, gradients[attribute]) for attribute, name in call.names.items()}


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear_rule,
    Conv1D: linear_rule,
    nn.Embedding: embedding_rule,
    DoraLinearLayer: magnitude_rule,
}

NEEDS_OUTPUT = frozenset({magnitude_rule})
"""Rules that read the module's output."""


LORA_LAYERS = ("Linear", "Linear4bit", "Linear8bitLt")
"""PEFT layers that apply A and B to their input one after the other. Others, such as the wrapper around fused
experts, multiply the two weights first, and then nothing that passes through the modules tells rows apart."""


def rule_for(model: nn.Module, module_name: str) -> Rule | None:
    """Return the rule for a module of `model`, or None if there is none."""
    module = model.get_submodule(module_name)
    layer_name, is_lora, _ = module_name.partition(".lora_")
    if is_lora and type(model.get_submodule(layer_name)).__name__ not in LORA_LAYERS:
        return None
    if type(module).__name__.endswith("Norm") and not any(module.children()):
        return norm_rule
    return RULES.get(type(module))


def is_position_table(module: nn.Module, x: Tensor, n_rows: int) -> bool:
    """Return whether an embedding was looked up once for all rows, as learned positions are."""
    return isinstance(module, nn.Embedding) and x.shape[0] == 1 < n_rows and not torch.is_floating_point(x)
