"""`quality` as columns of the score table, and what they need from the run that writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradscore.config import ScoreConfig
from gradscore.errors import TableError
from gradscore.measures import MEASURES, OF_QUALITY, parse_measures
from gradscore.quality.model import QualityModel, apply
from gradscore.table.derived import Derived
from gradscore.table.schema import COLUMNS, Column

_NULL = "0 to 1; null where a column that it needs is null"
QUALITY_COLUMNS = (
    Column(
        "quality",
        pa.float64(),
        "probability that the row is sound, as far as planted faults teach it (--quality)",
        "probability",
        "high: the row looks sound",
        _NULL,
        better="high",
    ),
    Column(
        "quality_low", pa.float64(), "lower end of the 95 % interval of quality", "probability", "", _NULL
    ),
    Column(
        "quality_high", pa.float64(), "upper end of the 95 % interval of quality", "probability", "", _NULL
    ),
)
SECTIONS_THAT_MATTER = ("model", "gradients", "scores")
TEXT = ("max_length", "truncate", "turns", "side", "chat_template")
"""Fields of the section data that change what is scored of a row."""
OF_BASE_MODEL = ("dtype", "attn", "adapter", "revision", "checkpoints")
"""Fields of the section model that load other weights or compute with them otherwise; the others make views."""
UNRELATED = (
    "model", "device", "cache_trunk", "check", "engine", "max_batch_tokens", "measures", "quality", "sketch",
)  # fmt: skip
"""Fields that do not change the columns that a model was fitted on."""


def quality_columns(model: QualityModel) -> Derived:
    """Return the three columns of a model, to be added while a table is written."""

    def compute(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        found = apply(model, columns)
        return {"quality": found.quality, "quality_low": found.low, "quality_high": found.high}

    return Derived(QUALITY_COLUMNS, model.names, compute)


def needed_measures(model: QualityModel) -> tuple[str, ...]:
    """Return the optional measures that a model needs.

    Raises:
        TableError: it needs a column that this release does not have.
    """
    own = {column.name for column in COLUMNS if pa.types.is_floating(column.arrow_type)} | {"n_target_tokens"}
    unknown = [name for name in model.names if name not in own and name not in MEASURES]
    if unknown:
        raise TableError(
            f"The quality model needs columns that this release cannot make: {', '.join(unknown)}. "
            "Run `gradscore validate` again with this release."
        )
    return tuple(name for name in model.names if name in MEASURES)


def with_needed_measures(scores: ScoreConfig, model: QualityModel) -> ScoreConfig:
    """Return the settings with the measures that a model needs turned on; those that were asked for stay.

    Raises:
        TableError: see `needed_measures`.
    """
    missing = [name for name in needed_measures(model) if name not in parse_measures(scores.measures)]
    return replace(scores, measures=",".join([*filter(None, [scores.measures]), *missing]))


def described(model: QualityModel) -> dict[str, Any]:
    """Return what a table's footer says of the model: how it was made and what it is worth."""
    return {
        "columns": list(model.names),
        "intercept": model.intercept,
        "slope": model.slope,
        "fitted_on": dict(model.fitted_on),
        "evidence": dict(model.evidence),
    }


def differences(
    model: QualityModel, fingerprint: str, sections: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return what differs between the run that a model was fitted on and this one, in words.

    Args:
        model: the quality model.
        fingerprint: of the language model of this run.
        sections: this run's configuration, by section.
    """
    fitted = model.fitted_on
    language_model = fitted.get("language_model", {})
    found = []
    if language_model.get("fingerprint") not in (None, fingerprint):
        found.append(f"the model ({language_model.get('name')})")
    needs_views = not set(model.names) <= set(OF_QUALITY)
    for section in ("data", *SECTIONS_THAT_MATTER):
        before = fitted.get("settings", {}).get(section, {})
        names = [
            n for n in sections[section] if n in before and _matters(section, n, needs_views=needs_views)
        ]
        found += _changed(names, before, sections[section])
    return found


def _matters(section: str, name: str, *, needs_views: bool) -> bool:
    if section == "data":
        return name in TEXT
    return name not in UNRELATED if needs_views else section == "model" and name in OF_BASE_MODEL


def _changed(names: Sequence[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"--{name.replace('_', '-')} ({before[name]}, now {now[name]})"
        for name in names
        if before[name] != now[name]
    ]
