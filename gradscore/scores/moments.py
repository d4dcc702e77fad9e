"""GSNR and its companions from the inner products of one row's gradients under its views.

Views r = 1..R of one member, oldest first; weights w_r proportional to beta^(R-r), summing to 1: the
bias-corrected exponential moving average. Over the counted parameters,

    m = sum_r w_r g_r       s^2 = sum_r w_r ||g_r - m||^2       W = sum_r w_r^2
    gsnr          = ||m|| / sqrt(s^2 + eps^2)
    noise         = s^2 / (1 - W)                               unbiased variance of one view
    signal        = max(||m||^2 - W noise, 0)
    gsnr_unbiased = sqrt(signal / (noise + eps^2))              near 0 for pure noise, whatever R is
    gsnr_floor    = sqrt(W / (1 - W))                           what gsnr reads on pure noise

All of these follow from an R x R matrix per row, so no gradient outlives its batch. The matrix is that of the
*first view and the differences from it*: sum_r w_r ||g_r||^2 - ||m||^2 would lose all digits of s^2 where views
are nearly equal, as snapshots of a short run are. The unbiased forms are ours; they follow from
E||m||^2 = ||mu||^2 + W sigma^2 and E s^2 = (1 - W) sigma^2 for independent views with mean mu and variance sigma^2.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Array = np.ndarray


@dataclass(frozen=True)
class Moments:
    """Scores of n rows over the views of one member."""

    gsnr: Float[Array, " n"]
    gsnr_unbiased: Float[Array, " n"]
    gsnr_se: Float[Array, " n"] | None
    """Delete-one-view jackknife standard error of `gsnr`; None with fewer than three views."""


def view_weights(n_views: int, momentum: float) -> Float[Array, " k"]:
    """Return w_1..w_R, oldest first: the weights of the bias-corrected moving average."""
    raw = momentum ** np.arange(n_views - 1, -1, -1, dtype=np.float64)
    return raw / raw.sum()


def gsnr_floor(n_views: int, momentum: float) -> float | None:
    """Return what `gsnr` reads on pure noise, 1/sqrt(R-1) for equal weights; None with fewer than two views."""
    if n_views < 2:
        return None
    concentration = float((view_weights(n_views, momentum) ** 2).sum())
    return float(np.sqrt(concentration / (1 - concentration)))


def mean_and_variance(
    products: Float[Array, "n k k"], weights: Float[Array, " k"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Return ||m||^2 and s^2 of each row.

    Args:
        products: inner products of (g_1, g_2 - g_1, ..., g_R - g_1), in that order.
        weights: of the views, summing to 1; a view may weigh 0.
    """
    # Coordinates of m and of g_r - m in the basis (g_1, differences); the basis vector g_1 drops out of the latter.
    mean = weights.copy()
    mean[0] = 1.0
    deviations = np.eye(len(weights)) - weights
    deviations[:, 0] = 0.0
    mean_squared = np.einsum("i,nij,j->n", mean, products, mean)
    variance = np.einsum("r,ri,nij,rj->n", weights, deviations, products, deviations)
    return np.maximum(mean_squared, 0.0), np.maximum(variance, 0.0)


def moments(products: Float[Array, "n k k"], momentum: float, epsilon: float) -> Moments:
    """Return the scores of each row from its views' inner products; see the module's formulas.

    Args:
        products: inner products of (g_1, g_2 - g_1, ..., g_R - g_1), R >= 2.
        momentum: beta in (0, 1].
        epsilon: eps, in units of the gradient norm.
    """
    weights = view_weights(products.shape[1], momentum)
    mean_squared, variance = mean_and_variance(products, weights)
    concentration = (weights**2).sum()
    noise = variance / (1 - concentration)
    signal = np.maximum(mean_squared - concentration * noise, 0.0)
    return Moments(
        gsnr=np.sqrt(mean_squared) / np.sqrt(variance + epsilon**2),
        gsnr_unbiased=np.sqrt(signal / (noise + epsilon**2)),
        gsnr_se=jackknife_error(products, weights, epsilon),
    )


def jackknife_error(
    products: Float[Array, "n k k"], weights: Float[Array, " k"], epsilon: float
) -> Float[Array, " n"] | None:
    """Return the delete-one-view jackknife standard error of gsnr (Efron & Stein 1981), or None if R < 3.

    sqrt((R-1)/R sum_r (gsnr_(-r) - mean)^2), where gsnr_(-r) leaves view r out and lets the others share its weight.
    Views of one training run are not independent: what they share makes this too small, the drift of the model too large.
    """
    n_views = len(weights)
    if n_views < 3:
        return None
    left_out = []
    for r in range(n_views):
        rest = weights.copy()
        rest[r] = 0.0
        mean_squared, variance = mean_and_variance(products, rest / rest.sum())
        left_out.append(np.sqrt(mean_squared) / np.sqrt(variance + epsilon**2))
    spread = np.stack(left_out)
    return np.sqrt((n_views - 1) / n_views * ((spread - spread.mean(0)) ** 2).sum(0))
