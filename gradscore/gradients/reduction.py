"""From one parameter's per-sample gradient to what is kept of it: a squared norm and a vector.

The same four settings hold in every engine: layer scales divide the gradient of a parameter by a constant,
a stride keeps every k-th coordinate (times sqrt(k), so that the expected norm stays), a projection replaces a
matrix by a small random image, and norms are exact or those of the kept vector.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vecdot

from gradscore.gradients import layers
from gradscore.gradients.positions import Positions
from gradscore.gradients.projection import Projections
from gradscore.model.forward import wide


class Kept(NamedTuple):
    """What is kept of one parameter's gradient."""

    norm_squared: Float[Tensor, " n"]
    vector: Float[Tensor, "n _"]


def every_kth(shape: torch.Size, k: int) -> Int[Tensor, " kept"]:
    """Return the flat positions of every k-th coordinate along the last axis, shifted by one from row to row.

    Without the shift a stride that divides the width would count the same few columns in every row: with stride 8
    one rank of eight in every LoRA B.
    """
    rows, columns = torch.arange(shape[:-1].numel()), torch.arange(shape[-1])
    return torch.nonzero(((rows[:, None] + columns) % k == 0).flatten()).flatten()


@dataclass(frozen=True)
class Reduction:
    """What is kept of every counted parameter's gradient; applied by all engines alike."""

    projections: Projections = field(default_factory=lambda: Projections(side=0))
    stride: int = 1
    exact_norms: bool = True
    """Whether norms beside a projection are those of the full gradient; with a stride they are the kept vector's."""
    scales: dict[str, float] = field(default_factory=dict)
    """Divisor of each parameter's gradient, by name; 1 where absent."""
    positions: Positions | None = field(default=None, compare=False)
    """Told about every matrix of a linear map, where contributions of single positions are wanted."""
    _inputs: layers.InputGram = field(default_factory=layers.InputGram, repr=False, compare=False)

    def adds_up(self, shape: torch.Size) -> bool:
        """Return whether several contributions to one parameter can be added after reduction.

        Vectors always can; an exact norm cannot be had from the norms of the parts.
        """
        return not (self.projections.applies_to(shape) and self.exact_norms)

    def n_kept(self, shape: torch.Size) -> int:
        """Return about how many numbers are kept of one row's gradient of a parameter of this shape."""
        if self.projections.applies_to(shape):
            return self.projections.side**2
        return -(-shape.numel() // self.stride)

    def formed(self, name: str, gradient: Float[Tensor, "n ..."]) -> Kept:
        """Return what is kept of gradients that were formed, [n, *shape of the parameter]."""
        if gradient.ndim == 1:
            gradient = gradient[:, None]
        gradient = wide(gradient)
        if self.projections.applies_to(gradient.shape[1:]):
            vector = self.projections.of_gradient(name, gradient).flatten(1)
            whole = gradient.flatten(1)
            return self._kept(name, vector, vecdot(whole, whole) if self.exact_norms else None)
        vector = gradient.flatten(1)
        if self.stride > 1:
            kept = every_kth(gradient.shape[1:], self.stride).to(vector.device)
            vector = vector[:, kept] * (vector.shape[1] / len(kept)) ** 0.5
        return self._kept(name, vector, None)

    def linear(
        self, name: str, x: Float[Tensor, "n t d_in"], e: Float[Tensor, "n t d_out"], transposed: bool = False
    ) -> Kept:
        """Return what is kept of the weight gradient of y = W x (or y = x W if `transposed`, as in Conv1D)."""
        if transposed:
            x, e = e, x
        x, e = wide(x), wide(e)
        if self.positions is not None:
            self.positions.add(name, x, e, self.scales.get(name, 1.0))
        if not self.projections.applies_to(torch.Size((e.shape[2], x.shape[2]))):
            return self.formed(name, layers.linear_gradient(x, e))
        vector = self.projections.of_linear(name, x, e).flatten(1)
        return self._kept(
            name, vector, layers.linear_norm_squared(x, e, self._inputs) if self.exact_norms else None
        )

    def embedding(
        self, name: str, ids: Int[Tensor, "n t"], e: Float[Tensor, "n t d"], vocabulary: int
    ) -> Kept:
        """Return what is kept of the gradient of an embedding table [v, d]."""
        e = wide(e)
        if not self.projections.applies_to(torch.Size((vocabulary, e.shape[2]))):
            return self.formed(name, layers.embedding_gradient(ids, e, vocabulary))
        vector = self.projections.of_embedding(name, ids, e, vocabulary).flatten(1)
        return self._kept(name, vector, layers.embedding_norm_squared(ids, e) if self.exact_norms else None)

    def sum(self, parts: list[Kept]) -> Kept:
        """Return the sum of several contributions to one parameter; see `adds_up`."""
        if len(parts) == 1:
            return parts[0]
        vector = torch.stack([part.vector for part in parts]).sum(0)
        return Kept(vecdot(vector, vector), vector)

    def _kept(self, name: str, vector: Tensor, norm_squared: Tensor | None) -> Kept:
        scale = self.scales.get(name, 1.0)
        vector = vector / scale if scale != 1.0 else vector
        if norm_squared is None:
            return Kept(vecdot(vector, vector), vector)
        return Kept(norm_squared / scale**2, vector)
