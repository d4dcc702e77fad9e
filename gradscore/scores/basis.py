"""The gradients of one batch under several views, reduced to one R x R matrix per row.

The matrix holds the inner products of (g_1, g_2 - g_1, ..., g_R - g_1), which is all that `moments` needs. Only
the batch in hand is in memory: R x rows x counted coordinates.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradscore.gradients.engine import SampleGradients
from gradscore.scores.moments import view_weights


def view_basis(views: Sequence[SampleGradients]) -> list[SampleGradients]:
    """Return the first view's gradients and every other view's difference from it."""
    return [views[0], *(view.minus(views[0]) for view in views[1:])]


def inner_products(basis: Sequence[SampleGradients]) -> Float[np.ndarray, "n k k"]:
    """Return all inner products of the basis per row, in float64."""
    size = len(basis)
    products = np.empty((len(basis[0].losses), size, size))
    for i in range(size):
        for j in range(i + 1):
            values = basis[i].inner(basis[j]).double().cpu().numpy()
            products[:, i, j] = products[:, j, i] = values
    return products


def mean_vectors(basis: Sequence[SampleGradients], momentum: float) -> tuple[Float[Tensor, "n _"], ...]:
    """Return m = sum_r w_r g_r of each row, per counted parameter."""
    weights = view_weights(len(basis), momentum)
    mean = list(basis[0].vectors)
    for weight, difference in zip(weights[1:], basis[1:], strict=True):
        mean = [torch.add(m, d, alpha=float(weight)) for m, d in zip(mean, difference.vectors, strict=True)]
    return tuple(mean)
