"""The engine for everything: one row, one plain backward pass, in a loop.

Exact on every architecture that autograd differentiates, fused experts and tied embeddings included. On a
CPU it is no slower than vmap, because it computes no padding; on a GPU it leaves most of the card idle.
It is also what the self-check holds the other engines against.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradscore.data.batch import Batch
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.reduction import Kept
from gradscore.model.forward import wide


@contextmanager
def requiring_grad(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Let autograd differentiate with respect to these parameters alone, and undo that even after an error."""
    before = [parameter.requires_grad for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter, required in zip(parameters, before, strict=True):
            parameter.requires_grad_(required)


class LoopEngine(GradientEngine):
    """Plain autograd, one row at a time."""

    name = "loop"

    def gradients(self, batch: Batch) -> SampleGradients:
        """Return the gradients of every row, each from a forward pass of its own without padding."""
        losses, kept = [], []
        tensors = [self.model.get_parameter(parameter.name) for parameter in self.parameters]
        with requiring_grad(tensors):
            for input_ids, attention, targets in zip(
                batch.input_ids, batch.attention_mask.bool(), batch.target_mask, strict=True
            ):
                loss = self._row_loss(input_ids[attention], targets[attention])
                gradients = _gradients_or_zeros(loss, tensors)
                losses.append(loss.detach())
                kept.append(self._reduce(gradients))
        columns = list(zip(*kept, strict=True))
        return SampleGradients(
            losses=torch.stack(losses),
            norms_squared=torch.stack([torch.cat([k.norm_squared for k in column]) for column in columns], 1),
            vectors=tuple(torch.cat([k.vector for k in column]) for column in columns),
        )

    def _row_loss(self, input_ids: Tensor, targets: Tensor) -> Tensor:
        predicted = wide(self._logits(input_ids)[:-1][targets[1:]])
        return functional.cross_entropy(predicted, input_ids[1:][targets[1:]], reduction=self.loss)

    def _logits(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids[None], use_cache=False).logits[0]
        return logits

    def _reduce(self, gradients: Sequence[Tensor]) -> list[Kept]:
        pairs = zip(self.parameters, gradients, strict=True)
        return [self.reduction.formed(parameter.name, gradient[None]) for parameter, gradient in pairs]


def _gradients_or_zeros(loss: Tensor, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the gradient of `loss` for each tensor: zero where it does not depend on it, or on any of them."""
    if not loss.requires_grad:
        return [torch.zeros_like(tensor) for tensor in tensors]
    return torch.autograd.grad(loss, tensors, allow_unused=True, materialize_grads=True)
