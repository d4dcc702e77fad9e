"""From the numbers of a table to what they may mean: symptom, cause, check and remedy.

A reading is a hint with a number beside it, never a verdict on the data. The texts stand in `words`, under
`reading.NAME.symptom`, `.cause`, `.check` and `.remedy`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gradscore.report.profile import Profile

STRONG_CORRELATION = 0.7
STRONG_CATEGORY_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Reading:
    """One line of the table of symptoms: whether it was found, and the numbers that say so."""

    name: str
    state: Literal["found", "fine", "unknown"]
    """`unknown` where the table lacks the numbers."""
    evidence: tuple[tuple[str, float], ...]
    """Measure and value."""


def readings_of(
    profile: Profile, correlations: Mapping[str, float], category_share: float | None
) -> list[Reading]:
    """Return every reading, those that were found first.

    Args:
        profile: of the table.
        correlations: rank correlation of the ranking score with other columns, by `length` and `loss`.
        category_share: share of the variance of its ranks between categories; None without categories.
    """
    value = profile.values.get
    length, loss = correlations.get("length"), correlations.get("loss")
    readings = [
        _reading("noisy_order", ("gsnr_error_over_spread", value("gsnr_error_over_spread"), None, 1.0)),
        _reading(
            "homogeneous",
            ("pair_cosine_mean", value("pair_cosine_mean"), None, 0.7),
            ("pair_cosine_share_high", value("pair_cosine_share_high"), None, 0.1),
        ),
        _reading(
            "contradictory",
            ("pair_cosine_mean", value("pair_cosine_mean"), 0.0, None),
            ("pair_cosine_share_opposed", value("pair_cosine_share_opposed"), None, 0.1),
        ),
        _reading(
            "low_snr",
            ("gsnr_over_floor", value("gsnr_over_floor"), 1.5, None),
            ("gsnr_share_under_floor", value("gsnr_share_under_floor"), None, 0.1),
        ),
        _reading("polarised", ("norm_spread", value("norm_spread"), None, 20.0)),
        _reading(
            "layers",
            ("layers_middle", value("layers_middle"), 1 / 3, 9.0),
            ("layers_top", value("layers_top"), 0.1, 10.0),
        ),
        _reading("is_length", ("rank_correlation", length, -STRONG_CORRELATION, STRONG_CORRELATION)),
        _reading("is_loss", ("rank_correlation", loss, -STRONG_CORRELATION, STRONG_CORRELATION)),
        _reading("is_category", ("category_share", category_share, None, STRONG_CATEGORY_SHARE)),
        _reading("duplicates", ("duplicate_share", value("duplicate_share"), None, 0.01)),
        _reading("truncated", ("truncated_share", value("truncated_share"), None, 0.05)),
        _reading("unscored", ("unscored_share", value("unscored_share"), None, 0.01)),
    ]
    order = {"found": 0, "fine": 1, "unknown": 2}
    return sorted(readings, key=lambda reading: order[reading.state])


def _reading(name: str, *tests: tuple[str, float | None, float | None, float | None]) -> Reading:
    """Return a reading from (measure, value, least healthy, greatest healthy); one that is outside is enough."""
    known = [(measure, value, low, high) for measure, value, low, high in tests if value is not None]
    outside = any(
        (low is not None and value < low) or (high is not None and value > high)
        for _, value, low, high in known
    )
    state: Literal["found", "fine", "unknown"] = "unknown" if not known else "found" if outside else "fine"
    return Reading(name, state, tuple((measure, value) for measure, value, _, _ in known))
