"""GSNR with the target tokens of a row as its views, from one backward pass.

With T positions that predict a target, c_t what passes through position t of the gradients of all counted matrices,
all weights 1 / T:

    m = (1/T) sum_t c_t       s^2 = (1/T) sum_t ||c_t||^2 - ||m||^2
    gsnr_token          = ||m|| / sqrt(s^2 + eps^2)
    noise               = s^2 / (1 - 1/T)
    gsnr_token_unbiased = sqrt(max(||m||^2 - noise / T, 0) / (noise + eps^2))

The plain one reads 1 / sqrt(T - 1) on pure noise, so it is mostly length; the unbiased one reads 0.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class TokenMoments(NamedTuple):
    """Of n rows; NaN with fewer than two target tokens."""

    gsnr: Float[Tensor, " n"]
    gsnr_unbiased: Float[Tensor, " n"]


def token_moments(
    squares: Float[Tensor, " n"],
    total_squared: Float[Tensor, " n"],
    n_tokens: Int[Tensor, " n"],
    epsilon: float,
) -> TokenMoments:
    """Return the GSNR of each row over its target tokens.

    Args:
        squares: sum_t ||c_t||^2.
        total_squared: ||sum_t c_t||^2.
        n_tokens: T.
        epsilon: eps, in units of the gradient norm.
    """
    t = torch.where(n_tokens > 1, n_tokens, torch.nan).double()
    mean_squared = total_squared.double() / t**2
    variance = (squares.double() / t - mean_squared).clamp(min=0.0)
    noise = variance / (1 - 1 / t)
    signal = (mean_squared - noise / t).clamp(min=0.0)
    return TokenMoments(
        gsnr=(mean_squared / (variance + epsilon**2)).sqrt(),
        gsnr_unbiased=(signal / (noise + epsilon**2)).sqrt(),
    )
