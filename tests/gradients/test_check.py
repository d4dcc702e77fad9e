"""Tests gradscore.gradients.check: an engine that is wrong in any way is caught, one that is right passes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from gradscore.data.batch import Batch, collate
from gradscore.errors import CheckFailedError
from gradscore.gradients.check import HALF_TOLERANCE, TOLERANCE, CheckResult, PaddedLoop, self_check
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from gradscore.records import EncodedRow
from tests import cases

Change = Callable[[SampleGradients], SampleGradients]


class ChangedEngine(GradientEngine):
    """Another engine's gradients, changed."""

    name = "changed"

    def __init__(self, engine: GradientEngine, change: Change) -> None:
        self.engine, self.change = engine, change

    def gradients(self, batch: Batch) -> SampleGradients:
        return self.change(self.engine.gradients(batch))


def check(
    model: nn.Module,
    words: str = "lora",
    reduction: Reduction | None = None,
    *,
    engine: type[GradientEngine] = HooksEngine,
    change: Change = lambda gradients: gradients,
    rows: list[EncodedRow] | None = None,
) -> CheckResult:
    """Return the self-check of an engine's changed gradients."""
    parameters = counted_parameters(model, words)
    reduction = reduction or Reduction()
    changed = ChangedEngine(engine(model, parameters, reduction), change)
    return self_check(changed, model, parameters, reduction, "mean", collate(rows or cases.rows(), pad_id=0))


@pytest.fixture
def model() -> nn.Module:
    return cases.with_lora(cases.architecture("llama"))


@pytest.mark.parametrize("engine", [HooksEngine, VmapEngine, LoopEngine])
def test_a_right_engine_passes(model: nn.Module, engine: type[GradientEngine]) -> None:
    result = check(model, engine=engine)
    assert result.n_rows == 4
    assert result.max_relative_error <= 1e-9
    assert result.tolerance == TOLERANCE[torch.float64]
    assert result.coverage == 1.0
    assert result.zero_parameters == ()


def test_projected_gradients_are_checked_too() -> None:
    model = cases.architecture("llama")
    reduction = Reduction(Projections(side=3))
    assert check(model, "linear", reduction).max_relative_error <= 1e-8
    with pytest.raises(CheckFailedError):
        check(model, "linear", reduction, change=on_row(1, 1.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tolerance_follows_the_model_and_is_met(dtype: torch.dtype) -> None:
    result = check(cases.with_lora(cases.architecture("llama", dtype=dtype)))
    if dtype in TOLERANCE:
        assert (result.tolerance, result.rounding) == (TOLERANCE[dtype], None)
    else:
        assert result.rounding is not None
        assert 0 <= result.rounding < 0.1
        assert result.tolerance == max(HALF_TOLERANCE, 3 * result.rounding)
    assert 0 < result.max_relative_error <= result.tolerance


def on_row(row: int, factor: float) -> Change:
    """Return a change that multiplies one row's gradient."""

    def change(gradients: SampleGradients) -> SampleGradients:
        scale = torch.ones(len(gradients.losses), 1, dtype=torch.float64)
        scale[row] = factor
        vectors = tuple(vector * scale for vector in gradients.vectors)
        return replace(gradients, vectors=vectors, norms_squared=gradients.norms_squared * scale**2)

    return change


def swapped(gradients: SampleGradients) -> SampleGradients:
    """Return the gradients with two rows exchanged, losses left in place."""
    order = torch.tensor([0, 2, 1, 3])
    return replace(
        gradients,
        vectors=tuple(v[order] for v in gradients.vectors),
        norms_squared=gradients.norms_squared[order],
    )


def without_last(gradients: SampleGradients) -> SampleGradients:
    """Return the gradients with one parameter's left out as zero."""
    norms = gradients.norms_squared.clone()
    norms[:, -1] = 0
    return replace(
        gradients, vectors=(*gradients.vectors[:-1], gradients.vectors[-1] * 0), norms_squared=norms
    )


WRONG: dict[str, Change] = {
    "one row scaled": on_row(2, 1.00001),
    "one row negative": on_row(0, -1.0),
    "one row zero": on_row(3, 0.0),
    "one row NaN": on_row(1, float("nan")),
    "one row inf": on_row(1, float("inf")),
    "rows swapped": swapped,
    "one parameter left out": without_last,
    "norms alone": lambda g: replace(g, norms_squared=g.norms_squared * 1.01),
    "losses alone": lambda g: replace(g, losses=g.losses + 0.01),
    "NaN loss beside right gradients": lambda g: replace(g, losses=g.losses * float("nan")),
    "NaN norms beside right gradients": lambda g: replace(g, norms_squared=g.norms_squared * float("nan")),
}


@pytest.mark.parametrize("engine", [HooksEngine, LoopEngine])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_engine_is_caught(model: nn.Module, what: str, engine: type[GradientEngine]) -> None:
    with pytest.raises(CheckFailedError) as error:
        check(model, engine=engine, change=WRONG[what])
    assert str(error.value).startswith("The changed engine disagrees with plain autograd: relative error ")
    assert str(error.value).endswith(
        "on 4 rows, more than 1e-06. Use --engine loop, and please report the model."
    )


def test_a_fresh_adapter_has_no_gradient_on_any_a() -> None:
    model = get_peft_model(
        cases.architecture("llama"),
        LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM", r=4),
        autocast_adapter_dtype=False,
    )
    result = check(model.eval())
    every_a = [p for p in counted_parameters(model, "lora") if ".lora_A." in p.name]
    every_b = [p for p in counted_parameters(model, "lora") if ".lora_B." in p.name]
    assert result.zero_parameters == tuple(p.name for p in every_a)
    n_a, n_b = (sum(p.numel for p in ps) for ps in (every_a, every_b))
    assert result.coverage == pytest.approx(n_b / (n_a + n_b))


class Late(nn.Module):
    """An FFN with a linear layer that only tokens from the eleventh on pass through."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.late = inner, nn.Linear(16, 16, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.cat([x[:, :10], self.late(x[:, 10:])], 1))


def test_a_gradient_on_one_row_is_enough_to_be_covered() -> None:
    model = cases.architecture("llama")
    model.model.layers[0].mlp = Late(model.model.layers[0].mlp)
    assert [row.n_tokens > 10 for row in cases.rows()].count(True) == 1
    assert check(model, "late", engine=LoopEngine).coverage == 1.0


def test_nothing_receives_a_gradient(model: nn.Module) -> None:
    model.add_adapter("idle", LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with pytest.raises(CheckFailedError) as error:
        check(model, r"lora_.\.idle", engine=LoopEngine)
    text = str(error.value)
    assert text.startswith("None of the 4 counted parameters received a gradient on 4 rows, among them base_")
    assert (
        "Choose other --parameters; after a warm-up, a lower --learning-rate may be what is missing." in text
    )


def poisoned(model: nn.Module, token: int) -> nn.Module:
    model.get_input_embeddings().weight.data[token] = float("nan")
    return model


def test_a_row_that_is_not_finite_is_left_out_and_the_others_still_checked(model: nn.Module) -> None:
    rows = cases.rows()
    others = {int(i) for row in rows[1:] for i in row.input_ids}
    token = next(int(i) for i in rows[0].input_ids if int(i) not in others)
    result = check(poisoned(model, token), rows=rows)
    assert result.n_rows == 3
    assert result.max_relative_error <= 1e-9
    with pytest.raises(CheckFailedError, match="disagrees with plain autograd"):
        check(model, rows=rows, change=on_row(2, 1.1))


def test_no_row_is_finite(model: nn.Module) -> None:
    for parameter in model.get_input_embeddings().parameters():
        parameter.data[:] = float("nan")
    with pytest.raises(CheckFailedError) as error:
        check(model)
    assert str(error.value).startswith("The model gives no finite gradient: on all 4 rows of the self-check")
    assert "Try --dtype float32" in str(error.value)


def test_one_row_is_enough(model: nn.Module) -> None:
    assert check(model, rows=cases.rows((6,))).n_rows == 1


@pytest.mark.parametrize("name", cases.ARCHITECTURES)
def test_padding_behind_a_row_changes_nothing_but_rounding(name: str) -> None:
    # Eager attention gives NaN for some masks in float64 (tests/model/test_forward.py), so this is held in float32.
    model = cases.with_lora(cases.architecture(name, dtype=torch.float32))
    parameters, batch = counted_parameters(model, "lora"), cases.batch()
    plain, padded = (
        engine(model, parameters, Reduction()).gradients(batch) for engine in (LoopEngine, PaddedLoop)
    )
    torch.testing.assert_close(padded.losses, plain.losses, rtol=1e-4, atol=0)
    for found, expected in zip(padded.vectors, plain.vectors, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_half_precision_is_allowed_what_rounding_explains(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cases.with_lora(cases.architecture("llama", dtype=torch.bfloat16))
    wrong = on_row(2, 1.2)
    with pytest.raises(CheckFailedError, match="disagrees with plain autograd"):
        check(model, change=wrong)

    class Rough(LoopEngine):
        """Plain autograd whose rounding moves one row by a tenth."""

        def gradients(self, batch: Batch) -> SampleGradients:
            return on_row(1, 1.1)(super().gradients(batch))

    monkeypatch.setattr("gradscore.gradients.check.PaddedLoop", Rough)
    result = check(model, change=wrong)
    assert result.rounding == pytest.approx(0.1, abs=0.01)
    assert 0.15 < result.max_relative_error < result.tolerance == 3 * result.rounding
