"""Whether the engine's gradients are right, on four of the user's rows: each check asks one question of the model.

All of them take the model as it is; `examine` puts it into a state in which no gradient is zero by construction.
"""

import torch
from torch import Tensor, nn

from gradscore.config import RunConfig
from gradscore.doctor.finding import MOST, Finding
from gradscore.errors import CheckFailedError
from gradscore.gradients.check import HALF_TOLERANCE, TOLERANCE, CheckResult, self_check
from gradscore.gradients.engine import SampleGradients
from gradscore.records import EncodedRow
from gradscore.scores.sweep import Sweep

NAMED = 3
"""Parameters that are named in a line."""
FLOAT64_ROUNDING = 1e-9
"""What batches of other shapes may differ by, in float64; other types have the tolerances of the self-check."""


def weights_check(model: nn.Module) -> Finding:
    """Return whether all weights of the model are finite."""
    broken = [name for name, p in model.named_parameters() if not bool(torch.isfinite(p).all())]
    if not broken:
        return Finding("weights", "pass", "all weights are finite")
    return Finding(
        "weights",
        "fail",
        f"{len(broken)} weights hold NaN or infinity: {_named(tuple(broken))}",
        "Load the model again from its source; for float16 try --dtype bfloat16 or float32.",
    )


def finite_check(sweep: Sweep, rows: list[EncodedRow]) -> Finding:
    """Return whether loss and gradient of every row are finite."""
    finite = sweep.engine.gradients(sweep.collate(rows)).is_finite()
    n_broken = int((~finite).sum())
    if not n_broken:
        return Finding("finite", "pass", f"losses and gradients of {len(rows)} rows are finite")
    return Finding(
        "finite",
        "fail" if n_broken >= MOST * len(rows) else "warn",
        f"loss or gradient of {n_broken} of {len(rows)} rows is NaN or infinite",
        "Try --dtype float32, or bfloat16 if it was float16. Such rows get the status non_finite and no score.",
    )


def engine_check(
    sweep: Sweep, config: RunConfig, rows: list[EncodedRow]
) -> tuple[Finding, CheckResult | None]:
    """Return whether the engine agrees with plain autograd, and the numbers if it does."""
    batch = sweep.collate(rows)
    try:
        result = self_check(
            sweep.engine, sweep.model, sweep.parameters, sweep.reduction, config.gradients.reduction, batch
        )
    except CheckFailedError as error:
        return Finding("engine", "fail", str(error)), None
    shared = (
        "" if sweep.trunk is None else f", with layers 0 to {sweep.trunk.layer - 1} run once for all views"
    )
    text = (
        f"{sweep.engine.name} agrees with plain autograd on {result.n_rows} rows: largest relative error "
        f"{result.max_relative_error:.0g} (at most {result.tolerance:.0g}){shared}"
    )
    if sweep.engine.name == "loop" and config.gradients.engine == "auto":
        advice = "The fast engine has no formula for this model; expect about twice the time."
        return Finding("engine", "warn", text, advice), result
    return Finding("engine", "pass", text), result


def coverage_check(result: CheckResult, n_parameters: int) -> Finding:
    """Return which share of the counted parameters receives a gradient."""
    text = f"{result.coverage:.1%} of what {n_parameters} counted parameters hold receives a gradient"
    text = text.replace("%", " %", 1)
    if not result.zero_parameters:
        return Finding("coverage", "pass", text)
    return Finding(
        "coverage",
        "fail" if result.coverage < 1 - MOST else "warn",
        f"{text}; nothing comes to {_named(result.zero_parameters)}",
        "Leave them out with --parameters. Experts that no token of these few rows was sent to are no fault.",
    )


def zero_check(config: RunConfig, filled: tuple[str, ...]) -> Finding:
    """Return whether the run itself would meet gradients that are exactly zero because an adapter is fresh."""
    if not filled:
        return Finding("fresh adapter", "pass", "no counted tensor starts at zero")
    if config.model.view_source == "warmup":
        text = "B starts at 0, where the gradient of every A is exactly 0; the warm-up moves it, and it was filled for these checks"
        return Finding("fresh adapter", "pass", text)
    return Finding(
        "fresh adapter",
        "warn",
        f"{len(filled)} adapter tensors (B) are 0 and stay so in this run: the gradient of every A is exactly 0, and only B is measured",
        "Take --view-source warmup, pass a trained --adapter, or count weights with --parameters ffn.",
    )


def padding_check(sweep: Sweep, rows: list[EncodedRow]) -> Finding:
    """Return whether a row gives the same alone and beside longer ones, where it is padded."""
    shortest = min(range(len(rows)), key=lambda i: rows[i].n_tokens)
    alone = sweep.engine.gradients(sweep.collate([rows[shortest]]))
    padded = sweep.engine.gradients(sweep.collate(rows))
    differences = [
        _relative(a[0], b[shortest])
        for a, b in ((alone.losses, padded.losses), (alone.norm(), padded.norm()))
    ]
    limit = _tolerance(sweep)
    longest = max(row.n_tokens for row in rows)
    text = (
        f"a row of {rows[shortest].n_tokens} tokens alone and beside one of {longest}: loss differs by "
        f"{differences[0]:.0g}, gradient norm by {differences[1]:.0g} (at most {limit:.0g})"
    )
    if all(difference <= limit for difference in differences):  # NaN must fail
        return Finding("padding", "pass", text)
    advice = "Take --dtype float32 or --attn eager; --max-batch-tokens 1 scores every row by itself."
    return Finding("padding", "fail", text, advice)


def determinism_check(sweep: Sweep, rows: list[EncodedRow]) -> Finding:
    """Return whether the same batch gives the same bits twice."""
    batch = sweep.collate(rows)
    first, second = sweep.engine.gradients(batch), sweep.engine.gradients(batch)
    if all(torch.equal(a, b) for a, b in zip(_tensors(first), _tensors(second), strict=True)):
        return Finding("determinism", "pass", "the same batch gives the same bits twice")
    difference = max(_relative(a, b) for a, b in zip(first.norm(), second.norm(), strict=True))
    return Finding(
        "determinism",
        "warn",
        f"the same batch gives gradient norms that differ by {difference:.0e} the second time",
        "Runs cannot be repeated to the bit; compare scores with this in mind. On a GPU try --attn eager.",
    )


def _tensors(gradients: SampleGradients) -> tuple[Tensor, ...]:
    return (gradients.losses, gradients.norms_squared, *gradients.vectors)


def _relative(found: Tensor, expected: Tensor) -> float:
    difference = (found - expected).abs()
    return float(torch.where(difference == 0, 0.0, difference / expected.abs()))


def _tolerance(sweep: Sweep) -> float:
    dtype = next(sweep.model.parameters()).dtype
    return FLOAT64_ROUNDING if dtype == torch.float64 else TOLERANCE.get(dtype, HALF_TOLERANCE)


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
