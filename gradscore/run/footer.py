"""The footer of the table: all that is needed to read, trust, repeat or continue it."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from gradscore import __version__
from gradscore.config import RunConfig, to_mapping
from gradscore.data.read import RowSource
from gradscore.gradients.check import CheckResult
from gradscore.gradients.parameters import group_names
from gradscore.model.load import LoadedModel
from gradscore.run.make_views import views_per_member
from gradscore.scores.moments import gsnr_floor
from gradscore.scores.sweep import Sweep


def footer(
    config: RunConfig,
    source: RowSource,
    loaded: LoadedModel,
    sweep: Sweep,
    check: CheckResult | None,
    identity: dict[str, Any],
    rendering: str,
) -> dict[str, Any]:
    """Return the footer of the table: all that is needed to read, trust, repeat or continue it."""
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
        "noise_floor": gsnr_floor(views_per_member(sweep.views), config.scores.momentum),
        "layer_names": list(group_names(sweep.parameters)),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:

    names = ("torch", "transformers", "peft", "datasets", "numpy", "pyarrow")
    return {"gradscore": __version__, **{name: version(name) for name in names}}
