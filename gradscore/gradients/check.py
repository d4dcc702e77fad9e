"""The self-check before a run: the engine against plain autograd, on a few of the user's own rows.

Per-sample gradients have gone wrong in silence before (an adapter library and a per-sample library each right
alone, wrong together). A few rows cost seconds; the run that they vouch for costs hours.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradscore.data.batch import Batch
from gradscore.errors import CheckFailedError
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import CountedParameter
from gradscore.gradients.reduction import Reduction
from gradscore.model.forward import Reduction as LossReduction

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Largest relative error of a row's gradient."""

HALF_TOLERANCE = 0.1
"""The same for half precision, which differs by this much between batch shapes alone; more where that is measured."""

ROUNDINGS = 3.0
"""How many times the measured effect of rounding an engine may be away in half precision: it runs other kernels."""

PADDING = 8
"""Tokens of padding that must change nothing, and in half precision do."""

N_ROWS = 4


@dataclass(frozen=True)
class CheckResult:
    """What the self-check found."""

    n_rows: int
    """Rows compared: those whose gradient is finite."""
    max_relative_error: float
    """Largest over rows of ||engine - autograd|| / ||autograd||; of gradients, their norms and losses."""
    tolerance: float
    """Of `max_relative_error`; in half precision at least three times `rounding`."""
    coverage: float
    """Share of counted coordinates whose parameter received a gradient that is not exactly zero, in [0, 1]."""
    zero_parameters: tuple[str, ...]
    """Counted parameters whose gradient was exactly zero on all rows."""
    rounding: float | None = None
    """In half precision: how far plain autograd is from itself when the rows are padded, as `max_relative_error`."""


def self_check(
    engine: GradientEngine,
    model: nn.Module,
    parameters: tuple[CountedParameter, ...],
    reduction: Reduction,
    loss: LossReduction,
    batch: Batch,
) -> CheckResult:
    """Return how far the engine is from plain autograd on the rows of `batch`.

    A row whose gradient is not finite under plain autograd is left out of the comparison: the score table gives it
    a status of its own, and it must not stop the run.

    Raises:
        CheckFailedError: it is further away than rounding explains, nothing received a gradient, or no row has a
            finite gradient.
    """
    found = engine.gradients(batch)
    expected = LoopEngine(model, parameters, reduction, loss).gradients(batch)
    dtype = next(model.parameters()).dtype
    padded = None if dtype in TOLERANCE else PaddedLoop(model, parameters, reduction, loss).gradients(batch)
    is_finite = expected.is_finite()
    if not is_finite.any():
        raise CheckFailedError(
            f"The model gives no finite gradient: on all {len(batch)} rows of the self-check the loss or the gradient is "
            "inf or NaN under plain autograd. Try --dtype float32, and look for NaN in the model's weights."
        )
    found, expected = found.at(is_finite), expected.at(is_finite)
    rounding = None if padded is None else _relative_error(padded.at(is_finite), expected)
    coverage, zero_parameters = _coverage(expected, parameters)
    result = CheckResult(
        n_rows=len(expected.losses),
        max_relative_error=_relative_error(found, expected),
        tolerance=TOLERANCE[dtype] if rounding is None else max(HALF_TOLERANCE, ROUNDINGS * rounding),
        coverage=coverage,
        zero_parameters=zero_parameters,
        rounding=rounding,
    )
    if result.coverage == 0.0:
        raise CheckFailedError(
            f"None of the {len(parameters)} counted parameters received a gradient on {len(batch)} rows, among them "
            f"{', '.join(p.name for p in parameters[:3])}. Choose other --parameters; "
            "after a warm-up, a lower --learning-rate may be what is missing."
        )
    if not result.max_relative_error <= result.tolerance:  # NaN must fail
        raise CheckFailedError(
            f"The {engine.name} engine disagrees with plain autograd: relative error {result.max_relative_error:.1e} on "
            f"{len(batch)} rows, more than {result.tolerance:.0e}. Use --engine loop, and please report the model."
        )
    return result


class PaddedLoop(LoopEngine):
    """Plain autograd with padding behind each row: equal to `LoopEngine` but for rounding."""

    def _logits(self, input_ids: Tensor) -> Tensor:
        n = len(input_ids)
        padded = torch.cat([input_ids, input_ids[:1].expand(PADDING)])[None]
        mask = (torch.arange(n + PADDING, device=input_ids.device) < n).long()[None]
        logits: Tensor = self.model(input_ids=padded, attention_mask=mask, use_cache=False).logits[0, :n]
        return logits


def _relative_error(found: SampleGradients, expected: SampleGradients) -> float:
    difference = found.minus(expected)
    errors = torch.stack([v.square().sum(1) for v in difference.vectors]).sum(0).sqrt()
    sizes = torch.stack([v.square().sum(1) for v in expected.vectors]).sum(0).sqrt()
    differences = torch.stack(
        [errors, (found.norm() - expected.norm()).abs(), (found.losses - expected.losses).abs()]
    )
    ratios = differences / torch.stack([sizes, expected.norm(), expected.losses.abs()])
    # A row whose gradient is exactly zero has no relative error; the engine must then give zero too.
    return float(torch.where(differences == 0, 0.0, ratios).max())


def _coverage(
    gradients: SampleGradients, parameters: tuple[CountedParameter, ...]
) -> tuple[float, tuple[str, ...]]:
    received = (gradients.norms_squared > 0).any(0).tolist()
    zero = tuple(p.name for p, got in zip(parameters, received, strict=True) if not got)
    covered = sum(p.numel for p, got in zip(parameters, received, strict=True) if got)
    return covered / sum(p.numel for p in parameters), zero
