"""Everything that has to be in place before the first row is scored: parameters, engine, views, check, scales."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradscore.config import RunConfig
from gradscore.data.batch import collate
from gradscore.gradients.calibrate import layer_scales
from gradscore.gradients.check import HALF_TOLERANCE, N_ROWS, CheckResult, self_check
from gradscore.gradients.choose import choose_engine, choose_reduction
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.sketch import CountSketch
from gradscore.measures import parse_measures, sketch_length
from gradscore.model.adapter import attach_adapter
from gradscore.model.forward import base_model
from gradscore.model.load import position_boundary
from gradscore.model.trunk import Trunk, shared_trunk
from gradscore.model.views import ViewSwitch, adapter_tensors
from gradscore.records import EncodedRow, Reporter, SilentReporter
from gradscore.run.make_measuring import Basis, make_measuring, settle_measures
from gradscore.run.make_views import make_views, needs_adapter
from gradscore.run.opening import Opened
from gradscore.scores.sweep import Sweep
from gradscore.table.aside import written_aside
from gradscore.table.run import RunFolder

MAX_BATCH_TOKENS = {"cpu": 1024, "cuda": 8192}


def prepare(
    config: RunConfig,
    opened: Opened,
    training_rows: list[EncodedRow],
    run: RunFolder,
    reporter: Reporter,
    detailed: frozenset[str] = frozenset(),
) -> tuple[Sweep, CheckResult | None]:
    """Choose counted parameters and engine, make the views, check the engine, calibrate the layers."""
    seed, loaded = config.data.seed, opened.loaded
    adapted = needs_adapter(config)
    model: Any = attach_adapter(loaded, config.model, seed, reporter) if adapted else loaded.model
    max_tokens = config.gradients.max_batch_tokens or MAX_BATCH_TOKENS.get(
        loaded.device.type, MAX_BATCH_TOKENS["cpu"]
    )
    # Parameters, engine and measures come before the warm-up, so that a mistake in them does not cost its time.
    parameters = counted_parameters(model, config.gradients.parameters)
    reduction = choose_reduction(config.gradients, parameters, seed)
    engine = choose_engine(model, parameters, config.gradients, reduction, reporter)
    frame = opened.encoder.answer_frame()
    settle_measures(Basis(model, engine, frame, config), reporter)
    trunk = _trunk(config, model, engine, training_rows, run, loaded.pad_id, reporter)
    views = make_views(config, model, training_rows, run, loaded.pad_id, max_tokens, trunk, reporter)
    model.requires_grad_(False)
    sketch_size = sketch_length(config.scores.sketch, parse_measures(config.scores.measures))
    sweep = Sweep(
        model=model,
        engine=engine,
        switch=ViewSwitch(model, views),
        views=tuple(views),
        parameters=parameters,
        reduction=reduction,
        scores=config.scores,
        source=opened.source.record.dataset,
        pad_id=loaded.pad_id,
        max_batch_tokens=max_tokens,
        clip=config.gradients.clip,
        dropout=config.model.dropout,
        sketch=CountSketch(sketch_size, seed) if sketch_size else None,
        trunk=trunk,
        detailed=detailed,
    )
    check = _check(config, sweep, training_rows, reporter) if config.gradients.check else None
    if config.gradients.layer_normalise:
        scales = _layer_scales(config, sweep, training_rows, run)
        reduction = replace(reduction, scales=scales)
        engine = choose_engine(model, parameters, config.gradients, reduction, SilentReporter())
        sweep = replace(sweep, engine=engine, reduction=reduction)
    return replace(sweep, measuring=make_measuring(config, sweep, loaded, frame)), check


def _trunk(
    config: RunConfig,
    model: Any,
    engine: GradientEngine,
    rows: list[EncodedRow],
    run: RunFolder,
    pad_id: int,
    reporter: Reporter,
) -> Trunk | None:
    """Return the layers that all views share. The other engines are yardsticks, and always run the whole model."""
    changing = {*(p.name for p in engine.parameters), *adapter_tensors(model)}
    views_share_weights = config.model.view_source != "dropout" and (
        config.model.checkpoints is None or needs_adapter(config)
    )
    if engine.name != "hooks" or not views_share_weights:
        return None
    short = sorted(rows, key=lambda row: row.n_tokens)[:2]
    probe = collate(short, pad_id, next(model.parameters()).device)
    folder = run.path / "trunk" if config.model.cache_trunk else None
    return shared_trunk(model, changing, probe, reporter, folder)


def _check(config: RunConfig, sweep: Sweep, rows: list[EncodedRow], reporter: Reporter) -> CheckResult:
    """Hold the engine against plain autograd under the newest view, on rows of every length."""
    with sweep.switch:
        sweep.switch.activate(sweep.views[-1])
        check = self_check(
            sweep.engine,
            sweep.model,
            sweep.parameters,
            sweep.reduction,
            config.gradients.reduction,
            sweep.collate(rows_to_check(sweep, rows)),
        )
    counted = sum(parameter.numel for parameter in sweep.parameters)
    reporter.message(
        f"Engine {sweep.engine.name}: {counted:,} counted parameters, {check.coverage:.1%} of them receive a gradient; "
        f"largest error against plain autograd on {check.n_rows} rows {check.max_relative_error:.0e}"
    )
    if check.rounding is not None and check.rounding > HALF_TOLERANCE / 2:
        reporter.message(
            f"Warning: in {str(next(sweep.model.parameters()).dtype).removeprefix('torch.')} rounding alone changes the gradient of "
            f"one of these rows by {check.rounding:.0%}, and scores with it. --dtype float32 is exact."
        )
    if check.zero_parameters:
        reporter.message(
            f"Warning: {len(check.zero_parameters)} counted parameters get a gradient of exactly zero, such as "
            f"{check.zero_parameters[0]}. On an adapter without warm-up B is zero, and so is the gradient of every A."
        )
    return check


def rows_to_check(sweep: Sweep, rows: Sequence[EncodedRow]) -> list[EncodedRow]:
    """Return a few rows of every length up to the median that can go through the model as one batch."""
    boundary = position_boundary(base_model(sweep.model).config)
    short = [row for row in rows if boundary is None or row.n_tokens <= boundary]
    rows = short or list(rows)  # checked as one batch, which must not cross the boundary
    by_length = sorted(rows, key=lambda row: row.n_tokens)
    # The longest rows are left out: a check must stay short, and the median row is as good a witness.
    places = sorted({round(i * (len(rows) - 1) / 2 / max(1, N_ROWS - 1)) for i in range(N_ROWS)})
    return [by_length[place] for place in places]


def _layer_scales(
    config: RunConfig, sweep: Sweep, rows: list[EncodedRow], run: RunFolder
) -> dict[str, float]:
    """Return the layer scales, from the run folder if they are there, else from calibration rows under all views."""
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
