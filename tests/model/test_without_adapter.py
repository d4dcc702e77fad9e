"""Tests gradscore.model.without_adapter: the plain model inside, the adapted and frozen one outside."""

import pytest
import torch

from gradscore.model.without_adapter import without_adapter
from tests import cases

IDS = torch.arange(3, 9)[None]


@pytest.mark.parametrize("adapter", cases.ADAPTERS)
def test_inside_the_adapter_does_nothing_and_outside_all_is_as_before(adapter: str) -> None:
    plain = cases.architecture("llama")(IDS).logits
    model = cases.with_lora(cases.architecture("llama"), adapter).requires_grad_(False)
    adapted = model(input_ids=IDS).logits
    with without_adapter(model):
        torch.testing.assert_close(model(input_ids=IDS).logits, plain)
    assert not torch.allclose(adapted, plain)
    torch.testing.assert_close(model(input_ids=IDS).logits, adapted)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_an_error_inside_leaves_the_model_as_before() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    required = [parameter.requires_grad for parameter in model.parameters()]
    adapted = model(input_ids=IDS).logits
    with pytest.raises(ZeroDivisionError), without_adapter(model):
        raise ZeroDivisionError
    assert [parameter.requires_grad for parameter in model.parameters()] == required
    torch.testing.assert_close(model(input_ids=IDS).logits, adapted)


def test_a_model_without_adapter_is_left_alone() -> None:
    model = cases.architecture("gpt2")
    with without_adapter(model):
        assert model(IDS).logits.shape == (1, 6, cases.VOCABULARY)
