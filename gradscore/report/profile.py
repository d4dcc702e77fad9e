"""The gradient profile of a table: a few numbers that say what kind of data it is, to keep and to compare with.

Saved from data that is trusted, it is the reference for later data. Healthy ranges are rules of thumb about the
shape of a profile (random pairs of rows near a cosine of 0.15, layers near 1 : 3 : 1 from bottom to top); they were
not derived on any one model, so a reference of one's own says more.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.filter.noise import order_noise
from gradscore.records import OK
from gradscore.report.columns import LENGTH
from gradscore.report.cosines import pair_cosines
from gradscore.table.aside import written_aside
from gradscore.table.lists import sample_lists
from gradscore.table.read import ScoreTable

FORMAT = "gradscore-profile"
FORMAT_VERSION = 1
SAMPLED_ROWS = 5_000
"""Rows whose layer norms and sketches are looked at."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a profile: when it is healthy by itself, and how far it may lie from a reference."""

    name: str
    low: float = -math.inf
    high: float = math.inf
    """The healthy range by itself."""
    factor: float | None = None
    """How many times larger or smaller than the reference it may be; None where differences count."""
    difference: float = 0.1
    """How far from the reference it may lie where no factor is given."""

    @property
    def is_fault_share(self) -> bool:
        """Whether it is a share of something unwanted, of which less is never worse."""
        return self.name.endswith(("_share", "_share_high", "_share_opposed", "_share_under_floor"))


MEASURES: tuple[Measure, ...] = (
    Measure("norm_median", factor=2.0),
    Measure("norm_spread", high=20.0, factor=2.0),
    Measure("layers_middle", low=1 / 3, high=9.0, factor=2.0),
    Measure("layers_top", low=0.1, high=10.0, factor=2.0),
    Measure("pair_cosine_mean", low=0.0, high=0.7, difference=0.15),
    Measure("pair_cosine_share_high", high=0.1),
    Measure("pair_cosine_share_opposed", high=0.1),
    Measure("consistency_mean", difference=0.15),
    Measure("gsnr_median", factor=2.0),
    Measure("gsnr_over_floor", low=1.5, factor=2.0),
    Measure("gsnr_share_under_floor", high=0.1),
    Measure("gsnr_error_over_spread", high=1.0, factor=2.0),
    Measure("loss_median", factor=1.5),
    Measure("length_median", factor=2.0),
    Measure("length_spread", factor=3.0),
    Measure("truncated_share", high=0.05),
    Measure("duplicate_share", high=0.01, difference=0.05),
    Measure("unscored_share", high=0.01, difference=0.05),
)


@dataclass(frozen=True)
class Profile:
    """Numbers by the names in `MEASURES`; a number that the table cannot give is None."""

    values: Mapping[str, float | None]
    origin: Mapping[str, Any]
    """Dataset, model and number of rows that it was taken from."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A measure that has left the healthy range around a reference."""

    name: str
    value: float
    reference: float
    allowed: tuple[float, float]


def profile_of(table: ScoreTable) -> Profile:
    """Return the profile of a finished table; layer norms and pair cosines come from at most 5,000 of its rows."""
    scored = table.texts("status") == OK
    values: dict[str, float | None] = dict.fromkeys(measure.name for measure in MEASURES)
    for name, column in (("norm", "grad_norm"), ("loss", "loss"), ("length", LENGTH), ("gsnr", "gsnr")):
        numbers = table.numbers(column)[scored]
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers):
            low, median, high = np.quantile(numbers, [0.05, 0.5, 0.95]).tolist()
            found = {f"{name}_median": median, f"{name}_spread": high / low if low > 0 else None}
            values.update({key: value for key, value in found.items() if key in values})
    floor = table.metadata.get("noise_floor")
    if floor is not None and values["gsnr_median"] is not None:
        gsnr = table.numbers("gsnr")
        values["gsnr_over_floor"] = values["gsnr_median"] / floor
        values["gsnr_share_under_floor"] = float((gsnr[np.isfinite(gsnr)] < floor).mean())
    noise = order_noise(table)
    if noise is not None and noise.spread > 0:
        values["gsnr_error_over_spread"] = noise.error / noise.spread
    if "consistency" in table.numeric_columns and np.isfinite(table.numbers("consistency")).any():
        values["consistency_mean"] = float(np.nanmean(table.numbers("consistency")))
    if len(table):
        values["truncated_share"] = float(table.arrow["truncated"].to_numpy().mean())
        values["unscored_share"] = float((~scored).mean())
        distinct = (
            table.arrow.select(["row_key", "side"]).group_by(["row_key", "side"]).aggregate([]).num_rows
        )
        values["duplicate_share"] = 1 - distinct / len(table)
    values |= _from_layers(table) | _from_sketches(table)
    source, model = table.metadata["source"]["dataset"], table.metadata.get("model", {}).get("name")
    return Profile(values, {"dataset": source, "model": model, "n_rows": len(table)})


def layer_ratio(norms: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the norms of the middle and the top third of the layers over that of the bottom third.

    Root mean square over the layers of a third; None with fewer than three layers, or a bottom without gradient.
    """
    if len(norms) < 3:
        return None
    bottom, middle, top = (float(np.sqrt((third**2).mean())) for third in np.array_split(norms, 3))
    return (middle / bottom, top / bottom) if bottom > 0 else None


def departures(profile: Profile, reference: Profile) -> list[Departure]:
    """Return every measure that both profiles have and that lies too far from the reference."""
    found = []
    for measure in MEASURES:
        value, expected = profile.values.get(measure.name), reference.values.get(measure.name)
        if value is None or expected is None:
            continue
        if measure.is_fault_share:
            allowed = (0.0, max(measure.high, expected + measure.difference))
        elif measure.factor is not None and expected > 0:
            allowed = (expected / measure.factor, expected * measure.factor)
        else:
            allowed = (expected - measure.difference, expected + measure.difference)
        if not allowed[0] <= value <= allowed[1]:
            found.append(Departure(measure.name, value, expected, allowed))
    return found


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile as JSON.

    Raises:
        StorageError: the file cannot be written.
    """
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "origin": dict(profile.origin),
        "values": dict(profile.values),
    }
    with written_aside(path, what="the profile", safe="The score table is untouched.") as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def load_profile(path: Path) -> Profile:
    """Return the profile that `save_profile` wrote.

    Raises:
        TableError: the file cannot be read or is no profile of this format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}")
        if content["format_version"] > FORMAT_VERSION:
            raise TableError(
                f"The profile {path} has format {content['format_version']}; this release reads up to {FORMAT_VERSION}. "
                "Install a newer gradscore."
            )
        return Profile(content["values"], content["origin"])
    except OSError as error:
        raise TableError(f"The profile {path} cannot be read: {error.strerror}. Check the path.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is not a profile ({error}). Make one with `gradscore report TABLE --save-profile FILE.json`."
        ) from error


def _from_layers(table: ScoreTable) -> dict[str, float | None]:
    names = table.metadata.get("layer_names", [])
    layers = [place for place, name in enumerate(names) if name.startswith("layer ")]
    _, norms = sample_lists(table.path, "layer_norms", SAMPLED_ROWS)
    if not len(norms) or len(layers) < 3:
        return {}
    ratio = layer_ratio(np.median(norms[:, layers].astype(np.float64), axis=0))
    return {} if ratio is None else {"layers_middle": ratio[0], "layers_top": ratio[1]}


def _from_sketches(table: ScoreTable) -> dict[str, float | None]:
    _, sketches = sample_lists(table.path, "sketch", SAMPLED_ROWS)
    cosines = pair_cosines(sketches) if len(sketches) else None
    if cosines is None:
        return {}
    return {
        "pair_cosine_mean": float(cosines.values.mean()),
        "pair_cosine_share_high": cosines.share_high,
        "pair_cosine_share_opposed": cosines.share_opposed,
    }
