"""Hard thresholds: a row with a value outside one is dropped, whatever its rank."""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscore.config import FilterConfig


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least or greatest value that a row may have in one column."""

    column: str
    value: float
    is_minimum: bool
    option: str
    """How the user wrote it, for messages."""

    def is_outside(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return True where a value is strictly outside; a missing value (NaN) is not."""
        return values < self.value if self.is_minimum else values > self.value


def thresholds_of(
    config: FilterConfig, numeric_columns: Collection[str], mistakes: list[str]
) -> list[Threshold]:
    """Return the thresholds of `--min-gsnr`, `--minimum` and `--maximum`; what is wrong goes to `mistakes`."""
    for option, value in (("--min-gsnr", config.min_gsnr), ("--protect-gsnr", config.protect_gsnr)):
        if value is not None and not math.isfinite(value):
            mistakes.append(f"{option} must be a number, not {value}.")
    thresholds = []
    if config.min_gsnr is not None:
        thresholds.append(Threshold("gsnr", config.min_gsnr, True, f"--min-gsnr {config.min_gsnr:g}"))
    for option, text in (("minimum", config.minimum), ("maximum", config.maximum)):
        for pair in text.split(",") if text is not None else []:
            threshold = _parse(option, pair, numeric_columns, mistakes)
            if threshold is not None:
                thresholds.append(threshold)
    return thresholds


def _parse(option: str, pair: str, numeric_columns: Collection[str], mistakes: list[str]) -> Threshold | None:
    column, equals, text = (part.strip() for part in pair.partition("="))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not equals or not math.isfinite(value):
        mistakes.append(f"--{option} takes column=value,column=value, such as loss=0.5, not {pair!r}.")
    elif column not in numeric_columns:
        mistakes.append(
            f"--{option} {pair}: {column!r} is not a numeric column; these are: {', '.join(numeric_columns)}."
        )
    else:
        return Threshold(column, value, option == "minimum", f"--{option} {column}={value:g}")
    return None
