"""Tests gradscore.scores.basis: inner products of the first view and the differences, and the mean, by explicit loops."""

import numpy as np
import pytest
import torch

from gradscore.gradients.engine import SampleGradients
from gradscore.scores.basis import inner_products, mean_vectors, view_basis
from gradscore.scores.moments import view_weights


def made(
    views: int, n: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[list[SampleGradients], np.ndarray]:
    """Return random gradients of two parameters under some views, and all of them as one array [n, views, p]."""
    generator = torch.Generator().manual_seed(views)
    whole = torch.randn(n, views, 10, generator=generator, dtype=torch.float64).to(dtype)
    gradients = []
    for k in range(views):
        vectors = (whole[:, k, :4], whole[:, k, 4:])
        norms_squared = torch.stack([v.square().sum(1) for v in vectors], 1)
        gradients.append(SampleGradients(torch.ones(n, dtype=dtype), norms_squared, vectors))
    return gradients, whole.double().numpy()


@pytest.mark.parametrize("views", [1, 2, 5])
def test_inner_products_are_those_of_first_and_differences(views: int) -> None:
    gradients, whole = made(views)
    found = inner_products(view_basis(gradients))
    assert found.shape == (3, views, views)
    for n, row in enumerate(whole):
        basis = [row[0], *(row[k] - row[0] for k in range(1, views))]
        for i in range(views):
            for j in range(views):
                np.testing.assert_allclose(found[n, i, j], basis[i] @ basis[j], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.5, 1.0])
@pytest.mark.parametrize("views", [1, 2, 5])
def test_mean_is_the_weighted_mean_of_the_views(views: int, momentum: float) -> None:
    gradients, whole = made(views)
    found = torch.cat(mean_vectors(view_basis(gradients), momentum), 1).numpy()
    expected = sum(w * whole[:, k] for k, w in enumerate(view_weights(views, momentum)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_products_leave_as_float64_whatever_the_gradients_are() -> None:
    gradients, whole = made(2, dtype=torch.float32)
    found = inner_products(view_basis(gradients))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[:, 0, 0], (whole[:, 0] ** 2).sum(1), rtol=1e-6)
