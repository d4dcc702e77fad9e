"""Counts of values in bins, made before anything is drawn, so that a million rows are fifty numbers on the page."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_BINS = 40
MAX_LABELS = 6


def is_skewed(values: NDArray[np.float64]) -> bool:
    """Return whether values are better shown on a log scale: all positive, and the 99 % quantile 20 times the 1 %."""
    if not len(values) or values.min() <= 0:
        return False
    low, high = np.quantile(values, [0.01, 0.99])
    return bool(high > 20 * low)


def bin_edges(values: NDArray[np.float64], n: int = N_BINS) -> NDArray[np.float64]:
    """Return edges from the smallest to the largest value, even on the scale that `is_skewed` asks for."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    return np.geomspace(low, high, n + 1) if is_skewed(values) else np.linspace(low, high, n + 1)


def binned(
    values: NDArray[np.float64], labels: NDArray[np.object_], order: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield one record per bin and label that holds rows: start, end, label, rows."""
    edges = bin_edges(values)
    for label in order:
        # The last edge may lie below the largest value by rounding.
        counts, _ = np.histogram(np.clip(values[labels == label], edges[0], edges[-1]), edges)
        for place in np.flatnonzero(counts):
            yield {
                "start": float(edges[place]),
                "end": float(edges[place + 1]),
                "label": label,
                "rows": int(counts[place]),
            }


def short_labels(labels: NDArray[np.object_], none: str, other: str) -> tuple[NDArray[np.object_], list[str]]:
    """Return labels with the rarer ones joined as `other`, and their order, most frequent first.

    Args:
        labels: text or None per row.
        none: shown for None.
        other: shown for all but the five most frequent, where there are more than six.
    """
    named = np.array([none if label is None else label for label in labels], dtype=object)
    names, counts = np.unique(named.astype(str), return_counts=True)
    order = [str(name) for name in names[np.argsort(-counts, kind="stable")]]
    if len(order) <= MAX_LABELS:
        return named, order
    kept = order[: MAX_LABELS - 1]
    return np.where(np.isin(named.astype(str), kept), named, other).astype(object), [*kept, other]
