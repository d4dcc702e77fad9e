"""A LoRA layer as one function that knows its own per-sample gradients.

PEFT computes result + lora_B(lora_A(x)) * scaling: three passes over the layer's output that a training step can
afford and a scoring pass need not. Here y = W x + b is computed once and s B A x is added into it by the matrix
product itself, in both directions:

    h = A x        y = W x + b + s B h        u = s B^T e        dL/dx = W^T e + A^T u
    G_A = sum_t u_t x_t^T                     G_B = s sum_t e_t h_t^T

(LoRA: Hu et al. 2021, arXiv:2106.09685.) `docs/benchmarks.md` has what this saves. Layers it does not know, such as
DoRA's or those with active dropout, keep PEFT's own forward and ordinary hooks.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from peft.tuners.lora.layer import Linear as LoraLayer
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

Receive = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Called in the backward pass with x, s h, e and u of one layer."""


@dataclass(frozen=True)
class FusedLayer:
    """A LoRA layer of the plain kind, with the one adapter that is active on it."""

    layer: Any
    adapter: str

    @property
    def weight(self) -> Float[Tensor, "d_out d_in"]:
        """The frozen base weight; GPT-2's Conv1D keeps it transposed."""
        base = self.layer.get_base_layer()
        return base.weight.T if type(base) is Conv1D else base.weight

    def forward(self, x: Tensor, receive: Receive, anchor: Tensor) -> Tensor:
        """Return the layer's output, and arrange for `receive` to be called in the backward pass."""
        a, b = (part[self.adapter].weight for part in (self.layer.lora_A, self.layer.lora_B))
        bias = self.layer.get_base_layer().bias
        return _LoraLinear.apply(
            x, self.weight, bias, a, b, self.layer.scaling[self.adapter], receive, anchor
        )


def fused_layer(layer: nn.Module) -> FusedLayer | None:
    """Return the layer as a FusedLayer if its formula is exactly the one above at this moment, else None."""
    if type(layer) is not LoraLayer:
        return None
    lora: Any = layer  # PEFT's attributes have no types
    adapters = [name for name in lora.active_adapters if name in lora.lora_A]
    if lora.merged or lora.disable_adapters or len(adapters) != 1 or adapters[0] in lora.lora_variant:
        return None
    name = adapters[0]
    drops = not isinstance(lora.lora_dropout[name], nn.Identity) and lora.lora_dropout[name].training
    is_plain = type(lora.get_base_layer()) in (nn.Linear, Conv1D) and lora.lora_B[name].bias is None
    return FusedLayer(lora, name) if is_plain and not drops else None


@contextmanager
def fused(layers: Mapping[str, FusedLayer], receivers: Mapping[str, Receive]) -> Iterator[None]:
    """Run these layers as one function inside the context; their own forward comes back even after an error."""
    anchor = torch.zeros((), requires_grad=True)
    try:
        for name, layer in layers.items():
            layer.layer.forward = _Forward(layer, receivers[name], anchor)
        yield
    finally:
        for layer in layers.values():
            vars(layer.layer).pop("forward", None)


@dataclass(frozen=True)
class _Forward:
    fused: FusedLayer
    receive: Receive
    anchor: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.fused.forward(x, self.receive, self.anchor)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*rows d_in"],
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, " d_out"] | None,
        a: Float[Tensor, "r d_in"],
        b: Float[Tensor, "d_out r"],
        scaling: float,
        receive: Receive,
        anchor: Float[
            Tensor, ""
        ],  # requires a gradient, so that the graph starts here if nothing before does
    ) -> Float[Tensor, "*rows d_out"]:
        h = functional.linear(x.to(a.dtype), a)
        y = _add_product(functional.linear(x, weight, bias), h, b.T, scaling)
        ctx.save_for_backward(x, weight, a, b, h)
        ctx.scaling, ctx.receive = scaling, receive
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (e,) = gradients
        x, weight, a, b, h = ctx.saved_tensors
        u = (e.to(b.dtype) @ b) * ctx.scaling
        ctx.receive(x, h * ctx.scaling, e, u)
        dx = _add_product(e @ weight, u, a, 1.0) if ctx.needs_input_grad[0] else None
        return (dx, *[None] * 7)


def _add_product(base: Tensor, left: Tensor, right: Tensor, scale: float) -> Tensor:
    """Return base + scale left right; in place if the types are equal, else added in the wider type as PEFT does."""
    if base.dtype != left.dtype:
        return (base + (left @ right) * scale).to(base.dtype)
    base.view(-1, base.shape[-1]).addmm_(left.reshape(-1, left.shape[-1]), right, alpha=scale)
    return base
