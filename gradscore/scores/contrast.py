"""What the instruction changes in a row's gradient: the gradient with it beside the one without."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from gradscore.gradients.engine import SampleGradients


class Contrast(NamedTuple):
    """Of rows that have both gradients."""

    norm: Float[Tensor, " n"]
    """||g(answer | instruction)|| - ||g(answer)||."""
    cosine: Float[Tensor, " n"]
    """Between the two; NaN where one of them is zero."""


def contrast(given: SampleGradients, alone: SampleGradients) -> Contrast:
    """Return how the gradients of the same answers differ with and without their instruction."""
    lengths = (given.inner(given) * alone.inner(alone)).sqrt()
    cosine = torch.where(lengths > 0, given.inner(alone) / lengths, torch.nan)
    return Contrast(given.norm() - alone.norm(), cosine)
