"""`quality`: the probability that a row is sound, from a few columns of its score table; numpy only.

No column is weighed by what faults were planted. Each says how far out a row lies at its bad end among sound rows, and
what lies far out by any of them counts:

    u_j     = normal score of column j at its bad end: 0 at the median of sound rows or better, 1 where 16 % of them are as
              bad, 2 where 2.3 % are; between the stored knots by linear interpolation, beyond the last as there
    d       = sum_j u_j^2
    quality = 1 / (1 + exp(-(intercept - slope d)))       intercept and slope: calibration on planted faults

Normal scores are van der Waerden's (1952); the sum of their squares is a chi-squared statistic if columns are independent,
after Fisher's way of combining tests. `quality_low` and `quality_high` come from the same formula with knots and calibration of
bootstrap samples (2.5 % and 97.5 % quantiles, widened to quality itself where it lies outside). They are the uncertainty of the fit, not of the row's own scores. A row that
lacks one of the columns has no quality: null, never a guess. Only columns that say nothing of some rows by nature, such as the
loss of a stop token that was cut off, count 0 there.
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
FORMAT_VERSION = 2
TAIL = 0.025
ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the score table, and which of its values are how bad."""

    name: str
    better: Literal["high", "low"]
    """The end at which sound rows lie, as the column's dictionary claims."""
    scores: tuple[float, ...]
    """Normal scores of the knots, from 0 at the median to that of the worst sound row."""
    values: tuple[float, ...]
    """The values that have these scores."""
    is_optional: bool = False
    """Whether a row without a value counts 0; elsewhere such a row has no quality."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Knots and calibration of one bootstrap sample."""

    intercept: float
    slope: float
    values: tuple[tuple[float, ...], ...]
    """Per feature, at the same normal scores as in the model."""


@dataclass(frozen=True)
class QualityModel:
    """A fitted `quality`, as it is stored."""

    features: tuple[Feature, ...]
    intercept: float
    slope: float
    """How many logits a unit of d takes away; never negative."""
    bootstrap: tuple[Fit, ...]
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """Data, model and faults that it was fitted on."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """How well it found the planted faults, and beside which columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table needs."""
        return tuple(feature.name for feature in self.features)

    @property
    def own(self) -> Fit:
        """The fit on all rows."""
        return Fit(self.intercept, self.slope, tuple(feature.values for feature in self.features))


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
    values = [np.asarray(columns[name], dtype=np.float64) for name in model.names]
    parts = [
        _probabilities(model, [column[at : at + ROWS_PER_BLOCK] for column in values])
        for at in range(0, len(values[0]), ROWS_PER_BLOCK)
    ]
    quality, low, high = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return Quality(quality, low, high)


def distance(features: Sequence[Feature], columns: Sequence[Numbers]) -> Numbers:
    """Return d of every row: the sum over the features of the squared normal score at the bad end; NaN where one is missing."""
    return _distance(features, [feature.values for feature in features], columns)


def _distance(
    features: Sequence[Feature], knots: Sequence[Sequence[float]], columns: Sequence[Numbers]
) -> Numbers:
    total = np.zeros(len(columns[0]))
    for feature, values, column in zip(features, knots, columns, strict=True):
        u = normal_scores(column, values, feature.scores, feature.better)
        total += np.square(np.where(np.isnan(column), 0.0, u) if feature.is_optional else u)
    return total


def normal_scores(
    column: Numbers, values: Sequence[float], scores: Sequence[float], better: Literal["high", "low"]
) -> Numbers:
    """Return how far out each value lies at the bad end, between 0 and the last of the scores.

    Where several knots share a value it gets the middle of the lowest and the highest of their scores.
    """
    sign = -1.0 if better == "high" else 1.0
    bad, knots, at = sign * column, sign * np.asarray(values), np.asarray(scores)
    highest = np.interp(bad, knots, at)
    lowest = -np.interp(-bad, -knots[::-1], -at[::-1])
    return np.asarray((highest + lowest) / 2)


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
    except (ValueError, RecursionError) as error:
        raise TableError(
            f"{path} is not valid JSON ({error}). Give the quality.json that `gradscore validate` wrote."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TableError(
            f"{path} is no quality model. Give the quality.json that `gradscore validate` wrote."
        )
    version = content.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise TableError(_damaged(path, f"format_version is {version!r}"))
    if version < FORMAT_VERSION:
        raise TableError(
            f"{path} has format {version}, which this release no longer reads. Run `gradscore validate` again; with the "
            "folder of the earlier run as --output nothing is scored anew."
        )
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
            intercept=_number(content["intercept"]),
            slope=_number(content["slope"]),
            bootstrap=tuple(_fit(fit) for fit in _list(content["bootstrap"])),
            fitted_on=dict(content["fitted_on"]),
            evidence=dict(content["evidence"]),
        )
        _check_origin(model)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise TableError(_damaged(path, repr(error))) from error
    mistake = _mistake(model)
    if mistake is not None:
        raise TableError(_damaged(path, mistake))
    return model


def _feature(content: Mapping[str, Any]) -> Feature:
    if not isinstance(content["name"], str) or not isinstance(content["is_optional"], bool):
        raise TypeError(f"a feature is named {content['name']!r}, is_optional {content['is_optional']!r}")
    return Feature(
        **{**content, "scores": _numbers(content["scores"]), "values": _numbers(content["values"])}
    )


def _fit(content: Mapping[str, Any]) -> Fit:
    values = tuple(_numbers(knots) for knots in _list(content["values"]))
    return Fit(_number(content["intercept"]), _number(content["slope"]), values)


def _numbers(content: Any) -> tuple[float, ...]:
    return tuple(_number(number) for number in _list(content))


def _number(content: Any) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise TypeError(f"{content!r} is no number")
    return float(content)


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise TypeError(f"{content!r} is no list")
    return content


def _check_origin(model: QualityModel) -> None:
    """Read what others will read of where a model comes from and what it is worth, so that it fails here if at all."""
    model.fitted_on.get("language_model", {}).get("fingerprint")
    for settings in model.fitted_on.get("settings", {}).values():
        dict(settings)
    for name in ("best_column", "default_column"):
        claim = model.evidence.get(name)
        if claim is not None:
            str(claim["name"] + claim["better"])
            _check_estimate(claim["auroc"], may_be_missing=name == "default_column")
    _check_estimate((model.evidence.get("auroc") or {}).get("all"), may_be_missing=True)


def _check_estimate(content: Any, *, may_be_missing: bool) -> None:
    if content is None and may_be_missing:
        return
    for end in ("value", "low", "high"):
        _number(content[end])


def _mistake(model: QualityModel) -> str | None:
    """Return what makes the numbers of a model unusable, though each can be read; None where they are in order."""
    if not model.features or len(set(model.names)) < len(model.names):
        return f"its features are {', '.join(model.names) or 'none'}"
    if not model.bootstrap:
        return "it has no bootstrap fits, which its interval is made of"
    for feature in model.features:
        if feature.better not in ("high", "low"):
            return f"{feature.name} is better {feature.better!r}"
        if len(feature.scores) < 2 or not _rises(feature.scores, "low"):
            return f"the scores of {feature.name} do not rise: {list(feature.scores)}"
    for fit in (model.own, *model.bootstrap):
        if fit.slope < 0:
            return f"a slope is {fit.slope}, and a row that lies farther out would have the higher quality"
        if [len(values) for values in fit.values] != [len(feature.scores) for feature in model.features]:
            return "it has not one value for each score, in every bootstrap fit too"
        for feature, values in zip(model.features, fit.values, strict=True):
            if not _rises(values, feature.better):
                return f"the values of {feature.name} do not go one way: {list(values)}"
    fits = (model.own, *model.bootstrap)
    numbers = [number for fit in fits for number in (fit.intercept, fit.slope, *itertools.chain(*fit.values))]
    if not all(map(math.isfinite, [*numbers, *(score for f in model.features for score in f.scores)])):
        return "one of its numbers is not finite"
    return None


def _rises(values: Sequence[float], better: str) -> bool:
    """Return whether values go from good to bad and never back."""
    pairs = itertools.pairwise(values if better == "low" else reversed(values))
    return all(first <= second for first, second in pairs)


def _damaged(path: str | Path, what: str) -> str:
    return f"The quality model {path} is damaged ({what}). Run `gradscore validate` again."


def _probabilities(model: QualityModel, columns: Sequence[Numbers]) -> Numbers:
    """Return quality, low and high, [3, rows]."""
    logits = np.array(
        [
            fit.intercept - fit.slope * _distance(model.features, fit.values, columns)
            for fit in (model.own, *model.bootstrap)
        ]
    )
    with np.errstate(over="ignore"):  # exp of a very negative logit is infinite, and the probability 0
        probabilities = 1 / (1 + np.exp(-logits))
    quality = probabilities[0]
    low, high = np.quantile(probabilities[1:], [TAIL, 1 - TAIL], axis=0)
    return np.stack([quality, np.minimum(low, quality), np.maximum(high, quality)])
