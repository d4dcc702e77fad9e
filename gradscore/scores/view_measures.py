"""Measures that follow from what the views of the sweep gave already."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Array = np.ndarray


def consistency(products: Float[Array, "n k k"]) -> Float[Array, " n"]:
    """Return (1 / (R-1)) sum_r cos(g_r, g_(r+1)) of each row; NaN where a gradient is zero or there is one view.

    Args:
        products: inner products of (g_1, g_2 - g_1, ..., g_R - g_1), in that order.
    """
    n_views = products.shape[1]
    if n_views < 2:
        return np.full(len(products), np.nan)
    to_views = np.eye(n_views)
    to_views[:, 0] = 1.0  # every view is the first one plus its own difference
    gram = to_views @ products @ to_views.T
    norms = np.sqrt(np.maximum(np.einsum("nrr->nr", gram), 0.0))
    successive = np.einsum("nrr->nr", gram[:, :-1, 1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = successive / (norms[:, :-1] * norms[:, 1:])
    return cosines.mean(1)


def paper_gsnr(
    first: Float[Array, "m n"],
    last: Float[Array, "m n"],
    epsilon: float,
    divide_by: Literal["variance", "std", "drop"],
) -> Float[Array, " n"]:
    """Return (G_first - G_last) / (G_first + eps), over the spread of the members' last norms; our reading.

    G is the mean over members of the norm of a row's gradient. The drop is divided by the variance between members
    (+ eps), by their standard deviation (+ eps), or by nothing. The paper (arXiv:2601.13697) has it in words only:
    relative early-to-late drop of the gradient norm over an ensemble, over late-stage ensemble variance.

    Args:
        first: gradient norms under each member's oldest view.
        last: gradient norms under each member's newest view.
        epsilon: keeps a division by zero away, in units of what is divided by.
        divide_by: with one member there is no spread, and only `drop` is a number.
    """
    early, late = first.mean(0), last.mean(0)
    drop = (early - late) / (early + epsilon)
    if divide_by == "drop":
        return drop
    if len(last) < 2:
        return np.full(first.shape[1], np.nan)
    spread = last.var(0, ddof=1) if divide_by == "variance" else last.std(0, ddof=1)
    return drop / (spread + epsilon)


def effective_rank(matrices: Sequence[Float[Tensor, "n _ _"]]) -> Float[Tensor, " n"]:
    """Return exp(-sum_k p_k ln p_k), p_k = sigma_k / sum sigma, of each row's matrices: their mean over matrices.

    sigma are singular values (Roy & Vetterli 2007), from the Gram matrix over the shorter side, which is the
    adapter's rank. A matrix that is zero has no rank and is left out of a row's mean; NaN where all are, and where one is
    not finite.
    """
    ranks, is_there = [], []
    for matrix in matrices:
        wide = matrix.double()
        gram = wide @ wide.mT if wide.shape[1] <= wide.shape[2] else wide.mT @ wide
        is_finite = gram.isfinite().all(2).all(1)
        # eigvalsh refuses a whole batch for one NaN in it, and rows with such gradients are marked, not fatal.
        sigma = torch.linalg.eigvalsh(gram.where(is_finite[:, None, None], 1.0)).clamp(min=0.0).sqrt()
        sigma = sigma.where(is_finite[:, None], torch.nan)
        total = sigma.sum(1, keepdim=True)
        share = sigma / total
        ranks.append(torch.exp(-torch.special.xlogy(share, share).sum(1)))
        is_there.append(total[:, 0] != 0)
    counted = torch.stack(is_there)
    return torch.where(counted, torch.stack(ranks), 0.0).sum(0) / counted.sum(0)
