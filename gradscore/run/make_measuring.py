"""The optional measures of a run: what they are taken with, what they cost, and which cannot be had."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gradscore.config import RunConfig
from gradscore.data.alone import AnswerFrame
from gradscore.data.number_tokens import number_ids
from gradscore.data.stop_tokens import stop_ids
from gradscore.errors import ConfigError, UnsupportedError
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.hooks import HooksEngine, has_positions
from gradscore.gradients.positions import Positions
from gradscore.measures import OF_FOLDS, describe_cost, parse_measures, passes_of
from gradscore.model.load import LoadedModel
from gradscore.quality.stored import read_quality
from gradscore.records import Reporter
from gradscore.run.make_views import planned_views
from gradscore.scores.measuring import Measuring, whole_adapter_matrices
from gradscore.scores.sweep import Sweep


class Basis(NamedTuple):
    """What decides which measures can be had."""

    model: Any
    engine: GradientEngine
    frame: AnswerFrame | None
    """What goes around an answer in place of its instruction."""
    config: RunConfig


def settle_measures(basis: Basis, reporter: Reporter) -> None:
    """Say what the measures cost, and which of them stay empty.

    Raises:
        UnsupportedError: a measure that was asked for by name, or that `quality` needs, cannot be had in this run. One that `all` or `default`
            stands for is left empty.
        ConfigError: `reference_adam` with projected gradients.
    """
    config = basis.config
    names = parse_measures(config.scores.measures)
    reasons = {name: reason for name in names if (reason := why_not(name, basis)) is not None}
    _refuse_empty_quality(config.scores.quality, reasons)
    named = {word.strip() for word in config.scores.measures.split(",")}
    for name, reason in reasons.items():
        if name in named:
            raise UnsupportedError(f"--measures {name} cannot be had in this run: {reason}. Leave it out.")
    for reason in dict.fromkeys(reasons.values()):
        empty = [name for name in names if reasons.get(name) == reason]
        reporter.message(f"{', '.join(empty)}: empty in this run; {reason}.")
    if config.scores.reference_adam and _is_projected(basis):
        raise ConfigError(
            "--reference-adam divides single coordinates, and these gradients are kept as random projections, which have "
            "none. Pass --projection 0, or leave it out."
        )
    if config.data.shard is not None and "sketch" in passes_of(names):
        reporter.message(
            f"alignment compares with the mean over shard {config.data.shard}, not over all rows"
        )
    n_views, n_members = planned_views(config.model)
    had = [name for name in names if name not in reasons]
    reporter.message(describe_cost(had, n_views, n_members))


def _refuse_empty_quality(path: str | None, reasons: Mapping[str, str]) -> None:
    if path is None:
        return
    for feature in read_quality(path).features:
        if feature.name in reasons and not feature.is_optional:
            raise UnsupportedError(
                f"--quality {path} needs {feature.name}, which cannot be had in this run, so quality would be empty in every "
                f"row: {reasons[feature.name]}. Leave --quality out, or run `gradscore validate` on these rows for a model "
                "of their own."
            )


def why_not(name: str, basis: Basis) -> str | None:
    """Return why a measure would be empty in this run, or None if nothing is in its way."""
    engine = basis.engine
    if name == "effective_rank" and not whole_adapter_matrices(
        basis.model, engine.parameters, engine.reduction
    ):
        return "it needs a counted LoRA adapter, without --stride and --projection"
    if "tokens" in passes_of([name]) and not _watches_positions(basis.model, engine):
        return "it needs the hooks engine, and counted parameters that are weights of linear layers alone"
    if basis.frame is None and {"alone", "contrast"} & set(passes_of([name])):
        return "rows have no instruction that could be left out (plain text, or a template that refuses an empty turn)"
    if name in OF_FOLDS and not basis.config.model.cross_fit:
        return "every member is trained on every row; it needs --cross-fit --members 2"
    if "reference" in passes_of([name]) and basis.config.scores.reference is None:
        return "it needs trusted rows, given with --reference"
    if name.endswith("_category") and basis.config.data.category_field is None:
        return "it needs categories, named with --category-field"
    return None


def make_measuring(
    config: RunConfig, sweep: Sweep, loaded: LoadedModel, frame: AnswerFrame | None
) -> Measuring:
    """Return what the measures of every row are taken with."""
    return Measuring(
        names=parse_measures(config.scores.measures),
        model=sweep.model,
        switch=sweep.switch,
        parameters=sweep.parameters,
        reduction=sweep.reduction,
        scores=config.scores,
        collated=sweep.collated,
        gradients=sweep.scored_gradients,
        loss=config.gradients.reduction,
        stop_ids=stop_ids(loaded.tokenizer),
        number_ids=number_ids(loaded.tokenizer),
        frame=frame,
        n_folds=config.model.members if config.model.cross_fit else 0,
        token_engine=_token_engine(config, sweep),
    )


def _is_projected(basis: Basis) -> bool:
    shapes = [basis.model.get_parameter(p.name).shape for p in basis.engine.parameters]
    return any(basis.engine.reduction.projections.applies_to(shape) for shape in shapes)


def _watches_positions(model: Any, engine: GradientEngine) -> bool:
    return engine.name == "hooks" and has_positions(model, engine.parameters)


def _token_engine(config: RunConfig, sweep: Sweep) -> GradientEngine | None:
    wanted = "tokens" in passes_of(parse_measures(config.scores.measures))
    if not wanted or not _watches_positions(sweep.model, sweep.engine):
        return None
    watching = replace(sweep.reduction, positions=Positions())
    return HooksEngine(sweep.model, sweep.parameters, watching, config.gradients.reduction)
