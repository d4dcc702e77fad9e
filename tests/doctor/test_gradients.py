"""Tests doctor/gradients.py and doctor/probe.py: a right engine passes every line, and each fault fails its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradscore.config import RunConfig
from gradscore.data.batch import Batch
from gradscore.doctor.finding import Finding
from gradscore.doctor.gradients import (
    coverage_check,
    determinism_check,
    engine_check,
    finite_check,
    padding_check,
    weights_check,
    zero_check,
)
from gradscore.doctor.probe import filled_adapter
from gradscore.gradients.check import CheckResult
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.model.adapter import lora_tensors
from gradscore.records import EncodedRow
from gradscore.run.prepare import rows_to_check
from gradscore.scores.sweep import Sweep
from tests.doctor.cases import small_sweep

Change = Callable[[SampleGradients, Batch, int], SampleGradients]


class Tampered(GradientEngine):
    """Another engine's gradients, changed by what the batch is and how often it was asked."""

    name = "tampered"

    def __init__(self, engine: GradientEngine, change: Change) -> None:
        self.engine, self.change, self.calls = engine, change, 0

    def gradients(self, batch: Batch) -> SampleGradients:
        self.calls += 1
        return self.change(self.engine.gradients(batch), batch, self.calls)


def scaled(gradients: SampleGradients, factor: float) -> SampleGradients:
    """Return all gradients and losses times a factor."""
    return replace(
        gradients,
        losses=gradients.losses * factor,
        norms_squared=gradients.norms_squared * factor**2,
        vectors=tuple(vector * factor for vector in gradients.vectors),
    )


@pytest.fixture(scope="module")
def small(model: Path, dataset: Path) -> Iterator[tuple[RunConfig, Sweep, list[EncodedRow]]]:
    with small_sweep(model=model, dataset=dataset) as (config, sweep, rows, _):
        yield config, sweep, rows_to_check(sweep, rows.kept)


def tampered(sweep: Sweep, change: Change) -> Sweep:
    """Return the sweep with an engine whose gradients are changed."""
    return replace(sweep, engine=Tampered(sweep.engine, change))


def test_a_right_engine_passes_every_line(small: tuple[RunConfig, Sweep, list[EncodedRow]]) -> None:
    config, sweep, rows = small
    with filled_adapter(sweep.model, 0):
        engine, result = engine_check(sweep, config, rows)
        lines = [
            finite_check(sweep, rows),
            engine,
            padding_check(sweep, rows),
            determinism_check(sweep, rows),
        ]
    assert [line.verdict for line in lines] == ["pass"] * 4
    assert result is not None
    assert coverage_check(result, len(sweep.parameters)).verdict == "pass"
    assert "hooks agrees with plain autograd on 4 rows" in engine.finding


def test_an_engine_that_is_wrong_about_a_alone_is_caught(
    small: tuple[RunConfig, Sweep, list[EncodedRow]],
) -> None:
    config, sweep, rows = small
    places = [i for i, p in enumerate(sweep.parameters) if "lora_A" in p.name]

    def without_a(gradients: SampleGradients, batch: Batch, call: int) -> SampleGradients:
        vectors = tuple(v * (i not in places) for i, v in enumerate(gradients.vectors))
        norms = gradients.norms_squared.clone()
        norms[:, places] = 0
        return replace(gradients, vectors=vectors, norms_squared=norms)

    wrong = tampered(sweep, without_a)
    # Before a warm-up the gradient of A is zero by construction, so that nothing would be seen.
    assert engine_check(wrong, config, rows)[0].verdict == "pass"
    with filled_adapter(sweep.model, 0):
        line, result = engine_check(wrong, config, rows)
    assert (line.verdict, result) == ("fail", None)
    assert "disagrees with plain autograd" in line.finding


def test_the_fill_makes_the_gradients_of_a_and_b_alike_and_is_undone(
    small: tuple[RunConfig, Sweep, list[EncodedRow]],
) -> None:
    _, sweep, rows = small
    before = {name: tensor.detach().clone() for name, tensor in lora_tensors(sweep.model).items()}
    with filled_adapter(sweep.model, 0) as filled:
        assert set(filled) == {name for name in before if ".lora_B." in name}
        norms = sweep.engine.gradients(sweep.collate(rows)).norms_squared.sum(0).sqrt()
    is_a = torch.tensor(["lora_A" in p.name for p in sweep.parameters])
    assert 0.01 < float(norms[is_a].square().sum().sqrt() / norms[~is_a].square().sum().sqrt()) < 100
    assert all(torch.equal(before[name], tensor) for name, tensor in lora_tensors(sweep.model).items())


def test_padding_that_leaks_fails(small: tuple[RunConfig, Sweep, list[EncodedRow]]) -> None:
    _, sweep, rows = small
    line = padding_check(tampered(sweep, lambda g, batch, _: scaled(g, 1 + 0.01 * (len(batch) > 1))), rows)
    assert line.verdict == "fail"
    assert "loss differs by 0.01, gradient norm by 0.01" in line.finding
    assert "--max-batch-tokens 1" in line.advice


def test_padding_that_gives_nan_fails(small: tuple[RunConfig, Sweep, list[EncodedRow]]) -> None:
    _, sweep, rows = small
    line = padding_check(tampered(sweep, lambda g, batch, _: scaled(g, float("nan"))), rows)
    assert line.verdict == "fail"


def test_other_bits_the_second_time_are_a_warning(small: tuple[RunConfig, Sweep, list[EncodedRow]]) -> None:
    _, sweep, rows = small
    line = determinism_check(tampered(sweep, lambda g, _, call: scaled(g, 1 + 1e-5 * call)), rows)
    assert line.verdict == "warn"
    assert "differ by 1e-05 the second time" in line.finding


@pytest.mark.parametrize(("n_broken", "verdict"), [(1, "warn"), (3, "fail")])
def test_rows_that_are_not_finite(
    small: tuple[RunConfig, Sweep, list[EncodedRow]], n_broken: int, verdict: str
) -> None:
    _, sweep, rows = small

    def broken(gradients: SampleGradients, batch: Batch, call: int) -> SampleGradients:
        losses = gradients.losses.clone()
        losses[:n_broken] = float("inf")
        return replace(gradients, losses=losses)

    line = finite_check(tampered(sweep, broken), rows)
    assert line.verdict == verdict
    assert line.finding == f"loss or gradient of {n_broken} of 4 rows is NaN or infinite"


def test_weights_that_are_not_finite_are_named() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    assert weights_check(layer).verdict == "pass"
    with torch.no_grad():
        layer[1].weight[0, 0] = float("nan")
    assert weights_check(layer) == Finding(
        "weights",
        "fail",
        "1 weights hold NaN or infinity: 1.weight",
        "Load the model again from its source; for float16 try --dtype bfloat16 or float32.",
    )


@pytest.mark.parametrize(("coverage", "verdict"), [(0.9, "warn"), (0.058, "fail")])
def test_parameters_that_nothing_comes_to_are_named(coverage: float, verdict: str) -> None:
    zero = ("experts.0", "experts.1", "experts.2", "experts.3")
    line = coverage_check(CheckResult(4, 0.0, 1e-3, coverage, zero), 9)
    assert line.verdict == verdict
    assert line.finding.endswith("nothing comes to experts.0, experts.1, experts.2 and 1 more")
    assert f"{coverage * 100:.1f} % of what 9 counted parameters hold" in line.finding


def test_a_fresh_adapter_that_stays_fresh_is_a_warning() -> None:
    from tests.pipeline.runs import score_config

    warmed, single = score_config(), score_config(view_source="single")
    assert zero_check(warmed, ("a.lora_B",)).verdict == "pass"
    assert zero_check(single, ()).verdict == "pass"
    line = zero_check(single, ("a.lora_B", "b.lora_B"))
    assert line.verdict == "warn"
    assert line.finding.startswith("2 adapter tensors (B) are 0 and stay so in this run")


def test_shared_lower_layers_are_examined_too(model: Path, dataset: Path) -> None:
    with small_sweep(model=model, dataset=dataset, lora_layers="last:1") as (config, sweep, rows, _):
        checked = rows_to_check(sweep, rows.kept)
        with filled_adapter(sweep.model, 0):
            line, _ = engine_check(sweep, config, checked)
            assert padding_check(sweep, checked).verdict == "pass"
    assert line.verdict == "pass"
    assert line.finding.endswith("with layers 0 to 0 run once for all views")


def test_the_slow_engine_by_default_is_a_warning(small: tuple[RunConfig, Sweep, list[EncodedRow]]) -> None:
    config, sweep, rows = small
    sweep.engine.name, name = "loop", sweep.engine.name
    try:
        line, _ = engine_check(sweep, config, rows)
    finally:
        sweep.engine.name = name
    assert line.verdict == "warn"
    assert "twice the time" in line.advice
