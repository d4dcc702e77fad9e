"""Measures of cross-fitted views: what members that never trained on a row say of it, against those that did.

With members m = 1..M, row n lies in one fold and member f(n) was never trained on it. Written for the newest view:

    loss_out        = loss under member f(n)
    memorised       = loss_out - mean loss under the other members
    norm_drop_out   = 1 - (norm under f(n), newest) / (norm under f(n), oldest)

A row that follows from the others is learned without being seen; one that does not has to be memorised (Feldman & Zhang
2020, arXiv:2008.03703; out-of-sample predictions as in Northcutt et al. 2021, arXiv:1911.00068).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from gradscore.scores.member import MemberScores

Array = np.ndarray


def fold_measures(members: Sequence[MemberScores], fold: Int[Array, " n"]) -> dict[str, Float[Array, " n"]]:
    """Return `loss_out`, `memorised`, `grad_norm_out`, `norm_drop_out` and `gsnr_out` of each row.

    Args:
        members: their scores of the batch; member m was never trained on fold m.
        fold: of each row.
    """
    rows = np.arange(len(fold))
    losses = np.stack([member.losses[:, -1] for member in members])
    oldest = np.stack([member.norms[:, 0] for member in members])[fold, rows]
    newest = np.stack([member.norms[:, -1] for member in members])[fold, rows]
    loss_out = losses[fold, rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        drop = 1 - newest / oldest
    columns = {
        "loss_out": loss_out,
        "memorised": loss_out - (losses.sum(0) - loss_out) / (len(members) - 1),
        "grad_norm_out": newest,
        "norm_drop_out": drop,
    }
    moments = [member.moments for member in members if member.moments is not None]
    if moments:
        columns["gsnr_out"] = np.stack([member.gsnr for member in moments])[fold, rows]
    return columns


def fold_cosine(products: Float[Array, "n m m"], fold: Int[Array, " n"]) -> Float[Array, " n"]:
    """Return the cosine of g_f and the sum of the other members' gradients of each row, NaN where one is zero.

    Args:
        products: inner products of the gradients of all members, each under its newest view.
        fold: of each row; member f(n) was never trained on it.
    """
    rows = np.arange(len(fold))
    own, own_sum, total = products[rows, fold, fold], products[rows, fold].sum(1), products.sum((1, 2))
    others = total - 2 * own_sum + own
    with np.errstate(divide="ignore", invalid="ignore"):
        return (own_sum - own) / np.sqrt(own * others)
