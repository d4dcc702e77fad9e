"""Views from checkpoints that the user already has: PEFT adapters or full models, oldest first."""

import re
from pathlib import Path

from transformers import AutoConfig

from gradscore.errors import ModelError
from gradscore.model.adapter_config import read_adapter_config
from gradscore.model.views import Kind, View

SAME_IN_ALL = ("base_model_name_or_path", "r", "lora_alpha", "use_rslora", "use_dora", "target_modules")
"""What adapters must agree on so that one can be put in the place of another by copying tensors."""


def checkpoint_views(checkpoints: str) -> list[View]:
    """Return a view for each checkpoint: a Trainer's `checkpoint-N` folders by N, or a list in its own order.

    Args:
        checkpoints: one folder that holds `checkpoint-N` folders or is itself a checkpoint, or several
            checkpoints, comma-separated, oldest first.

    Raises:
        ModelError: a folder is missing or no checkpoint, or the checkpoints do not belong together.
    """
    folders = [Path(part.strip()).expanduser().absolute() for part in checkpoints.split(",") if part.strip()]
    if len(folders) == 1:
        folders = _trainer_folders(folders[0]) or folders
    kinds = {folder: _kind(folder) for folder in folders}
    if len(set(kinds.values())) > 1:
        adapters = [f.name for f, kind in kinds.items() if kind == "adapter"]
        models = [f.name for f, kind in kinds.items() if kind == "checkpoint"]
        raise ModelError(
            f"The checkpoints are a mixture: adapters ({', '.join(adapters)}) and full models ({', '.join(models)}). "
            "Pass one kind only."
        )
    _check_alike(folders, kinds[folders[0]])
    names = _unique_names(folders)
    return [
        View(name, kinds[folder], step=_step(folder, place), path=str(folder))
        for place, (name, folder) in enumerate(zip(names, folders, strict=True))
    ]


def _trainer_folders(folder: Path) -> list[Path]:
    found = [f for f in folder.glob("checkpoint-*") if f.is_dir() and re.fullmatch(r"checkpoint-\d+", f.name)]
    return sorted(found, key=lambda f: int(f.name.rpartition("-")[2]))


def _kind(folder: Path) -> Kind:
    if (folder / "adapter_config.json").exists():
        return "adapter"
    if (folder / "config.json").exists():
        return "checkpoint"
    what = "holds neither a checkpoint nor checkpoint-N folders" if folder.is_dir() else "does not exist"
    raise ModelError(
        f"--checkpoints {folder} {what}. Pass a Trainer's output folder, or adapters or models, comma-separated."
    )


def _check_alike(folders: list[Path], kind: Kind) -> None:
    """Compare each checkpoint's configuration with the first one's; tensors are compared when they are read."""
    described = [_description(folder, kind) for folder in folders]
    for folder, one in zip(folders, described, strict=True):
        for name, value in one.items():
            if value != described[0][name]:
                raise ModelError(
                    f"The checkpoints do not belong together: {name} is {described[0][name]} in {folders[0].name} "
                    f"and {value} in {folder.name}. Pass checkpoints of one training run."
                )


def _description(folder: Path, kind: Kind) -> dict[str, object]:
    if kind == "adapter":
        config = read_adapter_config(str(folder))
        return {name: getattr(config, name, None) for name in SAME_IN_ALL}
    try:
        return {"model_type": AutoConfig.from_pretrained(str(folder)).model_type}
    except (OSError, ValueError) as error:
        raise ModelError(
            f"The configuration of the checkpoint {folder} cannot be read: {error}. Check that it is complete."
        ) from error


def _unique_names(folders: list[Path]) -> list[str]:
    names = [folder.name for folder in folders]
    return names if len(set(names)) == len(names) else [f"{i}-{name}" for i, name in enumerate(names)]


def _step(folder: Path, place: int) -> int:
    match = re.search(r"-(\d+)$", folder.name)
    return int(match.group(1)) if match else place
