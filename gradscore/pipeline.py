"""The whole line in order: rows, data, model, gradients, scores, table; then filter and emit.

The only file that joins stages. Stages that need torch are imported inside the functions that use them, so that
filtering a finished table starts in under a second.
"""

import hashlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscore import __version__
from gradscore.config import DataConfig, ModelConfig, RunConfig, raise_if_any, require, to_mapping
from gradscore.errors import DatasetError
from gradscore.records import OK, EncodedRow, Reporter, Row, SilentReporter

if TYPE_CHECKING:
    from gradscore.data.encode import Encoder
    from gradscore.data.preview import Preview
    from gradscore.data.read import RowSource
    from gradscore.gradients.check import CheckResult
    from gradscore.model.load import LoadedModel
    from gradscore.model.views import View
    from gradscore.scores.sweep import Sweep
    from gradscore.table.run import RunFolder

ROWS_PER_WINDOW = 4096
"""Rows that are tokenised and sorted by length together; padding is a few per cent within so many."""

DEFAULT_MAX_LENGTH = 2048
MAX_BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}


@dataclass(frozen=True)
class ScoreOutcome:
    """What a scoring run did."""

    table: str
    run_folder: str
    n_rows: int
    status_counts: dict[str, int]
    seconds: float
    """Of this process, warm-up and checks included."""
    rows_per_second: float
    """Rows scored by this process over the seconds of its scoring pass."""
    summary: dict[str, Any]
    """What a person should know before trusting the table: engine, coverage, noise floor, quartiles of gsnr."""


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


def score_dataset(config: RunConfig, reporter: Reporter | None = None) -> ScoreOutcome:
    """Return the outcome of scoring a dataset into a table at `config.table.output`.

    An interrupted run of the same configuration is continued.

    Raises:
        GradscoreError: one of its subclasses; see the stages.
    """
    from gradscore.table.parts import PartWriter
    from gradscore.table.run import RunFolder, require_free

    reporter = reporter or SilentReporter()
    _require_options(config)
    require_free(str(config.table.output), config.table.overwrite)
    started = time.monotonic()
    # 1. Open the data and the model, fix everything that was left to be chosen, and read all rows once.
    source, encoder, loaded = _open(config, reporter)
    training_rows, data_fingerprint = _survey(config, source, encoder)
    identity = _identity(config, source, loaded, data_fingerprint)
    run = RunFolder.open(
        str(config.table.output),
        identity,
        # Replaying a saved configuration must not replace a finished table unasked.
        config_mapping=to_mapping(replace(config, table=replace(config.table, overwrite=False))),
        overwrite=config.table.overwrite,
        resume=config.table.resume,
    )
    parts = PartWriter(run, reporter, part_seconds=config.table.part_seconds)
    # 2. Choose the engine, make the views, and hold the engine against plain autograd.
    sweep, check = _prepare(config, source, training_rows, loaded, run, reporter)
    # 3. Score every row that is not on disk yet.
    scoring_started = time.monotonic()
    expected, n_scored = _sweep_rows(config, source, encoder, sweep, parts, reporter)
    scoring_seconds = time.monotonic() - scoring_started
    # 4. Join the parts into the table.
    metadata = _metadata(config, source, loaded, sweep, check, identity, encoder.renderer.description)
    metadata["timing"] = {
        "seconds": time.monotonic() - started,
        "scoring_seconds": scoring_seconds,
        "rows_scored": n_scored,
    }
    table = parts.finish(metadata, expected)
    return _score_outcome(table, run, n_scored, time.monotonic() - started, scoring_seconds)


def filter_dataset(config: RunConfig, reporter: Reporter | None = None) -> FilterOutcome:
    """Return the outcome of writing the kept rows of a scored dataset to `config.emit.output`.

    Raises:
        GradscoreError: one of its subclasses; see the stages filter and emit.
    """
    from gradscore.emit.dataset import emit
    from gradscore.emit.outputs import plan_outputs
    from gradscore.emit.source import read_categories, reopen_source
    from gradscore.filter.decide import decide
    from gradscore.table.read import read_table

    reporter = reporter or SilentReporter()
    raise_if_any([] if config.filter.table else ["No score table was given. Pass the path of one."])
    table = read_table(str(config.filter.table), lists=False)
    outputs = plan_outputs(config.emit, table.source)
    source = reopen_source(table, config.emit.dataset)
    field = config.filter.category_field
    categories = read_categories(source, table, field) if field else None
    decisions = decide(table, config.filter, categories)
    summary = emit(table, decisions, source, outputs, config=to_mapping(config), reporter=reporter)
    return FilterOutcome(
        output=str(outputs.kept),
        manifest=str(outputs.manifest),
        dropped=str(outputs.dropped),
        n_rows=summary.n_kept + summary.n_dropped,
        n_kept=summary.n_kept,
        reason_counts=dict(summary.reasons),
        messages=[*summary.messages, *summary.warnings],
    )


def preview_dataset(config: RunConfig, n_rows: int, reporter: Reporter | None = None) -> "Preview":
    """Return the first rows as text with their target tokens, and counts over all chosen rows."""
    from gradscore.data.preview import preview
    from gradscore.data.read import read_rows

    source, encoder = _open_text(config, reporter or SilentReporter())
    return preview(read_rows(source, config.data), encoder, n_rows)


def preview_json(config: RunConfig, reporter: Reporter | None = None) -> Iterator[dict[str, Any]]:
    """Yield each row's key, tokens and target mask, so that anyone can recompute its scores."""
    from gradscore.data.preview import to_json
    from gradscore.data.read import read_rows

    source, encoder = _open_text(config, reporter or SilentReporter())
    for row in read_rows(source, config.data):
        for encoded in encoder.encode(row):
            yield to_json(encoded)


def _require_options(config: RunConfig) -> None:
    mistakes: list[str] = []
    require(
        mistakes,
        config.model.model is not None,
        "No model was given. Pass --model with a path or a Hub name.",
    )
    require(
        mistakes,
        config.data.dataset is not None,
        "No dataset was given. Pass --dataset with a file or Hub name.",
    )
    require(
        mistakes,
        config.table.output is not None,
        "No output was given. Pass --output, such as scores.parquet.",
    )
    raise_if_any(mistakes)


def _open(config: RunConfig, reporter: Reporter) -> "tuple[RowSource, Encoder, LoadedModel]":
    """Open the dataset first, because that is quick and most mistakes are there; then the model."""
    from gradscore.data.encode import Encoder
    from gradscore.data.read import open_source
    from gradscore.data.schemas import recognise
    from gradscore.model.load import context_length, load_model

    source = open_source(config.data)
    schema = recognise(source.record.columns, config.data)
    # vmap has no batched rule for fused attention; the other engines take what the model has.
    loaded = load_model(config.model, "eager" if config.gradients.engine == "vmap" else None, reporter)
    limit = context_length(loaded.model)
    max_length = config.data.max_length or min(DEFAULT_MAX_LENGTH, limit or DEFAULT_MAX_LENGTH)
    if limit is not None and max_length > limit:
        raise_if_any(
            [f"--max-length {max_length} is more than the {limit} tokens that {loaded.name} can take."]
        )
    encoder = Encoder(loaded.tokenizer, config.data, max_length, schema)
    reporter.message(f"Data: {source.record.dataset}, {source.record.n_rows} rows, schema {schema.name}")
    reporter.message(f"Text: {encoder.renderer.summary}, at most {max_length} tokens")
    reporter.message(f"Model: {loaded.description}")
    return source, encoder, loaded


def _open_text(config: RunConfig, reporter: Reporter) -> "tuple[RowSource, Encoder]":
    """Open the dataset and what turns it into tokens, for `preview`."""
    mistakes: list[str] = []
    require(
        mistakes, config.model.model is not None, "No model was given. Pass --model; its tokenizer is needed."
    )
    require(
        mistakes,
        config.data.dataset is not None,
        "No dataset was given. Pass --dataset with a file or Hub name.",
    )
    raise_if_any(mistakes)
    source, encoder, _ = _open(config, reporter)
    return source, encoder


def _identity(
    config: RunConfig, source: "RowSource", loaded: "LoadedModel", data_fingerprint: str
) -> dict[str, Any]:
    """Return everything that changes numbers; a run with an equal identity can be continued."""
    mapping = to_mapping(config)
    for section, name in (("model", "device"), ("gradients", "max_batch_tokens"), ("gradients", "check")):
        del mapping[section][name]
    mapping["data"]["dataset"] = source.record.dataset
    return {
        **{section: mapping[section] for section in ("data", "model", "gradients", "scores")},
        "model_fingerprint": loaded.fingerprint,
        "adapter_fingerprints": _adapter_fingerprints(config.model),
        "chat_template_fingerprint": _fingerprint_of_file(config.data.chat_template),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "data_fingerprint": data_fingerprint,
        "n_source_rows": source.record.n_rows,
        "version": __version__,
    }


def _fingerprint_of_file(path: str | None) -> str | None:
    from gradscore.model.fingerprint import fingerprint_files

    return None if path is None else fingerprint_files([Path(path)])


def _adapter_fingerprints(config: ModelConfig) -> list[str]:
    from gradscore.model.checkpoints import checkpoint_views
    from gradscore.model.fingerprint import fingerprint_folder

    folders = [] if config.adapter is None else [config.adapter]
    if config.checkpoints is not None:
        folders += [str(view.path) for view in checkpoint_views(config.checkpoints)]
    return [fingerprint_folder(Path(folder)) if Path(folder).is_dir() else folder for folder in folders]


def _prepare(
    config: RunConfig,
    source: "RowSource",
    training_rows: list[EncodedRow],
    loaded: "LoadedModel",
    run: "RunFolder",
    reporter: Reporter,
) -> "tuple[Sweep, CheckResult | None]":
    """Choose counted parameters and engine, make the views, check the engine, calibrate the layers."""
    from gradscore.gradients.choose import choose_engine, choose_reduction
    from gradscore.gradients.parameters import counted_parameters
    from gradscore.gradients.sketch import CountSketch
    from gradscore.model.adapter import attach_adapter
    from gradscore.model.views import ViewSwitch
    from gradscore.scores.sweep import Sweep

    seed = config.data.seed
    adapted = _needs_adapter(config)
    model: Any = attach_adapter(loaded, config.model, seed, reporter) if adapted else loaded.model
    max_tokens = config.gradients.max_batch_tokens or MAX_BATCH_TOKENS.get(
        loaded.device.type, MAX_BATCH_TOKENS["cpu"]
    )
    # Parameters and engine come before the warm-up, so that a mistake in them does not cost its time.
    parameters = counted_parameters(model, config.gradients.parameters)
    reduction = choose_reduction(config.gradients, parameters, seed)
    engine = choose_engine(model, parameters, config.gradients, reduction, reporter)
    views = _make_views(config, model, training_rows, run, loaded.pad_id, max_tokens, reporter)
    model.requires_grad_(False)
    sweep = Sweep(
        model=model,
        engine=engine,
        switch=ViewSwitch(model, views),
        views=tuple(views),
        parameters=parameters,
        reduction=reduction,
        scores=config.scores,
        source=source.record.dataset,
        pad_id=loaded.pad_id,
        max_batch_tokens=max_tokens,
        clip=config.gradients.clip,
        dropout=config.model.dropout,
        sketch=CountSketch(config.scores.sketch, seed) if config.scores.sketch else None,
    )
    check = _check(config, sweep, training_rows, reporter) if config.gradients.check else None
    if config.gradients.layer_normalise:
        scales = _layer_scales(config, sweep, training_rows, run)
        reduction = replace(reduction, scales=scales)
        engine = choose_engine(model, parameters, config.gradients, reduction, SilentReporter())
        sweep = replace(sweep, engine=engine, reduction=reduction)
    return sweep, check


def _needs_adapter(config: RunConfig) -> bool:
    """Return whether the model gets an adapter: to be trained, to be loaded, or to be counted."""
    from gradscore.model.checkpoints import checkpoint_views

    if config.model.checkpoints is not None:
        return checkpoint_views(config.model.checkpoints)[0].kind == "adapter"
    return (
        config.model.view_source == "warmup"
        or config.model.adapter is not None
        or config.gradients.parameters == "lora"
    )


def _survey(config: RunConfig, source: "RowSource", encoder: "Encoder") -> tuple[list[EncodedRow], str]:
    """Return the rows that warm-up, self-check and calibration draw from, and a hash of all chosen rows' content.

    Both are the same for every shard. The former are all usable rows of a small dataset; of a large one as many
    as the longest warm-up can visit, at random.
    """
    from gradscore.data.read import read_rows
    from gradscore.data.select import choose
    from gradscore.model.warmup import plan_warmup

    data = replace(config.data, shard=None)
    choice = choose(source.record.n_rows, data)
    indices = [i for i in range(choice.last + 1) if choice.has(i)]
    longest = plan_warmup(len(indices), replace(config.model, members=1))
    wanted = max(longest.rows_trained, config.gradients.calibration_rows)
    if len(indices) > wanted:
        indices = random.Random(config.data.seed).sample(indices, wanted)
    trained = set(indices)
    content = hashlib.blake2b(digest_size=16)
    rows: list[EncodedRow] = []
    for row in read_rows(source, data):
        content.update(row.row_key.encode())
        if row.row_index in trained:
            rows += [e for e in encoder.encode(row) if e.status == OK and e.side != "rejected"]
    if not rows:
        raise DatasetError(
            f"None of {len(trained)} rows of {source.record.dataset} has a target token that can be scored. "
            "Look at them with `gradscore preview`."
        )
    return rows, f"blake2b:{content.hexdigest()}"


def _make_views(
    config: RunConfig,
    model: Any,
    rows: list[EncodedRow],
    run: "RunFolder",
    pad_id: int,
    max_tokens: int,
    reporter: Reporter,
) -> "list[View]":
    from gradscore.model.checkpoints import checkpoint_views
    from gradscore.model.dropout import dropout_views
    from gradscore.model.views import single_view, with_base, write_views
    from gradscore.model.warmup import train_views

    if config.model.view_source == "warmup":
        views = train_views(
            model,
            rows,
            config=config.model,
            seed=config.data.seed,
            folder=run.path,
            pad_id=pad_id,
            max_batch_tokens=max_tokens,
            reporter=reporter,
        )
    elif config.model.checkpoints is not None:
        views = checkpoint_views(config.model.checkpoints)
    elif config.model.view_source == "dropout":
        views = dropout_views(config.model.views, config.data.seed)
    else:
        views = [single_view()]
    if config.model.include_base and config.model.view_source != "single":
        views = with_base(views)
    write_views(run.path, views)
    if _views_per_member(views) < 2:
        reporter.message(
            "Warning: there is only one view, so gsnr will be empty; losses and norms are scored. "
            "For gsnr take two views or more, such as --view-source warmup --views 4."
        )
    return views


def _views_per_member(views: "Sequence[View]") -> int:
    return sum(view.member == views[0].member for view in views)


def _check(config: RunConfig, sweep: "Sweep", rows: list[EncodedRow], reporter: Reporter) -> "CheckResult":
    """Hold the engine against plain autograd under the newest view, on rows of every length."""
    from gradscore.gradients.check import N_ROWS, self_check

    by_length = sorted(rows, key=lambda row: row.n_tokens)
    # The longest rows are left out: a check must stay short, and the median row is as good a witness.
    places = sorted({round(i * (len(rows) - 1) / 2 / max(1, N_ROWS - 1)) for i in range(N_ROWS)})
    with sweep.switch:
        sweep.switch.activate(sweep.views[-1])
        check = self_check(
            sweep.engine,
            sweep.model,
            sweep.parameters,
            sweep.reduction,
            config.gradients.reduction,
            [by_length[place] for place in places],
            sweep.pad_id,
        )
    counted = sum(parameter.numel for parameter in sweep.parameters)
    reporter.message(
        f"Engine {sweep.engine.name}: {counted:,} counted parameters, {check.coverage:.1%} of them receive a gradient; "
        f"largest error against plain autograd on {check.n_rows} rows {check.max_relative_error:.0e}"
    )
    if check.zero_parameters:
        reporter.message(
            f"Warning: {len(check.zero_parameters)} counted parameters get a gradient of exactly zero, such as "
            f"{check.zero_parameters[0]}. On an adapter without warm-up B is zero, and so is the gradient of every A."
        )
    return check


def _layer_scales(
    config: RunConfig, sweep: "Sweep", rows: list[EncodedRow], run: "RunFolder"
) -> dict[str, float]:
    """Return the layer scales, from the run folder if they are there, else from calibration rows under all views."""
    import json

    from gradscore.gradients.calibrate import layer_scales
    from gradscore.table.aside import written_aside

    path = run.path / "layer_scales.json"
    if path.exists():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    n = min(config.gradients.calibration_rows, len(rows))
    sample = random.Random(config.data.seed).sample(rows, n)
    with sweep.switch:
        scales = layer_scales(sweep.gradients(sample), sweep.parameters)
    with written_aside(path, what="the layer scales", safe="Nothing was scored yet.") as aside:
        aside.write_text(json.dumps(scales, indent=1) + "\n", encoding="utf-8")
    return scales


def _sweep_rows(
    config: RunConfig,
    source: "RowSource",
    encoder: "Encoder",
    sweep: "Sweep",
    parts: Any,
    reporter: Reporter,
) -> tuple[list[tuple[int, str | None]], int]:
    """Score the chosen rows window by window; return the ids of all, and how many were scored now."""
    from gradscore.data.read import read_rows

    expected: list[tuple[int, str | None]] = []
    done = dict(parts.done())
    if done:
        reporter.message(f"Resuming: {len(done)} rows are on disk already")
    n_scored = 0
    reporter.start("scoring", _n_chosen(source, config.data) * len(encoder.sides) - len(done))
    try:
        with sweep.switch:
            for window in _windows(read_rows(source, config.data)):
                ids = [(row.row_index, side) for row in window for side in encoder.sides]
                expected += ids
                missing = {row_index for row_index, side in ids if (row_index, side) not in done}
                rows = [e for row in window if row.row_index in missing for e in encoder.encode(row)]
                for scored in sweep.score([row for row in rows if (row.row_index, row.side) not in done]):
                    parts.add(scored)
                    n_scored += len(scored)
                    reporter.advance(len(scored))
    finally:
        # Whatever stops the run, an interrupt included, the rows that are finished are kept.
        parts.flush()
        reporter.finish()
    return expected, n_scored


def _n_chosen(source: "RowSource", data: DataConfig) -> int:
    from gradscore.data.select import choose

    choice = choose(source.record.n_rows, data)
    return sum(choice.has(i) for i in range(choice.last + 1))


def _windows(rows: Iterator[Row]) -> Iterator[list[Row]]:
    window: list[Row] = []
    for row in rows:
        window.append(row)
        if len(window) == ROWS_PER_WINDOW:
            yield window
            window = []
    if window:
        yield window


def _metadata(
    config: RunConfig,
    source: "RowSource",
    loaded: "LoadedModel",
    sweep: "Sweep",
    check: "CheckResult | None",
    identity: dict[str, Any],
    rendering: str,
) -> dict[str, Any]:
    """Return the footer of the table: all that is needed to read, trust, repeat or continue it."""
    from gradscore.gradients.parameters import group_names
    from gradscore.scores.moments import gsnr_floor

    return {
        "config": to_mapping(config),
        "identity": identity,
        "shard": config.data.shard,
        "source": asdict(source.record),
        "model": {"name": loaded.name, "fingerprint": loaded.fingerprint, "description": loaded.description},
        "rendering": rendering,
        "views": [asdict(view) for view in sweep.views],
        "gradients": {
            "engine": sweep.engine.name,
            "n_parameters": len(sweep.parameters),
            "n_coordinates": sum(parameter.numel for parameter in sweep.parameters),
            "projection": sweep.reduction.projections.side,
            "check": None if check is None else asdict(check),
        },
        "noise_floor": gsnr_floor(_views_per_member(sweep.views), config.scores.momentum),
        "layer_names": list(group_names(sweep.parameters)),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("torch", "transformers", "peft", "datasets", "numpy", "pyarrow")
    return {"gradscore": __version__, **{name: version(name) for name in names}}


def _score_outcome(
    table: Path, run: "RunFolder", n_scored: int, seconds: float, scoring_seconds: float
) -> ScoreOutcome:
    from collections import Counter

    import numpy as np

    from gradscore.table.read import read_table

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
            summary[f"{name}_quartiles"] = ", ".join(
                f"{q:.3g}" for q in np.quantile(values, [0.25, 0.5, 0.75])
            )
    return ScoreOutcome(
        table=str(table),
        run_folder=str(run.path),
        n_rows=len(finished),
        status_counts=dict(Counter(finished.texts("status").tolist())),
        seconds=seconds,
        rows_per_second=n_scored / scoring_seconds if scoring_seconds > 0 else 0.0,
        summary=summary,
    )
