"""Tests gradscore.scores.token_moments: no bias from length on pure noise, and nothing from a single token."""

import numpy as np
import pytest
import torch

from gradscore.scores.token_moments import token_moments


def moments_of(contributions: np.ndarray) -> tuple[float, float]:
    """Return both scores of rows [n, t, p], mean over rows."""
    squares = torch.from_numpy((contributions**2).sum((1, 2)))
    total = torch.from_numpy((contributions.sum(1) ** 2).sum(1))
    n_tokens = torch.full((len(contributions),), contributions.shape[1])
    found = token_moments(squares, total, n_tokens, 1e-12)
    return float(found.gsnr.mean()), float(found.gsnr_unbiased.mean())


@pytest.mark.parametrize("n_tokens", [5, 50])
def test_on_pure_noise_the_plain_one_reads_length_and_the_unbiased_one_about_nothing(n_tokens: int) -> None:
    noise = np.random.default_rng(0).normal(size=(40, n_tokens, 3000))
    plain, unbiased = moments_of(noise)
    assert plain == pytest.approx(1 / np.sqrt(n_tokens - 1), rel=0.02)
    assert unbiased < 0.15 * plain + 0.02


@pytest.mark.parametrize("n_tokens", [5, 50])
def test_a_true_mean_is_found_whatever_the_length(n_tokens: int) -> None:
    generator = np.random.default_rng(1)
    mean = generator.normal(size=3000) * 0.7
    _, unbiased = moments_of(mean + generator.normal(size=(40, n_tokens, 3000)))
    assert unbiased == pytest.approx(np.linalg.norm(mean) / np.sqrt(3000), rel=0.03)


def test_one_token_has_no_score() -> None:
    found = token_moments(torch.ones(2), torch.ones(2), torch.tensor([1, 2]), 1e-12)
    assert found.gsnr.isnan().tolist() == found.gsnr_unbiased.isnan().tolist() == [True, False]
