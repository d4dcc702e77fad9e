"""How far the order of a table by gsnr can be trusted: its errors beside its spread."""

from typing import NamedTuple

import numpy as np

from gradscore.table.read import ScoreTable

SIGMAS_PER_QUARTILE_RANGE = 1.349
"""Distance of the quartiles of a normal distribution in standard deviations; outliers do not move it."""


class OrderNoise(NamedTuple):
    """Error and spread of gsnr over the rows of a table."""

    error: float
    """Median standard error of a row's gsnr."""
    spread: float
    """Standard deviation over rows, from the quartiles."""

    @property
    def warning(self) -> str | None:
        """What to tell someone who ranks by gsnr, or None where the order stands out of its errors."""
        if self.error < self.spread:
            return None
        return (
            f"Warning: the error of a row's gsnr (median {self.error:.3g}) is as large as the differences between rows "
            f"(standard deviation {self.spread:.3g}), so the order by gsnr is mostly noise. Score with more or more "
            "distant views (--views, --update-interval), or compare with another column (--by loss --ascending)."
        )


def order_noise(table: ScoreTable) -> OrderNoise | None:
    """Return the error and spread of gsnr; None where the table has no errors (fewer than three views)."""
    errors, values = (table.numbers(name) for name in ("gsnr_se", "gsnr"))
    scored = np.isfinite(errors) & np.isfinite(values)
    if scored.sum() < 2:
        return None
    low, high = np.quantile(values[scored], [0.25, 0.75])
    return OrderNoise(float(np.median(errors[scored])), float((high - low) / SIGMAS_PER_QUARTILE_RANGE))
