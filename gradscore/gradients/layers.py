"""Per-sample gradients of single layers from what goes in and what comes back: pure formulas.

For a linear map y = W x applied at t positions, sample n contributes G_n = sum_t e_nt x_nt^T, where e is the
gradient of the loss with respect to y (Goodfellow 2015, arXiv:1510.01799). Norms need not form G:
||G_n||^2 = sum_{s,t} <x_s, x_t> <e_s, e_t>, the Gram product ("ghost norm", Li et al. 2022,
arXiv:2110.05679, section 4). Projections need not either: P G Q^T = sum_t (P e_t)(Q x_t)^T.
Where the terms of a Gram product cancel, rounding can leave a sum under zero; it is a square, so it is held at zero.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.linalg import vecdot


def linear_gradient(
    x: Float[Tensor, "n t d_in"], e: Float[Tensor, "n t d_out"]
) -> Float[Tensor, "n d_out d_in"]:
    """Return G_n = sum_t e_nt x_nt^T for each sample."""
    return e.transpose(1, 2) @ x


class InputGram:
    """X X^T of the last input asked for: query, key and value share theirs, and so do gate and up.

    The input is kept beside its product, so that its memory cannot hold another tensor meanwhile.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._last: tuple[Tensor, Tensor] | None = None

    def of(self, x: Float[Tensor, "n t d"]) -> Float[Tensor, "n t t"]:
        """Return x_n x_n^T for each sample."""
        if self._last is not None and _is_same(self._last[0], x):
            return self._last[1]
        gram = x @ x.transpose(1, 2)
        self._last = (x, gram)
        return gram


def _is_same(a: Tensor, b: Tensor) -> bool:
    return (
        a.data_ptr() == b.data_ptr()
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.dtype == b.dtype
    )


def linear_norm_squared(
    x: Float[Tensor, "n t d_in"], e: Float[Tensor, "n t d_out"], inputs: InputGram | None = None
) -> Float[Tensor, " n"]:
    """Return ||G_n||^2, by the Gram product or by forming one G_n at a time, whichever multiplies less."""
    t, d_in, d_out = x.shape[1], x.shape[2], e.shape[2]
    if t * (d_in + d_out) < d_in * d_out:
        gram = (inputs or InputGram()).of(x)
        return vecdot(gram.flatten(1), (e @ e.transpose(1, 2)).flatten(1)).clamp(min=0.0)
    formed = (e_n.T @ x_n for x_n, e_n in zip(x, e, strict=True))
    return torch.stack([vecdot(g_n.flatten(), g_n.flatten()) for g_n in formed])


def embedding_gradient(
    ids: Int[Tensor, "n t"], e: Float[Tensor, "n t d"], vocabulary: int
) -> Float[Tensor, "n v d"]:
    """Return each sample's gradient of an embedding table: row v is the sum of e where token v was looked up."""
    gradient = e.new_zeros(e.shape[0], vocabulary, e.shape[2])
    return gradient.scatter_add(1, ids[:, :, None].expand_as(e), e)


def embedding_norm_squared(ids: Int[Tensor, "n t"], e: Float[Tensor, "n t d"]) -> Float[Tensor, " n"]:
    """Return the squared norm of each sample's embedding gradient: sum of <e_s, e_t> where ids_s = ids_t."""
    return ((ids[:, :, None] == ids[:, None, :]) * (e @ e.transpose(1, 2))).sum((1, 2)).clamp(min=0.0)


def magnitude_gradient(
    output: Float[Tensor, "n t d"],
    base: Float[Tensor, "n t d"],
    magnitude: Float[Tensor, " d"],
    e: Float[Tensor, "n t d"],
) -> Float[Tensor, "n d"]:
    """Return each sample's gradient of DoRA's magnitude vector (Liu et al. 2024, arXiv:2402.09353, eq. 5).

    The layer adds output = (m / ||V||) * y - base with ||V|| held constant, so its slope in m is
    (output + base) / m.
    """
    return (e * (output + base) / magnitude).sum(1)


def module_gradients(
    module: nn.Module, x: Float[Tensor, "n ..."], e: Float[Tensor, "n ..."], names: list[str]
) -> dict[str, Float[Tensor, "n ..."]]:
    """Return per-sample gradients of any small module by running it again under vmap, one sample at a time.

    Exact for every module that maps samples independently; meant for norms, whose cost is negligible.
    """
    parameters = {name: module.get_parameter(name).detach() for name in names}

    def one(x_n: Tensor, e_n: Tensor) -> dict[str, Tensor]:
        pullback = vjp(lambda values: functional_call(module, values, (x_n,)), parameters)[1]
        return pullback(e_n)[0]

    return vmap(one)(x, e)
