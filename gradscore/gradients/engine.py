"""What every gradient engine answers, and nothing about how.

An engine turns a batch into `SampleGradients`: per row the loss, the squared norm of every counted
parameter's gradient, and vectors whose inner products stand for inner products of gradients. The vectors are
the gradients themselves (LoRA: small) or their random projections (full weights: too many to hold).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gradscore.data.batch import Batch
from gradscore.gradients.parameters import CountedParameter
from gradscore.gradients.reduction import Reduction
from gradscore.model.forward import Reduction as LossReduction


@dataclass(frozen=True)
class SampleGradients:
    """Gradients of one batch under one view, one entry per row."""

    losses: Float[Tensor, " n"]
    """Loss in nats."""
    norms_squared: Float[Tensor, "n p"]
    """Squared L2 norm of each counted parameter's gradient, in the order of the engine's parameters."""
    vectors: tuple[Float[Tensor, "n _"], ...]
    """For each counted parameter, the flattened gradient or its projection."""

    def inner(self, other: "SampleGradients") -> Float[Tensor, " n"]:
        """Return the inner product of each row's gradient with the same row's gradient in `other`."""
        pairs = zip(self.vectors, other.vectors, strict=True)
        return torch.stack([torch.linalg.vecdot(a, b) for a, b in pairs]).sum(0)

    def minus(self, other: "SampleGradients") -> "SampleGradients":
        """Return the vectors of the difference of two views of the same rows."""
        pairs = zip(self.vectors, other.vectors, strict=True)
        return replace(self, vectors=tuple(a - b for a, b in pairs))

    def project_on(self, direction: "tuple[Tensor, ...]") -> Float[Tensor, " n"]:
        """Return the inner product of each row's gradient with one direction, given per parameter."""
        pairs = zip(self.vectors, direction, strict=True)
        return torch.stack([vector @ d for vector, d in pairs]).sum(0)

    def norm(self) -> Float[Tensor, " n"]:
        """Return the L2 norm of each row's gradient over all counted parameters."""
        return self.norms_squared.sum(1).sqrt()

    def clipped(self, max_norm: float) -> "SampleGradients":
        """Return gradients scaled down to at most `max_norm`; shorter ones stay, and non-finite ones stay non-finite."""
        scale = (max_norm / self.norm()).clamp(max=1.0).nan_to_num(nan=1.0, posinf=1.0)
        return replace(
            self,
            norms_squared=self.norms_squared * scale[:, None] ** 2,
            vectors=tuple(vector * scale[:, None] for vector in self.vectors),
        )

    def at(self, rows: Bool[Tensor, " n"]) -> "SampleGradients":
        """Return the gradients of the rows where `rows` is true."""
        return self.picked(torch.nonzero(rows).flatten().tolist())

    def picked(self, places: Sequence[int]) -> "SampleGradients":
        """Return the gradients of the rows at these places, in this order."""
        rows = torch.tensor(places, device=self.losses.device, dtype=torch.long)
        vectors = tuple(vector[rows] for vector in self.vectors)
        return SampleGradients(self.losses[rows], self.norms_squared[rows], vectors)

    def is_finite(self) -> Bool[Tensor, " n"]:
        """Return whether everything about a row is finite."""
        finite = torch.isfinite(self.losses) & torch.isfinite(self.norms_squared).all(1)
        for vector in self.vectors:
            finite = finite & torch.isfinite(vector).all(1)
        return finite


class GradientEngine(ABC):
    """A way to compute per-sample gradients; final classes are `HooksEngine`, `VmapEngine`, `LoopEngine`."""

    name: str
    """How the engine is called on the command line and in the table."""

    def __init__(
        self,
        model: nn.Module,
        parameters: tuple[CountedParameter, ...],
        reduction: Reduction,
        loss: LossReduction = "mean",
    ) -> None:
        """Take the model whose gradients are asked for, the counted parameters, and what is kept of them."""
        self.model = model
        self.parameters = parameters
        self.reduction = reduction
        self.loss = loss

    @abstractmethod
    def gradients(self, batch: Batch) -> SampleGradients:
        """Return the gradients of every row of `batch` under the model's present state."""
