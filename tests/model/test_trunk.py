"""Tests gradscore.model.trunk: shared layers change no loss, are told apart from changing ones, and can be kept."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradscore.data.batch import collate
from gradscore.errors import StorageError
from gradscore.model import trunk as trunk_module
from gradscore.model.forward import sample_losses
from gradscore.model.midway import numbered_layers
from gradscore.model.trunk import Trunk, first_changing_layer, shared_trunk
from gradscore.model.views import adapter_tensors
from tests import cases
from tests.pipeline.runs import Listener


def upper(name: str = "llama", attention: str = "sdpa", **options: Any) -> nn.Module:
    """Return a model of three layers with an adapter on the last."""
    model = cases.architecture(name, attention, n_layers=3, **options)
    return cases.with_lora(model, layers="last:1").requires_grad_(False)


def share(
    model: nn.Module, changing: list[str] | None = None, listener: Listener | None = None
) -> Trunk | None:
    names = list(adapter_tensors(model)) if changing is None else changing
    return shared_trunk(model, names, cases.batch(), listener or Listener())


@pytest.mark.parametrize(("name", "attention"), cases.ATTENTION)
def test_a_shared_pass_gives_the_losses_of_a_whole_one(name: str, attention: str) -> None:
    model, batch = upper(name, attention), cases.batch()
    trunk = share(model)
    assert trunk is not None
    assert trunk.layer == 2
    with torch.no_grad():
        expected = sample_losses(model, batch)
        torch.testing.assert_close(sample_losses(model, trunk.run(batch)), expected, rtol=1e-12, atol=0)


def test_the_lowest_changing_layer_counts() -> None:
    assert first_changing_layer(["model.layers.4.mlp.up_proj.weight", "model.layers.2.x.weight"]) == 2
    assert first_changing_layer(["model.layers.4.mlp.up_proj.weight", "lm_head.weight"]) == 4


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["lm_head.weight"],
        ["model.embed_tokens.weight", "model.layers.2.x.weight"],
        ["model.norm.weight", "model.layers.2.x"],
    ],
)
def test_what_lies_beside_the_layers_shares_nothing(names: list[str]) -> None:
    assert first_changing_layer(names) == 0
    assert share(upper(), names) is None


def test_an_adapter_on_all_layers_shares_nothing() -> None:
    model = cases.with_lora(cases.architecture("llama", "sdpa"))
    assert share(model) is None


def test_a_model_that_carries_more_than_hidden_states_is_run_whole_and_says_so() -> None:
    model = upper()
    first, last = (numbered_layers(model)[i] for i in (0, 2))
    seen: dict[str, torch.Tensor] = {}
    first.register_forward_hook(lambda _m, _a, output: seen.update(first=output))
    last.register_forward_hook(lambda _m, _a, output: output + seen["first"].mean())
    listener = Listener()
    assert share(model, listener=listener) is None
    assert any("every view runs all 3 layers" in line for line in listener.said)


def test_kept_hidden_states_replace_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = upper(), cases.batch()
    trunk = Trunk(model, 2, tmp_path / "trunk")
    first = trunk.run(batch)
    monkeypatch.setattr(trunk_module, "midway_of", None)  # a second pass would call it
    rows = list(batch.rows)[::-1]
    again = trunk.run(collate(rows, pad_id=0))
    with torch.no_grad():
        torch.testing.assert_close(
            sample_losses(model, again).flip(0), sample_losses(model, first), rtol=1e-9, atol=0
        )
    assert again.midway is not None
    assert (again.midway.hidden[~collate(rows, pad_id=0).attention_mask.bool()] == 0).all()
    trunk.discard()
    assert not (tmp_path / "trunk").exists()
    trunk.discard()


def test_a_full_disk_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "trunk").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="leave out --cache-trunk"):
        Trunk(upper(), 2, tmp_path / "trunk").run(cases.batch())
