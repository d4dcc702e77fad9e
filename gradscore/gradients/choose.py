"""Which engine computes the gradients, and what is kept of them."""

from torch import nn

from gradscore.config import GradientConfig
from gradscore.errors import ConfigError
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.hooks import HooksEngine, unsupported_by_hooks
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import CountedParameter, is_adapter
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from gradscore.records import Reporter

ENGINES: dict[str, type[HooksEngine] | type[VmapEngine] | type[LoopEngine]] = {
    "hooks": HooksEngine,
    "vmap": VmapEngine,
    "loop": LoopEngine,
}

DEFAULT_PROJECTION = 16
"""Side of the projection of full weights: 256 numbers per matrix, about 5 % of the cost of its gradient."""


def choose_reduction(
    config: GradientConfig,
    parameters: tuple[CountedParameter, ...],
    seed: int,
    scales: dict[str, float] | None = None,
) -> Reduction:
    """Return what is kept of each gradient: exact for LoRA, projected for full weights unless said otherwise.

    Raises:
        ConfigError: a stride and a projection were both asked for.
    """
    side = config.projection
    if side is None:
        only_lora = all(is_adapter(parameter.name) for parameter in parameters)
        side = 0 if only_lora or config.stride > 1 else DEFAULT_PROJECTION
    if side and config.stride > 1:
        raise ConfigError(
            f"--projection {side} and --stride {config.stride} both thin the gradient out. Give only one of them."
        )
    return Reduction(
        projections=Projections(side=side, seed=seed),
        stride=config.stride,
        exact_norms=config.norms == "exact",
        scales=scales or {},
    )


def choose_engine(
    model: nn.Module,
    parameters: tuple[CountedParameter, ...],
    config: GradientConfig,
    reduction: Reduction,
    reporter: Reporter,
) -> GradientEngine:
    """Return the engine that was asked for; `auto` is hooks where it has all formulas, else loop, and says so.

    Raises:
        UnsupportedError: the engine asked for cannot cover the counted parameters.
    """
    name = config.engine
    if name == "auto":
        missing = unsupported_by_hooks(model, parameters, reduction)
        name = "loop" if missing else "hooks"
        if missing:
            reporter.message(
                f"Engine loop, one row at a time: the hooks engine has no formula for {len(missing)} counted "
                f"parameters, such as {missing[0]}."
            )
    return ENGINES[name](model, parameters, reduction, config.reduction)
