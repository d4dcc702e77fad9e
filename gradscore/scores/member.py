"""What one batch of rows gives under all views of one member: losses, norms and moments, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from gradscore.config import ScoreConfig
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.sketch import CountSketch
from gradscore.scores.basis import inner_products, mean_vectors, view_basis
from gradscore.scores.moments import Moments, moments

Array = np.ndarray


@dataclass(frozen=True)
class MemberScores:
    """Scores of n rows under the k views of one member, oldest view first."""

    losses: Float[Array, "n k"]
    norms: Float[Array, "n k"]
    group_norms: Float[Array, "n k g"]
    """L2 norm of each layer's gradient under each view."""
    is_finite: Bool[Array, " n"]
    """Whether losses and gradients are finite under all views."""
    moments: Moments | None
    """None with a single view."""
    sketch: Float[Array, "n s"] | None
    products: Float[Array, "n k k"] | None = None
    """Inner products of (g_1, g_2 - g_1, ..., g_R - g_1); None with a single view."""
    measures: dict[str, Float[Array, " n"]] = field(default_factory=dict)
    """Optional measures taken under this member, NaN where there is no value."""


def score_member(
    views: Sequence[SampleGradients],
    groups: Float[Tensor, "p g"],
    config: ScoreConfig,
    names: tuple[str, ...],
    sketch: CountSketch | None,
) -> MemberScores:
    """Return one member's scores of a batch from its gradients under each view.

    Args:
        views: oldest first.
        groups: 1 where counted parameter p belongs to layer g, else 0.
        config: momentum and epsilon.
        names: of the counted parameters.
        sketch: how to sketch the mean gradient, if it is to be stored.
    """
    is_finite = np.stack([_numbers(view.is_finite()) for view in views]).all(0).astype(bool)
    group_norms = [_numbers((view.norms_squared @ groups.to(view.norms_squared)).sqrt()) for view in views]
    losses = np.stack([_numbers(view.losses) for view in views], 1)
    norms = np.stack([_numbers(view.norm()) for view in views], 1)
    basis = view_basis(views)
    products = inner_products(basis) if len(views) > 1 else None
    with np.errstate(invalid="ignore", over="ignore"):  # rows that are not finite are dropped by is_finite
        scored = None if products is None else moments(products, config.momentum, config.epsilon)
    return MemberScores(
        losses=losses,
        norms=norms,
        group_norms=np.stack(group_norms, 1),
        is_finite=is_finite,
        moments=scored,
        sketch=None if sketch is None else _numbers(sketch.of(names, mean_vectors(basis, config.momentum))),
        products=products,
    )


def _numbers(values: Tensor) -> Float[Array, "..."]:
    return values.double().cpu().numpy()
