"""Tests gradscore.model.midway: a pass that starts where another one stopped ends where it would have ended."""

import pytest
import torch

from gradscore.model.midway import midway_of, numbered_layers, started_from
from tests import cases


@pytest.mark.parametrize(("name", "attention"), cases.ATTENTION)
@pytest.mark.parametrize("layer", [1, 2])
def test_a_pass_in_two_halves_is_the_whole_pass(name: str, attention: str, layer: int) -> None:
    model, batch = cases.architecture(name, attention, n_layers=3), cases.batch()
    arguments = {"input_ids": batch.input_ids, "use_cache": False}
    with torch.no_grad():
        whole = model(**arguments).logits
        midway = midway_of(model, layer, lambda: model(**arguments))
        with started_from(model, midway):
            other = {**arguments, "input_ids": torch.zeros_like(batch.input_ids)}
            torch.testing.assert_close(model(**other).logits, whole, rtol=0, atol=0)
        torch.testing.assert_close(model(**arguments).logits, whole, rtol=0, atol=0)


def test_nothing_above_the_layer_is_computed() -> None:
    model, batch = cases.architecture("llama"), cases.batch()
    called = []
    for layer in numbered_layers(model):
        layer.register_forward_hook(lambda *_: called.append(1))
    with torch.no_grad():
        midway_of(model, 1, lambda: model(input_ids=batch.input_ids))
    assert len(called) == 1


def test_the_layers_come_back_after_an_error() -> None:
    model, batch = cases.architecture("llama"), cases.batch()
    midway = midway_of(model, 1, lambda: model(input_ids=batch.input_ids))
    with pytest.raises(KeyError), started_from(model, midway):
        raise KeyError
    assert all("forward" not in vars(layer) for layer in numbered_layers(model))


def test_a_model_without_one_list_of_layers_has_none() -> None:
    assert numbered_layers(torch.nn.Linear(2, 2)) == []
    two = torch.nn.ModuleDict({"a": torch.nn.Module(), "b": torch.nn.Module()})
    for part in two.values():
        part.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
    assert numbered_layers(two) == []


def test_inner_lists_are_no_layers_of_the_model() -> None:
    block = torch.nn.Module()
    block.experts = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([block])
    assert numbered_layers(model) == [block]
