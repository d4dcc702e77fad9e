"""`quality.json`: written to be read by people, and read with care: what is wrong in it shows before hours of scoring."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradscore.errors import TableError
from gradscore.quality.model import Feature, Fit, QualityModel
from gradscore.table.aside import written_aside

FORMAT = "gradscore quality"
FORMAT_VERSION = 2


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
