"""Squared norms of what single positions contribute to a row's gradient, from the backward pass that is made anyway.

For a weight applied at every position, G_n = sum_t e_nt x_nt^T. One term c_t = e_t x_t^T is what passes through position
t, and its squared norm is ||e_t||^2 ||x_t||^2: the terms need not be formed to know how much they differ. Over all
counted matrices the squares add up. Only positions that predict a target token are taken.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradscore.data.batch import Batch
from gradscore.errors import UnsupportedError
from gradscore.gradients import layers


@dataclass
class Positions:
    """Collects the contributions of one batch; `start` it before the pass and read it after."""

    _mask: Bool[Tensor, "n t"] | None = None
    _squares: list[Float[Tensor, " n"]] = field(default_factory=list)
    _totals: list[Float[Tensor, " n"]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def start(self, batch: Batch) -> None:
        """Forget what was collected, and take the positions of this batch that predict a target token."""
        last = batch.target_mask.new_zeros(len(batch), 1)
        self._mask = torch.cat([batch.target_mask[:, 1:], last], 1)
        self._squares, self._totals, self._seen = [], [], set()

    def add(
        self, name: str, x: Float[Tensor, "n t d_in"], e: Float[Tensor, "n t d_out"], scale: float
    ) -> None:
        """Take the inputs and output gradients of one call of a counted matrix, whose gradient is divided by `scale`.

        Raises:
            UnsupportedError: the matrix is used more than once, or not position by position.
        """
        assert self._mask is not None, "started before the pass"
        if name in self._seen or x.shape[:2] != self._mask.shape:
            raise UnsupportedError(
                f"{name} is used more than once, or not once per token, so that what each token contributes to its "
                "gradient cannot be told apart. Leave gsnr_token and gsnr_token_unbiased out of --measures."
            )
        self._seen.add(name)
        e = e * self._mask[:, :, None]
        self._squares.append((x.square().sum(2) * e.square().sum(2)).sum(1) / scale**2)
        self._totals.append(layers.linear_norm_squared(x, e) / scale**2)

    def squares(self) -> Float[Tensor, " n"]:
        """Return sum_t ||c_t||^2 of each row."""
        return torch.stack(self._squares).sum(0)

    def total_squared(self) -> Float[Tensor, " n"]:
        """Return ||sum_t c_t||^2 of each row."""
        return torch.stack(self._totals).sum(0)
