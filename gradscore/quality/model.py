"""`quality`: the probability that a row is sound, from a few columns of its score table; numpy only.

A logistic model on standardised columns, made to be read and redone by hand:

    z_j     = clip((t_j(x_j) - center_j) / scale_j, -4, 4)      t: natural log or identity, as stored
    s       = intercept + sum_j below_j min(z_j, 0) + above_j max(z_j, 0)
    quality = 1 / (1 + exp(-(offset + slope s)))                slope and offset: calibration on faults left out

`quality_low` and `quality_high` come from the same formula with the weights of bootstrap fits (2.5 % and 97.5 %
quantiles). They are the uncertainty of the fit, not of the row's own scores. A row that lacks one of the columns
has no quality: null, never a guess. Only columns that say nothing of some rows by nature, such as the loss of a stop
token that was cut off, stand at z = 0 there.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscore.errors import TableError
from gradscore.table.aside import written_aside

Numbers = NDArray[np.float64]

FORMAT = "gradscore quality"
FORMAT_VERSION = 1
CLIP = 4.0
"""Standardised values beyond this count as this: one odd number must not outvote all other columns."""
SMALLEST = 1e-6
"""Values under this are raised to it before the logarithm is taken."""
TAIL = 0.025
ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the score table, and how it is brought to a common scale."""

    name: str
    transform: Literal["log", "identity"]
    center: float
    """Median of the transformed values of the rows that the model was fitted on."""
    scale: float
    """Their interquartile range / 1.349, the standard deviation if they were normal."""
    better: Literal["high", "low", ""] = ""
    """Which values should speak for a sound row, as the column's dictionary claims; the fit starts from it."""
    is_optional: bool = False
    """Whether a row without a value counts as the median; elsewhere such a row has no quality."""

    def standardise(self, values: Numbers) -> Numbers:
        """Return the column on the common scale; NaN where it has no value."""
        if self.transform == "log":
            values = np.log(np.maximum(values, SMALLEST))
        z = np.clip((values - self.center) / self.scale, -CLIP, CLIP)
        return np.where(np.isnan(z), 0.0, z) if self.is_optional else z


@dataclass(frozen=True)
class QualityModel:
    """A fitted `quality`, as it is stored."""

    features: tuple[Feature, ...]
    intercept: float
    weights: tuple[float, ...]
    """Two per feature, below and above its median: how much a standardised value speaks for a sound row, in logits."""
    slope: float
    offset: float
    """Calibration: logits of unseen kinds of fault are scaled by `slope` and moved by `offset`."""
    bootstrap: tuple[tuple[float, ...], ...]
    """Per bootstrap fit: its intercept, then its weights."""
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """Data, model and faults that it was fitted on."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """How well it found kinds of fault that it was not fitted on, and beside which columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table needs."""
        return tuple(feature.name for feature in self.features)


class Quality(NamedTuple):
    """Probability that each row is sound, with its interval; NaN where a row lacks a column."""

    quality: Numbers
    low: Numbers
    high: Numbers


def apply(model: QualityModel, columns: Mapping[str, Any]) -> Quality:
    """Return the quality of every row of a table, given as a frame or as a mapping from column to values.

    Raises:
        TableError: a column that the model needs is not in the table.
    """
    missing = [name for name in model.names if name not in columns]
    if missing:
        raise TableError(missing_columns_message(missing, list(columns)))
    z = half_lines(model.features, columns)
    fits = np.array([(model.intercept, *model.weights), *model.bootstrap], dtype=np.float64)
    parts = [
        _probabilities(model, z[at : at + ROWS_PER_BLOCK], fits) for at in range(0, len(z), ROWS_PER_BLOCK)
    ]
    quality, low, high = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return Quality(quality, low, high)


def half_lines(features: Sequence[Feature], columns: Mapping[str, Any]) -> Numbers:
    """Return each feature of every row on the common scale, below its median and above it, [rows, 2 features].

    A fault shows at one end of one column; with a single line the other end of the others would outvote it.
    """
    z = [f.standardise(np.asarray(columns[f.name], dtype=np.float64)) for f in features]
    return np.stack([half for one in z for half in (np.minimum(one, 0.0), np.maximum(one, 0.0))], axis=1)


def missing_columns_message(missing: Sequence[str], found: Sequence[str]) -> str:
    """Return what to say where a table lacks columns of the model."""
    return (
        f"quality needs columns that the score table does not have: {', '.join(missing)}; it has: {', '.join(found)}. "
        f"Score with --measures {','.join(missing)}, which adds them."
    )


def write_quality(model: QualityModel, path: Path) -> None:
    """Write the model as readable JSON.

    Raises:
        StorageError: the file cannot be written.
    """
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(model)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    with written_aside(path, what="the quality model", safe="The scores are safe.") as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def read_quality(path: str | Path) -> QualityModel:
    """Return the model stored at `path`.

    Raises:
        TableError: there is no such file, it holds something else, or a newer release wrote it.
    """
    try:
        content = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(
            f"The quality model {path} cannot be read: {error.strerror}. Give the quality.json that "
            "`gradscore validate` wrote."
        ) from error
    except ValueError as error:
        raise TableError(
            f"{path} is not valid JSON ({error}). Give the quality.json that `gradscore validate` wrote."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TableError(
            f"{path} is no quality model. Give the quality.json that `gradscore validate` wrote."
        )
    version = content.get("format_version")
    if not isinstance(version, int):
        raise TableError(_damaged(path, f"format_version is {version!r}"))
    if version > FORMAT_VERSION:
        raise TableError(
            f"{path} has format {version}; this release reads up to {FORMAT_VERSION}. "
            "Install a newer gradscore."
        )
    return _from_mapping(content, path)


def _from_mapping(content: Mapping[str, Any], path: str | Path) -> QualityModel:
    try:
        model = QualityModel(
            features=tuple(_feature(feature) for feature in content["features"]),
            intercept=float(content["intercept"]),
            weights=tuple(float(weight) for weight in content["weights"]),
            slope=float(content["slope"]),
            offset=float(content["offset"]),
            bootstrap=tuple(tuple(float(weight) for weight in fit) for fit in content["bootstrap"]),
            fitted_on=dict(content["fitted_on"]),
            evidence=dict(content["evidence"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(_damaged(path, repr(error))) from error
    mistake = _mistake(model)
    if mistake is not None:
        raise TableError(_damaged(path, mistake))
    return model


def _feature(content: Mapping[str, Any]) -> Feature:
    numbers = {name: float(content[name]) for name in ("center", "scale")}
    return Feature(**{**content, **numbers})


def _mistake(model: QualityModel) -> str | None:
    """Return what makes the numbers of a model unusable, though each can be read; None where they are in order."""
    if not model.features:
        return "it has no features"
    n_weights = 2 * len(model.features)
    if len(model.weights) != n_weights or any(len(fit) != n_weights + 1 for fit in model.bootstrap):
        return f"{len(model.features)} features take {n_weights} weights, in every bootstrap fit too"
    for feature in model.features:
        if feature.transform not in ("log", "identity"):
            return f"{feature.name} has the transform {feature.transform!r}"
        if not (math.isfinite(feature.center) and 0 < feature.scale < math.inf):
            return f"{feature.name} has center {feature.center} and scale {feature.scale}"
    own = (model.intercept, *model.weights, model.slope, model.offset)
    if not all(map(math.isfinite, itertools.chain(own, *model.bootstrap))):
        return "one of its numbers is not finite"
    return None


def _damaged(path: str | Path, what: str) -> str:
    return f"The quality model {path} is damaged ({what}). Run `gradscore validate` again."


def _probabilities(model: QualityModel, z: Numbers, fits: Numbers) -> Numbers:
    """Return quality, low and high, [3, rows]; the first of the fits is the model's own."""
    logits = model.offset + model.slope * (fits[:, :1] + fits[:, 1:] @ z.T)
    with np.errstate(over="ignore"):  # exp of a very negative logit is infinite, and the probability 0
        probabilities = 1 / (1 + np.exp(-logits))
    quality = probabilities[0]
    low, high = np.quantile(probabilities, [TAIL, 1 - TAIL], axis=0)
    return np.stack([quality, np.minimum(low, quality), np.maximum(high, quality)])
