"""Layer scales: the root-mean-square gradient norm of every counted parameter over calibration rows.

Layers differ in gradient size by orders of magnitude, so that an unnormalised norm or GSNR is that of the few
largest. Dividing each parameter's gradient by its typical size lets all of them count. The rows are fixed by the
seed and the scales are stored with the run, so that every shard and every resumed run divides by the same numbers.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.parameters import CountedParameter


def layer_scales(
    gradients: Iterable[SampleGradients], parameters: tuple[CountedParameter, ...]
) -> dict[str, float]:
    """Return sqrt(mean over rows and views of the squared norm) by parameter name.

    Rows that are not finite are left out; a parameter whose gradient is always zero keeps the scale 1.
    """
    total: Tensor = torch.zeros(len(parameters), dtype=torch.float64)
    n_rows = 0
    for batch in gradients:
        finite = batch.is_finite()
        total += batch.norms_squared[finite].double().sum(0).cpu()
        n_rows += int(finite.sum())
    scales = (total / max(1, n_rows)).sqrt().tolist()
    return {p.name: scale if scale > 0 else 1.0 for p, scale in zip(parameters, scales, strict=True)}
