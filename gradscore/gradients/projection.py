"""A two-sided random projection of weight gradients that never forms them.

For a weight gradient G [d_out, d_in], R = P G Q^T with Gaussian P [a, d_out] and Q [a, d_in], entries of
variance 1/a, has E<R, R'> = <G, G'>. The relative standard error of ||R||^2 is about sqrt(4/a) for a single
rank-one G and falls with the number of matrices and of independent directions; `docs/benchmarks.md` has
measured values. P and Q are drawn from a seed and the parameter's name, so that every engine, batch, shard
and machine uses the same ones.
"""

import hashlib
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Projections:
    """The random matrices of all parameters, made when first needed and kept: a (d_out + d_in) numbers each."""

    side: int
    """a: each weight matrix's gradient is kept as a x a numbers; 0 projects nothing."""
    seed: int = 0
    _made: dict[tuple[str, int, str], Tensor] = field(default_factory=dict, repr=False)

    def applies_to(self, shape: torch.Size) -> bool:
        """Return whether a gradient of this shape is projected: a matrix with more than a x a entries."""
        return self.side > 0 and len(shape) >= 2 and shape.numel() > self.side**2

    def matrix(self, name: str, size: int, which: str, like: Tensor) -> Float[Tensor, "size a"]:
        """Return the transposed projection of one side (`in` or `out`) of the named parameter."""
        key = (name, size, which)
        if key not in self._made:
            digest = hashlib.blake2b(f"{self.seed}/{which}/{name}".encode(), digest_size=8).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
            drawn = torch.randn(size, self.side, generator=generator, dtype=torch.float64)
            self._made[key] = (drawn / self.side**0.5).to(dtype=like.dtype, device=like.device)
        return self._made[key]

    def of_linear(
        self, name: str, x: Float[Tensor, "n t d_in"], e: Float[Tensor, "n t d_out"]
    ) -> Float[Tensor, "n a a"]:
        """Return P G_n Q^T of a linear map from its inputs and output gradients."""
        return (e @ self.matrix(name, e.shape[2], "out", e)).transpose(1, 2) @ (
            x @ self.matrix(name, x.shape[2], "in", x)
        )

    def of_embedding(
        self, name: str, ids: Int[Tensor, "n t"], e: Float[Tensor, "n t d"], vocabulary: int
    ) -> Float[Tensor, "n a a"]:
        """Return P G_n Q^T of an embedding table [v, d], whose inputs are unit vectors."""
        rows = self.matrix(name, vocabulary, "out", e)[ids]
        return rows.transpose(1, 2) @ (e @ self.matrix(name, e.shape[2], "in", e))

    def of_gradient(self, name: str, gradient: Float[Tensor, "n ..."]) -> Float[Tensor, "n a a"]:
        """Return P G_n Q^T of gradients already formed; all axes but the last count as one."""
        matrices = gradient.flatten(1, -2)
        out = self.matrix(name, matrices.shape[1], "out", matrices)
        return out.T @ (matrices @ self.matrix(name, matrices.shape[2], "in", matrices))
