"""The whole line in order: rows, data, model, gradients, scores, table; then filter and emit.

The only file that joins stages, with the steps of a scoring run in `gradscore.run`. What needs torch is imported
inside the functions that use it, so that filtering a finished table starts in under a second.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscore.config import RunConfig, raise_if_any, require, to_mapping
from gradscore.emit.dataset import emit
from gradscore.emit.outputs import plan_outputs
from gradscore.emit.source import read_categories, reopen_source
from gradscore.filter.advice import read_advice, resolve_by
from gradscore.filter.decide import DEFAULT_TOP_K, decide
from gradscore.filter.noise import order_noise
from gradscore.measures import parse_measures
from gradscore.quality.columns import described, quality_columns
from gradscore.records import Reporter, SilentReporter
from gradscore.table.parts import PartWriter
from gradscore.table.read import read_table
from gradscore.table.run import RunFolder, require_free

if TYPE_CHECKING:
    from gradscore.data.encode import Encoder
    from gradscore.data.preview import Preview
    from gradscore.doctor.finding import Diagnosis
    from gradscore.records import EncodedRow
    from gradscore.validate.conclude import Conclusion


@dataclass(frozen=True)
class ScoreOutcome:
    """What a scoring run did."""

    table: str
    run_folder: str
    n_rows: int
    status_counts: dict[str, int]
    seconds: float
    """Of this process, warm-up and checks included."""
    n_scored: int
    """Rows scored by this process; fewer than `n_rows` after an interruption."""
    rows_per_second: float
    """Rows scored by this process over the seconds of its scoring pass alone."""
    summary: dict[str, Any]
    """What a person should know before trusting the table: engine, views, noise floor, quartiles of the scores."""
    warning: str | None
    """Why the order by gsnr should not be trusted, if that can be seen from the table."""
    advised_by: str | None = None
    """Column that found most planted faults, if the table was scored with a quality model that knows."""


@dataclass(frozen=True)
class FilterOutcome:
    """What a filter run did."""

    output: str
    manifest: str
    dropped: str
    n_rows: int
    n_kept: int
    reason_counts: dict[str, int]
    messages: list[str]


@dataclass(frozen=True)
class ValidateOutcome:
    """What a validation found, and where it is written."""

    folder: str
    table: str
    counts: dict[str, int]
    """Rows with each kind of planted fault."""
    conclusion: "Conclusion"
    status_counts: dict[str, int]


def score_dataset(config: RunConfig, reporter: Reporter | None = None) -> ScoreOutcome:
    """Return the outcome of scoring a dataset into a table at `config.table.output`.

    An interrupted run of the same configuration is continued.

    Raises:
        GradscoreError: one of its subclasses; see the stages.
    """
    from gradscore.run.footer import footer
    from gradscore.run.identity import run_identity
    from gradscore.run.opening import open_data_and_model
    from gradscore.run.prepare import prepare
    from gradscore.run.reference import read_reference, with_reference
    from gradscore.run.survey import survey
    from gradscore.run.sweep_rows import sweep_rows
    from gradscore.run.use_quality import open_quality, warn_of_differences

    reporter = reporter or SilentReporter()
    _require_options(config, output=True)
    require_free(str(config.table.output), config.table.overwrite)
    config, quality = open_quality(config)
    started = time.monotonic()
    # 1. Open the data and the model, fix everything that was left to be chosen, and read all rows once.
    opened = source, encoder, loaded = open_data_and_model(config, reporter)
    training_rows, counts, data_fingerprint, detailed = survey(config, source, encoder)
    if config.gradients.check:
        _check_rows(config, training_rows, counts, encoder, reporter)
    if quality is not None:
        warn_of_differences(config, quality, loaded, reporter)
    trusted = read_reference(config, encoder, reporter)
    identity = run_identity(
        config, source, loaded, data_fingerprint, None if trusted is None else trusted.fingerprint
    )
    run = RunFolder.open(
        str(config.table.output),
        identity,
        # Replaying a saved configuration must not replace a finished table unasked.
        config_mapping=to_mapping(replace(config, table=replace(config.table, overwrite=False))),
        overwrite=config.table.overwrite,
        resume=config.table.resume,
    )
    measures = parse_measures(config.scores.measures)
    parts = PartWriter(run, reporter, measures=measures, part_seconds=config.table.part_seconds)
    # 2. Choose the engine, make the views, and hold the engine against plain autograd.
    sweep, check = prepare(config, opened, training_rows, run, reporter, detailed)
    sweep = with_reference(config, trusted, sweep, run, reporter)
    # 3. Score every row that is not on disk yet.
    scoring_started = time.monotonic()
    expected, n_scored = sweep_rows(config, source, encoder, sweep, parts, reporter)
    scoring_seconds = time.monotonic() - scoring_started
    # 4. Join the parts into the table.
    metadata = footer(config, source, loaded, sweep, check, identity, encoder.renderer.description)
    metadata["timing"] = {
        "seconds": time.monotonic() - started,
        "scoring_seconds": scoring_seconds,
        "rows_scored": n_scored,
    }
    metadata["quality"] = None if quality is None else described(quality)
    table = parts.finish(metadata, expected, [] if quality is None else [quality_columns(quality)])
    if sweep.trunk is not None:
        sweep.trunk.discard()
    return _score_outcome(table, run, n_scored, time.monotonic() - started, scoring_seconds)


def filter_dataset(config: RunConfig, reporter: Reporter | None = None) -> FilterOutcome:
    """Return the outcome of writing the kept rows of a scored dataset to `config.emit.output`.

    Raises:
        GradscoreError: one of its subclasses; see the stages filter and emit.
    """
    reporter = reporter or SilentReporter()
    raise_if_any([] if config.filter.table else ["No score table was given. Pass the path of one."])
    table = read_table(str(config.filter.table), lists=False)
    choice, advice = resolve_by(table, config.filter)
    config = replace(config, filter=choice)
    outputs = plan_outputs(config.emit, table.source, table.path)
    source = reopen_source(table, config.emit.dataset)
    field = config.filter.category_field
    categories = read_categories(source, table, field) if field else None
    decisions = decide(table, config.filter, categories)
    asked = to_mapping(config)
    # What the rows were scored with is in the table; the other sections of this configuration are idle here.
    described = {"filter": asked["filter"], "emit": asked["emit"], "scored_with": table.metadata["config"]}
    summary = emit(table, decisions, source, outputs, config=described, reporter=reporter)
    return FilterOutcome(
        output=str(outputs.kept),
        manifest=str(outputs.manifest),
        dropped=str(outputs.dropped),
        n_rows=summary.n_kept + summary.n_dropped,
        n_kept=summary.n_kept,
        reason_counts=dict(summary.reasons),
        messages=[*summary.messages, *summary.warnings, *advice],
    )


def validate_dataset(config: RunConfig, reporter: Reporter | None = None) -> ValidateOutcome:
    """Return which score columns find faults that are planted in a copy of a sample of the rows.

    The sample with its faults, its score table, `validation.json`, `quality.json` and a picture go to the folder
    `config.validate.output`. An interrupted run is continued; a table that is there already, of the same rows and
    settings, is judged without being scored again.

    Raises:
        GradscoreError: one of its subclasses; see `score_dataset` and the stage validate.
    """
    from gradscore.validate.conclude import conclude, write_conclusion  # scipy and matplotlib
    from gradscore.validate.trial import plant_trial

    reporter = reporter or SilentReporter()
    _require_options(config, output=False)
    raise_if_any([] if config.validate.output else ["No output was given. Pass --output with a folder."])
    trial = plant_trial(config, reporter)
    if not trial.is_scored:
        score_dataset(trial.config, reporter)
    table = read_table(trial.table, lists=False)
    top_k = config.filter.top_k or DEFAULT_TOP_K
    conclusion = conclude(table, trial.sample.faults, trial.fitted_on(table), top_k, config.data.seed)
    write_conclusion(conclusion, trial.folder, trial.described())
    return ValidateOutcome(
        folder=str(trial.folder),
        table=str(trial.table),
        counts=trial.sample.counts,
        conclusion=conclusion,
        status_counts=dict(Counter(table.texts("status").tolist())),
    )


def doctor_dataset(config: RunConfig, reporter: Reporter | None = None) -> "Diagnosis":
    """Return what can be told about a scoring run before it: rows, tokens, gradients, time, memory and disk.

    Nothing is written, and what is found wrong is a finding rather than an error.

    Raises:
        GradscoreError: the dataset or the model cannot be opened, or an option does not fit them.
    """
    from gradscore.data.schemas import recognise
    from gradscore.doctor.examine import examine_model
    from gradscore.doctor.finding import Diagnosis
    from gradscore.doctor.rows import pass_over_rows, row_findings, schema_line
    from gradscore.doctor.tokens import token_findings
    from gradscore.run.opening import open_data_and_model

    reporter = reporter or SilentReporter()
    _require_options(config, output=False)
    opened = source, encoder, _ = open_data_and_model(config, reporter)
    schema = recognise(source.record.columns, config.data)
    reporter.message("One pass over the rows")
    rows = pass_over_rows(source, config.data, encoder)
    examined, estimate = examine_model(config, rows, opened, reporter)
    return Diagnosis(
        findings=(
            schema_line(schema, source.record.columns, encoder.renderer.summary),
            *row_findings(rows, encoder),
            *token_findings(rows.kept, encoder, config.data.truncate),
            *examined,
        ),
        shown=rows.shown,
        numbers={
            "rows": {"copies": rows.n_copies, "chosen": rows.n_rows, **rows.counts},
            "estimate": estimate,
        },
    )


def preview_dataset(config: RunConfig, n_rows: int, reporter: Reporter | None = None) -> "Preview":
    """Return the first rows as text with their target tokens, and counts over all chosen rows."""
    from gradscore.data.preview import preview
    from gradscore.data.read import read_rows
    from gradscore.run.opening import open_data_and_text

    _require_options(config, output=False)
    source, encoder = open_data_and_text(config, reporter or SilentReporter())
    return preview(read_rows(source, config.data), encoder, n_rows)


def preview_json(config: RunConfig, reporter: Reporter | None = None) -> Iterator[dict[str, Any]]:
    """Yield each row's key, tokens and target mask, so that anyone can recompute its scores."""
    from gradscore.data.preview import to_json
    from gradscore.data.read import read_rows
    from gradscore.run.opening import open_data_and_text

    _require_options(config, output=False)
    source, encoder = open_data_and_text(config, reporter or SilentReporter())
    for row in read_rows(source, config.data):
        for encoded in encoder.encode(row):
            yield to_json(encoded)


def _check_rows(
    config: RunConfig,
    rows: "list[EncodedRow]",
    counts: dict[str, int],
    encoder: "Encoder",
    reporter: Reporter,
) -> None:
    """Stop where most rows lack targets, or begin or end as the model does not know it; where some do, say so."""
    from gradscore.doctor.finding import refuse_failures
    from gradscore.doctor.rows import prompt_findings, target_check
    from gradscore.doctor.tokens import token_findings

    prompts = prompt_findings(counts, encoder)
    findings = (target_check(counts), *prompts, *token_findings(rows, encoder, config.data.truncate))
    refuse_failures(findings)
    for finding in findings:
        if finding.verdict == "warn":
            reporter.message(f"Warning: {finding.finding}. {finding.advice}")


def _require_options(config: RunConfig, *, output: bool) -> None:
    """Raise unless model, dataset and, if wanted, output are given; all that is missing is listed."""
    mistakes: list[str] = []
    has_model, has_dataset = config.model.model is not None, config.data.dataset is not None
    require(mistakes, has_model, "No model was given. Pass --model with a path or a Hub name.")
    require(mistakes, has_dataset, "No dataset was given. Pass --dataset with a file or Hub name.")
    has_output = not output or config.table.output is not None
    require(mistakes, has_output, "No output was given. Pass --output, such as scores.parquet.")
    raise_if_any(mistakes)


def _score_outcome(
    table: Path, run: RunFolder, n_scored: int, seconds: float, scoring_seconds: float
) -> ScoreOutcome:

    finished = read_table(table, lists=False)
    summary: dict[str, Any] = {
        "engine": finished.metadata["gradients"]["engine"],
        "views": len(finished.metadata["views"]),
    }
    if finished.metadata["noise_floor"] is not None:
        summary["noise_floor_of_gsnr"] = finished.metadata["noise_floor"]
    for name in ("gsnr", "loss", "grad_norm"):
        values = finished.numbers(name)
        values = values[np.isfinite(values)]
        if len(values):
            summary[f"{name}_quartiles"] = tuple(np.quantile(values, [0.25, 0.5, 0.75]).tolist())
    noise = order_noise(finished)
    if noise is not None:
        summary["gsnr_error"] = noise.error
        if noise.reliability is not None:
            summary["gsnr_reliability"] = noise.reliability
    advice = read_advice(finished)
    return ScoreOutcome(
        table=str(table),
        run_folder=str(run.path),
        n_rows=len(finished),
        status_counts=dict(Counter(finished.texts("status").tolist())),
        seconds=seconds,
        n_scored=n_scored,
        rows_per_second=n_scored / scoring_seconds if scoring_seconds > 0 else 0.0,
        summary=summary,
        warning=None if noise is None else noise.warning,
        advised_by=None if advice is None else advice.column,
    )
