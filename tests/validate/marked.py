"""Rows with known faults and columns of known worth, for the tests of evaluation and of quality."""

import numpy as np
import pyarrow as pa

from gradscore.validate.evaluate import Marked

KINDS = ("swapped", "truncated", "refusal", "markup")


def labels(n_sound: int, n_each: int, *, hidden: int = 0) -> np.ndarray:
    """Return faults in a mixed order: `n_sound` rows of None, `n_each` of every kind, `hidden` duplicates."""
    faults = [None] * n_sound + [kind for kind in KINDS for _ in range(n_each)] + ["duplicate"] * hidden
    return np.random.default_rng(0).permutation(np.array(faults, dtype=object))


def marked(faults: np.ndarray, columns: dict[str, np.ndarray], better: dict[str, str]) -> Marked:
    """Return rows with these faults and columns; a column that is not in `better` claims no direction."""
    n = len(faults)
    return Marked(
        row_index=np.arange(n),
        row_key=pa.chunked_array([pa.array([f"{i * 7919 % 10007:032x}" for i in range(n)])]),
        columns=columns,
        better={name: better.get(name, "") for name in columns},
        faults=faults,
        hidden=frozenset(["duplicate"]),
        lost_end=np.zeros(n, dtype=bool),
    )
