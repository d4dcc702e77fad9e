"""Cosines of random pairs of rows, from the sketches in the table (the direction of each row's mean gradient)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HIGH = 0.7
"""Above it two rows pull the model the same way; the rule of thumb for a homogeneous dataset."""
OPPOSED = -0.3
"""Under it two rows pull against each other; ours, ten standard errors of a 1024-long sketch."""
MAX_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class PairCosines:
    """Cosines of random pairs and how exact each one is."""

    values: NDArray[np.float64]
    error: float
    """Standard error of one cosine of unrelated rows from sketching, 1 / sqrt(length of the sketch)."""

    @property
    def share_high(self) -> float:
        """Share of pairs with a cosine above `HIGH`."""
        return float((self.values > HIGH).mean())

    @property
    def share_opposed(self) -> float:
        """Share of pairs with a cosine under `OPPOSED`."""
        return float((self.values < OPPOSED).mean())


def pair_cosines(sketches: NDArray[np.float32], *, seed: int = 0) -> PairCosines | None:
    """Return the cosines of at most 20,000 random pairs of different rows; None where there are not two rows.

    Rows whose sketch is all zero have no direction and are left out.
    """
    lengths = np.linalg.norm(sketches.astype(np.float64), axis=1)
    vectors = sketches[lengths > 0] / lengths[lengths > 0, None]
    n = len(vectors)
    if n < 2:
        return None
    if n * (n - 1) // 2 <= MAX_PAIRS:
        first, second = np.triu_indices(n, 1)
    else:
        generator = np.random.default_rng(seed)
        first = generator.integers(0, n, MAX_PAIRS)
        second = (first + generator.integers(1, n, MAX_PAIRS)) % n
    return PairCosines((vectors[first] * vectors[second]).sum(1), float(1 / np.sqrt(sketches.shape[1])))
