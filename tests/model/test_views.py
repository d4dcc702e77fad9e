"""Tests gradscore.model.views: the list of views on disk, and a switch that never leaves a trace."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gradscore.config import ModelConfig
from gradscore.errors import ModelError
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.views import (
    View,
    ViewSwitch,
    full_tensors,
    list_views,
    single_view,
    view_seed,
    with_base,
    write_views,
)
from tests.cases import architecture, with_lora
from tests.model.folders import load, save_adapter, save_llama

IDS = torch.tensor([[3, 4, 5, 6]])


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("model") / "llama")


@pytest.fixture(scope="module")
def adapters(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[View]:
    home = tmp_path_factory.mktemp("adapters")
    paths = [save_adapter(home / f"step-{s}", model_folder, seed=s) for s in (1, 2)]
    return [View(p.name, "adapter", step=i, path=str(p)) for i, p in enumerate(paths)]


def fresh(model_folder: Path) -> PeftModel:
    return attach_adapter(load(model_folder), ModelConfig(), seed=0)


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


def test_each_view_gives_what_plain_peft_gives(model_folder: Path, adapters: list[View]) -> None:
    model = fresh(model_folder)
    with ViewSwitch(model, adapters) as switch:
        for view in [*adapters, *reversed(adapters)]:
            switch.activate(view)
            plain = AutoModelForCausalLM.from_pretrained(model_folder)
            expected = PeftModel.from_pretrained(plain, str(view.path)).eval()
            assert torch.equal(logits(model), logits(expected))


def test_base_view_is_the_model_without_its_adapter(model_folder: Path, adapters: list[View]) -> None:
    model = fresh(model_folder)
    with ViewSwitch(model, with_base(adapters)) as switch:
        switch.activate(adapters[0])
        assert not torch.equal(logits(model), logits(load(model_folder).model))
        switch.activate(with_base(adapters)[0])
        assert torch.equal(logits(model), logits(load(model_folder).model))


def test_starting_state_comes_back_even_after_an_error(model_folder: Path, adapters: list[View]) -> None:
    model = fresh(model_folder)
    before = {name: p.detach().clone() for name, p in lora_tensors(model).items()}
    places = {name: p.data_ptr() for name, p in lora_tensors(model).items()}

    def fail_in(view: View) -> None:
        with ViewSwitch(model, adapters) as switch:
            switch.activate(view)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in(adapters[1])
    assert all(torch.equal(p, before[name]) for name, p in lora_tensors(model).items())
    assert {name: p.data_ptr() for name, p in lora_tensors(model).items()} == places


@pytest.mark.parametrize("adapter", ["lora", "rslora", "dora"])
def test_every_kind_of_lora_is_switched_whole(adapter: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        with_lora(architecture("gpt2"), adapter, seed).save_pretrained(str(tmp_path / f"{seed}"))
    model, other = with_lora(architecture("gpt2"), adapter, 1), with_lora(architecture("gpt2"), adapter, 2)
    views = [View(str(seed), "adapter", path=str(tmp_path / f"{seed}")) for seed in (1, 2)]
    assert not torch.equal(logits(model), logits(other))
    with ViewSwitch(model, views) as switch:
        switch.activate(views[1])
        assert torch.equal(logits(model), logits(other))


@pytest.mark.parametrize("with_adapter", [False, True])
def test_full_checkpoints_are_switched_and_restored(
    with_adapter: bool, model_folder: Path, tmp_path: Path
) -> None:
    other = save_llama(tmp_path / "checkpoint-9", seed=9)
    model = fresh(model_folder) if with_adapter else load(model_folder).model
    before = logits(model)
    view = View("checkpoint-9", "checkpoint", path=str(other))
    with ViewSwitch(model, [view]) as switch:
        switch.activate(view)
        assert torch.equal(logits(model), logits(load(other).model))
        switch.activate(single_view())
        assert torch.equal(logits(model), before)
        switch.activate(view)
    assert torch.equal(logits(model), before)


def test_tied_weights_are_one_tensor() -> None:
    model = architecture("gpt2")
    assert "lm_head.weight" not in full_tensors(model)
    assert full_tensors(model)["transformer.wte.weight"].data_ptr() == model.lm_head.weight.data_ptr()


def test_views_without_weights_need_no_adapter(model_folder: Path) -> None:
    model = load(model_folder).model
    before = logits(model)
    with ViewSwitch(model, [single_view()]) as switch:
        switch.activate(single_view())
        assert torch.equal(logits(model), before)


def test_view_of_another_rank_or_model_is_refused(model_folder: Path, tmp_path: Path) -> None:
    narrow = save_adapter(tmp_path / "narrow", model_folder, lora_rank=2)
    message = r"narrow does not fit the model: .*down_proj.lora_A.weight is 2×24 there and 8×24 here"
    with pytest.raises(ModelError, match=message):
        ViewSwitch(fresh(model_folder), [View("narrow", "adapter", path=str(narrow))])
    deep = save_llama(tmp_path / "deep", num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"model.layers.2.*and missing here"):
        ViewSwitch(load(model_folder).model, [View("deep", "checkpoint", path=str(deep))])


def test_checkpoint_that_lacks_weights_is_refused(model_folder: Path, tmp_path: Path) -> None:
    folder = save_llama(tmp_path / "cut")
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lacks weights: model.layers.2"):
        ViewSwitch(load(model_folder).model, [View("cut", "checkpoint", path=str(folder))])
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"cannot be loaded: .*model.safetensors"):
        ViewSwitch(load(model_folder).model, [View("cut", "checkpoint", path=str(folder))])


def test_mixture_of_kinds_is_refused(model_folder: Path, adapters: list[View]) -> None:
    mixture = [*adapters, View("full", "checkpoint", path=str(model_folder))]
    with pytest.raises(ModelError, match=r"all be adapters or all be full models"):
        ViewSwitch(fresh(model_folder), mixture)


def test_list_survives_writing_and_moving(tmp_path: Path) -> None:
    inside = tmp_path / "run" / "views" / "member-0" / "step-000005"
    views = [
        single_view(),
        View("member-0/step-000005", "adapter", 0, 5, str(inside)),
        View("checkpoint-3", "checkpoint", 0, 3, "/elsewhere/checkpoint-3"),
        View("dropout-1", "dropout", 0, 1, None, 17),
    ]
    write_views(tmp_path / "run", views)
    assert list_views(tmp_path / "run") == views
    (tmp_path / "run").rename(tmp_path / "moved")
    moved = str(tmp_path / "moved" / "views" / "member-0" / "step-000005")
    assert list_views(tmp_path / "moved") == [replace(v, path=moved) if v == views[1] else v for v in views]
    assert [f.name for f in (tmp_path / "moved" / "views").iterdir()] == ["views.json"]


def test_missing_or_broken_list(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be read from .*views.json.* Run the warm-up again"):
        list_views(tmp_path)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "views.json").write_text('{"views": [{"nom": 1}]}')
    with pytest.raises(ModelError, match=r"cannot be read"):
        list_views(tmp_path)


def test_base_comes_before_the_oldest_of_each_member() -> None:
    views = [View(f"{m}-{s}", "adapter", m, s, "x") for m in (0, 1) for s in (5, 6)]
    names = [v.name for v in with_base(views)]
    assert names == ["member-0/base", "0-5", "0-6", "member-1/base", "1-5", "1-6"]
    assert with_base([]) == []


@given(st.integers(0, 2**40), st.text(max_size=8), st.text(max_size=8))
def test_view_seed_is_fixed_and_fits_torch(seed: int, name: str, row_key: str) -> None:
    view = View(name, "dropout", seed=seed)
    assert view_seed(view, row_key) == view_seed(view, row_key)
    torch.Generator().manual_seed(view_seed(view, row_key))


def test_view_seeds_differ_by_row_view_and_seed() -> None:
    views = [View(f"dropout-{k}", "dropout", seed=s) for k in range(3) for s in range(3)]
    assert len({view_seed(view, key) for view in views for key in "abc"}) == 27
