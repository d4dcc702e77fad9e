"""The model in the examination room: every check that needs its gradients, then what the run will cost."""

import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradscore.config import RunConfig
from gradscore.doctor.estimate import estimate, views_of_run
from gradscore.doctor.finding import Finding, failures_of
from gradscore.doctor.gradients import (
    coverage_check,
    determinism_check,
    engine_check,
    finite_check,
    padding_check,
    weights_check,
    zero_check,
)
from gradscore.doctor.measure import measure
from gradscore.doctor.outlook import outlook_findings
from gradscore.doctor.past import past_runs
from gradscore.doctor.probe import filled_adapter, prepare_in_small
from gradscore.doctor.rows import RowPass
from gradscore.errors import CheckFailedError, DatasetError
from gradscore.model.folds import rows_of_members
from gradscore.records import EncodedRow, Reporter
from gradscore.run.opening import Opened
from gradscore.run.prepare import rows_to_check
from gradscore.scores.sweep import Sweep


def examine_model(
    config: RunConfig, rows: RowPass, opened: Opened, reporter: Reporter
) -> tuple[list[Finding], dict[str, Any]]:
    """Return the lines about gradients and cost, and the numbers of the estimate; `opened.loaded.model` gets its adapter.

    A run that would end in the warm-up is a finding, and what comes after it is left out.

    Raises:
        GradscoreError: options that the real run would refuse too.
    """
    loaded = opened.loaded
    findings = [weights_check(loaded.model)]
    if not rows.kept:
        return [*findings, Finding("gradients", "fail", "not examined: no row can be scored")], {}
    with tempfile.TemporaryDirectory(prefix="gradscore-doctor-") as folder:
        reporter.message("Two steps of warm-up, in a folder of their own")
        try:
            rows_of_members(rows.kept, config.model)  # the run in small has no folds that could be empty
            sweep, run = prepare_in_small(config, rows.kept, opened, Path(folder))
        except (CheckFailedError, DatasetError) as error:
            return [*findings, Finding("gradients", "fail", f"not examined: {error}")], {}
        reporter.message("Gradients of a few rows")
        checked = rows_to_check(sweep, rows.kept)
        with filled_adapter(sweep.model, config.data.seed) as filled:
            checks, check_seconds = _check_gradients(sweep, config, checked, filled)
        findings += checks
        if failures_of(findings):
            return [
                *findings,
                Finding("time", "warn", "not estimated, since a check failed", "Repair it first."),
            ], {}
        reporter.message("Time of some batches")
        views = views_of_run(config.model, sweep)
        cost = measure(sweep, views, rows.kept, run.views)
    found = estimate(config, rows, sweep, views, cost, check_seconds)
    past = past_runs(config, loaded, sweep, cost)
    numbers = {**asdict(found), "seconds": found.seconds, "past_runs": [asdict(run) for run in past]}
    return [*findings, *outlook_findings(config, found, cost, past, loaded.device)], numbers


def _check_gradients(
    sweep: Sweep, config: RunConfig, rows: list[EncodedRow], filled: tuple[str, ...]
) -> tuple[list[Finding], float]:
    """Return the lines about gradients, and the seconds of the check that the run will repeat.

    `filled` names the adapter tensors that are zero where the run begins, and are not now.
    """
    findings = [finite_check(sweep, rows)]
    started = time.monotonic()
    engine, result = engine_check(sweep, config, rows)
    seconds = time.monotonic() - started
    findings.append(engine)
    if result is not None:
        findings += [coverage_check(result, len(sweep.parameters)), zero_check(config, filled)]
    return [*findings, padding_check(sweep, rows), determinism_check(sweep, rows)], seconds
