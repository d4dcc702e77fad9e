"""How far the order of a table by gsnr can be trusted: its errors beside its spread."""

from typing import NamedTuple

import numpy as np

from gradscore.table.read import ScoreTable

SIGMAS_PER_QUARTILE_RANGE = 1.349
"""Distance of the quartiles of a normal distribution in standard deviations; outliers do not move it."""

MEDIAN_OF_CHI_SQUARED = {2: 0.455, 3: 0.693, 4: 0.789, 5: 0.839}
"""Median of s^2 / sigma^2 over samples of so many normal draws: that of chi squared over its degrees of freedom.

For more members than five it lies between the last value and 1, and the last is taken.
"""


class OrderNoise(NamedTuple):
    """Error and spread of gsnr over the rows of a table."""

    error: float
    """Standard error of a row's gsnr: from the spread between members, which repeat the measurement, or else the median
    jackknife error over the views of one member, which takes the change of the model for noise too."""
    spread: float
    """Standard deviation over rows, from the quartiles: their distance / 1.349."""
    n_members: int = 1

    @property
    def reliability(self) -> float | None:
        """Return the share of the variance between rows that other members would repeat; None with one member.

        1 - error^2 / spread^2, in [0, 1]: the correlation to expect between this gsnr and that of as many new
        members (classical test theory, Lord & Novick 1968).
        """
        if self.n_members < 2:
            return None
        return max(0.0, 1 - (self.error / self.spread) ** 2) if self.spread > 0 else 0.0

    @property
    def warning(self) -> str | None:
        """What to tell someone who ranks by gsnr, or None where the order stands out of its errors."""
        if self.error < self.spread:
            return None
        found = (
            f"Warning: the error of a row's gsnr ({self.error:.3g}) is as large as the differences between rows "
            f"(quartile range / 1.349: {self.spread:.3g}), so the order by gsnr "
        )
        if self.n_members > 1:
            return (
                f"{found}is mostly noise. Score with more or more distant views (--views, --update-interval), or compare "
                "with another column (--by loss --ascending)."
            )
        return (
            f"{found}may be noise. The error is taken over the views of one warm-up, whose change it takes for noise too: "
            "score with --members 2, which tells how much of the order repeats, or compare with another column "
            "(--by loss --ascending)."
        )


def order_noise(table: ScoreTable) -> OrderNoise | None:
    """Return the error and spread of gsnr; None where the table has no errors (one member, fewer than three views)."""
    values, spreads, errors = (table.numbers(name) for name in ("gsnr", "gsnr_spread", "gsnr_se"))
    has_members = bool(np.isfinite(spreads).any())
    scored = np.isfinite(spreads if has_members else errors) & np.isfinite(values)
    if scored.sum() < 2:
        return None
    low, high = np.quantile(values[scored], [0.25, 0.75])
    spread = float((high - low) / SIGMAS_PER_QUARTILE_RANGE)
    if not has_members:
        return OrderNoise(float(np.median(errors[scored])), spread)
    n_members = len({view["member"] for view in table.metadata["views"]})
    # Outliers, of which two members make many, must not decide: the median of s^2 of two normal draws is 0.455 sigma^2.
    variance = float(np.median(spreads[scored] ** 2)) / MEDIAN_OF_CHI_SQUARED[min(n_members, 5)]
    return OrderNoise(float(np.sqrt(variance / n_members)), spread, n_members)
