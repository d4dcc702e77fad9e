"""Tests gradscore.gradients.layers: every formula against explicit loops over samples and positions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft.tuners.lora.dora import DoraLinearLayer
from torch import Tensor, nn

from gradscore.gradients import layers

SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 2**31)


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def slow_linear(x: Tensor, e: Tensor) -> Tensor:
    """Return G_n[o, i] = sum_t e[n, t, o] x[n, t, i], one number at a time."""
    gradient = torch.zeros(x.shape[0], e.shape[2], x.shape[2], dtype=x.dtype)
    for n, t, o, i in torch.cartesian_prod(*map(torch.arange, (*x.shape[:2], e.shape[2], x.shape[2]))):
        gradient[n, o, i] += e[n, t, o] * x[n, t, i]
    return gradient


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), SEEDS)
def test_linear_gradient_is_a_sum_over_positions(n: int, t: int, d_in: int, d_out: int, seed: int) -> None:
    x, e = normal(seed, (n, t, d_in), (n, t, d_out))
    torch.testing.assert_close(layers.linear_gradient(x, e), slow_linear(x, e))


@given(st.integers(1, 4), SIZES, SIZES, SIZES, SEEDS)
def test_linear_norm_is_that_of_the_formed_gradient(n: int, t: int, d_in: int, d_out: int, seed: int) -> None:
    x, e = normal(seed, (n, t, d_in), (n, t, d_out))
    expected = (e.transpose(1, 2) @ x).square().sum((1, 2))
    torch.testing.assert_close(layers.linear_norm_squared(x, e), expected)


@pytest.mark.parametrize(("t", "is_gram"), [(1, True), (4, True), (5, False), (40, False)])
def test_both_ways_to_a_norm_are_taken_and_agree(
    t: int, is_gram: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, e = normal(0, (3, t, 10), (3, t, 10))  # Gram products cost less below t = 10 * 10 / (10 + 10) = 5
    stacked: list[int] = []
    original = torch.stack
    monkeypatch.setattr(torch, "stack", lambda parts: (stacked.append(len(parts)), original(parts))[1])
    found = layers.linear_norm_squared(x, e)
    assert (stacked == []) == is_gram
    torch.testing.assert_close(found, torch.einsum("nto,nti->noi", e, x).square().sum((1, 2)))


def test_a_gradient_that_cancels_has_a_norm_of_zero_and_not_less() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 1, 64, generator=generator).expand(50, 8, 64)
    e = torch.randn(50, 8, 64, generator=generator)
    e = e - e.mean(1, keepdim=True)
    assert (layers.linear_norm_squared(x, e) >= 0).all()
    assert (layers.embedding_norm_squared(torch.ones(50, 8, dtype=torch.long), e) >= 0).all()


@given(st.integers(1, 4), SIZES, SIZES, st.integers(1, 5), SEEDS)
def test_embedding_gradient_adds_up_where_a_token_repeats(
    n: int, t: int, d: int, vocabulary: int, seed: int
) -> None:
    (e,) = normal(seed, (n, t, d))
    ids = torch.randint(vocabulary, (n, t), generator=torch.Generator().manual_seed(seed))
    expected = torch.zeros(n, vocabulary, d, dtype=e.dtype)
    for row in range(n):
        for place in range(t):
            expected[row, ids[row, place]] += e[row, place]
    torch.testing.assert_close(layers.embedding_gradient(ids, e, vocabulary), expected)
    torch.testing.assert_close(layers.embedding_norm_squared(ids, e), expected.square().sum((1, 2)))


def test_magnitude_gradient_is_that_of_pefts_dora() -> None:
    torch.manual_seed(0)
    base = nn.Linear(5, 4, bias=False)
    a, b = nn.Linear(5, 2, bias=False), nn.Linear(2, 4, bias=False)
    dora = DoraLinearLayer(fan_in_fan_out=False)
    dora.update_layer(base_layer=base, lora_A=a.weight, lora_B=b.weight, scaling=1.5)
    dora.weight.data *= 1.3  # as after training; at the start the magnitude is the norm of the weight
    x, e = torch.randn(3, 6, 5), torch.randn(3, 6, 4)
    expected = []
    for n in range(3):
        output = dora(x[n], lora_A=a, lora_B=b, scaling=1.5, base_layer=base, base_result=base(x[n]))
        expected.append(torch.autograd.grad((output * e[n]).sum(), dora.weight)[0])
    output = dora(x, lora_A=a, lora_B=b, scaling=1.5, base_layer=base, base_result=base(x))
    found = layers.magnitude_gradient(output.detach(), base(x).detach(), dora.weight.detach(), e)
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("shape", [(1, 1, 4), (3, 5, 4), (3, 5, 2, 4)])
def test_module_gradients_are_autograds_one_sample_at_a_time(shape: tuple[int, ...]) -> None:
    norm = nn.LayerNorm(4, dtype=torch.float64)
    x, e = normal(1, shape, shape)
    found = layers.module_gradients(norm, x, e, ["weight", "bias"])
    for n in range(shape[0]):
        weight, bias = torch.autograd.grad((norm(x[n]) * e[n]).sum(), [norm.weight, norm.bias])
        torch.testing.assert_close(found["weight"][n], weight)
        torch.testing.assert_close(found["bias"][n], bias)
    assert norm.weight.grad is None


def test_modules_that_share_an_input_share_its_gram_and_others_do_not() -> None:
    generator = torch.Generator().manual_seed(0)
    x, other = (torch.randn(2, 3, 40, dtype=torch.float64, generator=generator) for _ in range(2))
    e = torch.randn(2, 3, 40, dtype=torch.float64, generator=generator)
    grams = layers.InputGram()
    assert grams.of(x) is grams.of(x.detach())
    assert grams.of(other) is not grams.of(x)
    for inputs in (x, x, other, x[:, :2], x):
        gradient = e[:, : inputs.shape[1]].transpose(1, 2) @ inputs
        found = layers.linear_norm_squared(inputs, e[:, : inputs.shape[1]], grams)
        torch.testing.assert_close(found, gradient.square().sum((1, 2)))
