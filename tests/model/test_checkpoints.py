"""Tests gradscore.model.checkpoints: order and kind of a user's checkpoints, and which do not belong together."""

import shutil
from pathlib import Path

import pytest

from gradscore.errors import ModelError
from gradscore.model.checkpoints import checkpoint_views
from tests.model.folders import save_adapter, save_llama


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    save_llama(home / "model", tokenizer=True)
    save_adapter(home / "adapter", home / "model")
    save_adapter(home / "narrow", home / "model", lora_rank=2)
    return home


def test_trainer_folder_is_sorted_by_step_as_a_number(home: Path, tmp_path: Path) -> None:
    for step in (500, 1000, 60):
        shutil.copytree(home / "adapter", tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-best").mkdir()
    (tmp_path / "runs").mkdir()
    views = checkpoint_views(str(tmp_path))
    assert [(v.name, v.step, v.kind) for v in views] == [
        (f"checkpoint-{step}", step, "adapter") for step in (60, 500, 1000)
    ]
    assert [v.path for v in views] == [str(tmp_path / f"checkpoint-{step}") for step in (60, 500, 1000)]


def test_list_keeps_its_own_order_and_names_are_unique(home: Path, tmp_path: Path) -> None:
    for part in ("a", "b"):
        shutil.copytree(home / "adapter", tmp_path / part / "final")
    views = checkpoint_views(f"{tmp_path / 'b' / 'final'}, {tmp_path / 'a' / 'final'}")
    assert [v.name for v in views] == ["0-final", "1-final"]
    assert [v.path for v in views] == [str(tmp_path / "b" / "final"), str(tmp_path / "a" / "final")]
    assert [v.step for v in views] == [0, 1]


def test_single_checkpoint_and_full_models(home: Path) -> None:
    assert [v.kind for v in checkpoint_views(str(home / "adapter"))] == ["adapter"]
    assert [v.kind for v in checkpoint_views(str(home / "model"))] == ["checkpoint"]


def test_mixture_is_refused(home: Path) -> None:
    with pytest.raises(ModelError, match=r"a mixture: adapters \(adapter\) and full models \(model\)"):
        checkpoint_views(f"{home / 'adapter'},{home / 'model'}")


def test_adapters_of_different_rank_or_base_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"do not belong together: r is 8 in adapter and 2 in narrow"):
        checkpoint_views(f"{home / 'adapter'},{home / 'narrow'}")
    other = save_adapter(tmp_path / "other", save_llama(tmp_path / "model"))
    with pytest.raises(ModelError, match=r"base_model_name_or_path is .* in adapter and .* in other"):
        checkpoint_views(f"{home / 'adapter'},{other}")


def test_models_of_different_architecture_are_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ModelError, match=r"model_type is llama in model and gpt2"):
        checkpoint_views(f"{home / 'model'},{tmp_path}")


def test_folder_that_is_missing_or_no_checkpoint(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent does not exist\. Pass a Trainer's output folder"):
        checkpoint_views(str(tmp_path / "absent"))
    with pytest.raises(ModelError, match=r"holds neither a checkpoint nor checkpoint-N folders"):
        checkpoint_views(str(tmp_path))


def test_broken_configuration_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{nope")
    with pytest.raises(ModelError, match=r"configuration of the checkpoint .* cannot be read"):
        checkpoint_views(str(tmp_path))
