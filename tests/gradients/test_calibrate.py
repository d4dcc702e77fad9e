"""Tests gradscore.gradients.calibrate: scales are root mean squares, and make all layers count alike."""

import math

import torch

from gradscore.gradients.calibrate import layer_scales
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from tests import cases

MODEL = cases.with_lora(cases.architecture("llama"))
PARAMETERS = counted_parameters(MODEL, "lora")[:2]


def gradients(norms: list[list[float]]) -> SampleGradients:
    squared = torch.tensor(norms, dtype=torch.float64).square()
    return SampleGradients(torch.ones(len(norms), dtype=torch.float64), squared, ())


def test_is_the_root_mean_square_over_all_batches() -> None:
    batches = [gradients([[1.0, 2.0], [3.0, 2.0]]), gradients([[5.0, 2.0]])]
    scales = layer_scales(batches, PARAMETERS)
    assert list(scales) == [p.name for p in PARAMETERS]
    torch.testing.assert_close(list(scales.values()), [math.sqrt(35 / 3), 2.0])


def test_rows_that_are_not_finite_are_left_out() -> None:
    scales = layer_scales([gradients([[1.0, 2.0], [math.nan, 4.0]])], PARAMETERS)
    assert list(scales.values()) == [1.0, 2.0]


def test_a_parameter_without_gradient_keeps_scale_one_and_no_rows_give_ones() -> None:
    assert list(layer_scales([gradients([[0.0, 2.0]])], PARAMETERS).values()) == [1.0, 2.0]
    assert list(layer_scales([], PARAMETERS).values()) == [1.0, 1.0]


def test_normalised_gradients_have_root_mean_square_one_in_every_layer() -> None:
    parameters = counted_parameters(MODEL, "lora")
    plain = HooksEngine(MODEL, parameters, Reduction()).gradients(cases.batch())
    scales = layer_scales([plain], parameters)
    assert max(scales.values()) > 2 * min(scales.values()), "layers of one size prove nothing"
    again = HooksEngine(MODEL, parameters, Reduction(scales=scales)).gradients(cases.batch())
    torch.testing.assert_close(
        again.norms_squared.mean(0), torch.ones(len(parameters), dtype=torch.float64), rtol=1e-9, atol=0
    )
