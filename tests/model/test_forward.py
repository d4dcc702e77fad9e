"""Row losses with logits only at targets against the model's own full logits (gradscore.model.forward)."""

import pytest
import torch
from peft import LoraConfig, PeftModel

from gradscore.model import forward
from gradscore.model.forward import sample_losses
from tests import cases
from tests.reference import row_loss


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize(("name", "attention"), cases.ATTENTION)
def test_losses_equal_the_models_own(name: str, attention: str, padding_side: str) -> None:
    # A query that is padding on the left sees nothing. Eager attention masks with the lowest float64, which its
    # float32 softmax turns into -inf and NaN, so that this case is held in float32.
    dtype = torch.float32 if (attention, padding_side) == ("eager", "left") else torch.float64
    model = cases.architecture(name, attention, dtype)
    batch = cases.batch(padding_side)
    expected = torch.stack([row_loss(model, row) for row in batch.rows])
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(sample_losses(model, batch), expected, rtol=tolerance, atol=0)
    torch.testing.assert_close(sample_losses(model, batch, call_head=True), expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_head_of_unknown_kind_goes_through_the_models_own_forward(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = cases.architecture(name), cases.batch()
    expected = sample_losses(model, batch)
    monkeypatch.setattr(forward, "PLAIN_HEADS", frozenset())
    torch.testing.assert_close(sample_losses(model, batch), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("rows_per_chunk", [1, 3, 1000])
@pytest.mark.parametrize("soft_cap", [None, 1.5])
def test_chunked_head_has_the_gradient_of_plain_cross_entropy(
    rows_per_chunk: int, soft_cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "LOGITS_PER_CHUNK", rows_per_chunk * 11)
    torch.manual_seed(0)
    hidden = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.randn(11, 5, dtype=torch.float64), torch.randn(11, dtype=torch.float64)
    labels, upstream = torch.randint(11, (7,)), torch.randn(7, dtype=torch.float64)
    losses = forward._HeadLosses.apply(hidden, weight, bias, labels, soft_cap)
    logits = forward.capped(hidden @ weight.T + bias, soft_cap)
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(losses, expected)
    (gradient,) = torch.autograd.grad((losses * upstream).sum(), hidden)
    (expected_gradient,) = torch.autograd.grad((expected * upstream).sum(), hidden)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_an_adapter_on_the_head_enters_the_loss(padding_side: str) -> None:
    model = PeftModel(cases.architecture("llama", "sdpa"), LoraConfig(target_modules=["lm_head"]))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, dtype=torch.float64)
    batch = cases.batch(padding_side)
    expected = torch.stack([row_loss(model, row) for row in batch.rows])
    torch.testing.assert_close(sample_losses(model.eval(), batch), expected, rtol=1e-10, atol=0)


def test_sum_is_mean_times_target_tokens() -> None:
    model, batch = cases.architecture("llama"), cases.batch()
    torch.testing.assert_close(
        sample_losses(model, batch, "sum"), sample_losses(model, batch, "mean") * batch.n_target_tokens
    )
