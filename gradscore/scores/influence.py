"""Whether a row's gradient points where the gradients of trusted rows point, view by view.

For the mean gradient r_k of a small trusted reference under view k, and a row's gradient g_k,

    influence = mean over views of cos(g_k, r_k)

A step along -g_k lowers the reference's loss by eta <g_k, r_k> to first order, so the sign says whether the row helps and
the cosine takes its size out (after LESS, Xia et al. 2024, arXiv:2402.04333, which adds these products over
checkpoints). With Adam the step is not along g but along g / (sqrt(v) + 1e-8), v the mean square of the coordinate:

    influence = mean over views of cos(g_k / (sqrt(v_k) + 1e-8), r_k)

LESS takes v, and a momentum, from the optimiser's own state at the checkpoint. Neither is kept by a scoring run: v is
the mean square over the reference rows' own gradients, and there is no momentum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradscore.gradients.engine import SampleGradients

ADAM_EPSILON = 1e-8
"""Adam's own default (Kingma & Ba 2015, arXiv:1412.6980)."""


@dataclass(frozen=True)
class Reference:
    """What the trusted rows ask for under one view, per counted parameter."""

    overall: tuple[Float[Tensor, " _"], ...]
    """Their mean gradient."""
    by_category: Mapping[str, tuple[Float[Tensor, " _"], ...]]
    """The mean gradient of each category among them."""
    mean_squares: tuple[Float[Tensor, " _"], ...] | None = None
    """Mean square of each coordinate, where a row's gradient is to be preconditioned as Adam does; else None."""

    def influence(self, rows: SampleGradients) -> Float[Tensor, " n"]:
        """Return the cosine of each row's gradient with the mean gradient; NaN where one of them is zero."""
        return self._cosines(self._preconditioned(rows), self.overall)

    def influence_by_category(
        self, rows: SampleGradients, categories: Sequence[str | None]
    ) -> Float[Tensor, " n"]:
        """Return the same with the mean gradient of each row's category, or of all where the reference has none."""
        rows = self._preconditioned(rows)
        cosines = self._cosines(rows, self.overall)
        for category in self.by_category.keys() & set(categories):
            is_here = torch.tensor([c == category for c in categories], device=cosines.device)
            cosines = torch.where(is_here, self._cosines(rows, self.by_category[category]), cosines)
        return cosines

    def _preconditioned(self, rows: SampleGradients) -> SampleGradients:
        if self.mean_squares is None:
            return rows
        pairs = zip(rows.vectors, self.mean_squares, strict=True)
        vectors = tuple(vector / (square.sqrt() + ADAM_EPSILON) for vector, square in pairs)
        return SampleGradients(rows.losses, rows.norms_squared, vectors)

    @staticmethod
    def _cosines(rows: SampleGradients, direction: tuple[Tensor, ...]) -> Float[Tensor, " n"]:
        # The kept vectors may be projections: a cosine takes its lengths from the vectors that it multiplies.
        length = torch.stack([part.square().sum() for part in direction]).sum().sqrt()
        lengths = rows.inner(rows).sqrt() * length
        return torch.where(lengths > 0, rows.project_on(direction) / lengths, torch.nan)


class ReferenceSum:
    """Adds up the gradients of trusted rows under one view."""

    def __init__(self) -> None:
        """Begin with no rows."""
        self.n_rows = 0
        self._total: list[Tensor] = []
        self._squares: list[Tensor] = []
        self._by_category: dict[str, tuple[int, list[Tensor]]] = {}

    def add(self, rows: SampleGradients, categories: Sequence[str | None]) -> None:
        """Add rows; those that are not finite are left out."""
        is_finite = rows.is_finite()
        kept = [c for c, finite in zip(categories, is_finite.tolist(), strict=True) if finite]
        rows = rows.at(is_finite)
        self.n_rows += len(kept)
        self._total = _plus(self._total, [vector.sum(0) for vector in rows.vectors])
        self._squares = _plus(self._squares, [vector.square().sum(0) for vector in rows.vectors])
        for category in {c for c in kept if c is not None}:
            places = [i for i, c in enumerate(kept) if c == category]
            count, total = self._by_category.get(category, (0, []))
            here = [vector.sum(0) for vector in rows.picked(places).vectors]
            self._by_category[category] = (count + len(places), _plus(total, here))

    def mean(self, *, with_squares: bool) -> Reference:
        """Return the means over the rows so far, of which there must be one."""
        return Reference(
            overall=_divided(self._total, self.n_rows),
            by_category={c: _divided(total, count) for c, (count, total) in self._by_category.items()},
            mean_squares=_divided(self._squares, self.n_rows) if with_squares else None,
        )


def _plus(total: list[Tensor], more: list[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(total, more, strict=True)] if total else more


def _divided(total: list[Tensor], count: int) -> tuple[Tensor, ...]:
    return tuple(part / count for part in total)
