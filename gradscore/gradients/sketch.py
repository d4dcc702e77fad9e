"""A short random image of a row's mean gradient, stored in the table so that later questions need no model.

Count sketch (Charikar, Chen & Farach-Colton 2002; as feature hashing, Weinberger et al. 2009, arXiv:0902.2206):
each coordinate is added, with a random sign, to one of `size` buckets. Inner products of sketches are unbiased for
those of the gradients, with standard error about ||g|| ||h|| / sqrt(size). It costs one addition per coordinate.
"""

import hashlib
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class CountSketch:
    """Buckets and signs of all counted parameters, drawn from a seed and the parameter's name."""

    size: int
    seed: int = 0
    _made: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    def of(
        self, names: tuple[str, ...], vectors: tuple[Float[Tensor, "n _"], ...]
    ) -> Float[Tensor, "n {self.size}"]:
        """Return the sketch of each row's vectors, given per counted parameter."""
        sketch = vectors[0].new_zeros(vectors[0].shape[0], self.size)
        for name, vector in zip(names, vectors, strict=True):
            buckets, signs = self._hash(name, vector)
            sketch.index_add_(1, buckets, vector * signs)
        return sketch

    def _hash(self, name: str, vector: Tensor) -> tuple[Int[Tensor, " k"], Float[Tensor, " k"]]:
        if name not in self._made:
            digest = hashlib.blake2b(f"{self.seed}/sketch/{name}".encode(), digest_size=8).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
            buckets = torch.randint(self.size, (vector.shape[1],), generator=generator)
            signs = torch.randint(2, (vector.shape[1],), generator=generator) * 2 - 1
            self._made[name] = (buckets.to(vector.device), signs.to(vector))
        return self._made[name]
