"""The optional measures of a run: what they are taken with, what they cost, and which cannot be had."""

from gradscore.config import RunConfig
from gradscore.errors import UnsupportedError
from gradscore.measures import describe_cost, parse_measures
from gradscore.model.load import LoadedModel
from gradscore.records import Reporter
from gradscore.run.make_views import views_per_member
from gradscore.scores.measuring import Measuring
from gradscore.scores.sweep import Sweep


def make_measuring(config: RunConfig, sweep: Sweep, loaded: LoadedModel, reporter: Reporter) -> Measuring:
    """Return the measures that are taken of every row, after saying what they cost.

    Raises:
        UnsupportedError: a measure that was asked for by name cannot be had in this run. One that `all` or `default`
            stands for is left empty, which is said.
    """
    names = parse_measures(config.scores.measures)
    measuring = Measuring(
        names=names,
        model=sweep.model,
        switch=sweep.switch,
        parameters=sweep.parameters,
        reduction=sweep.reduction,
        scores=config.scores,
        loss=config.gradients.reduction,
        stop_ids=stop_ids(loaded),
    )
    reasons = {name: reason for name in names if (reason := measuring.why_not(name)) is not None}
    named = {word.strip() for word in config.scores.measures.split(",")}
    for name, reason in reasons.items():
        if name in named:
            raise UnsupportedError(f"--measures {name} cannot be had in this run: {reason}. Leave it out.")
        reporter.message(f"Measure {name} stays empty: {reason}.")
    reporter.message(describe_cost([n for n in names if n not in reasons], views_per_member(sweep.views)))
    return measuring


def stop_ids(loaded: LoadedModel) -> frozenset[int]:
    """Return the special tokens that can end an answer: all but those for unknown text."""
    tokenizer = loaded.tokenizer
    unknown = {tokenizer.unk_token_id} - {tokenizer.eos_token_id}
    return frozenset(set(tokenizer.all_special_ids) - unknown)
