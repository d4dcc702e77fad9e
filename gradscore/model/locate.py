"""From what the user names as the model to the folder that is loaded and the fingerprint of its content.

A name is a local folder, a GGUF file, or else a name on the Hub. Anything that only looks like one of these
is refused here, before transformers is asked, because its own messages speak of repository names.
"""

import json
from pathlib import Path

from gradscore.errors import ModelError
from gradscore.model.fingerprint import fingerprint_files, fingerprint_folder
from gradscore.model.gguf import convert_gguf, find_gguf
from gradscore.records import Reporter


def locate_model(name: str, reporter: Reporter) -> tuple[Path | None, str | None]:
    """Return the local folder to load and its fingerprint, or (None, None) for a Hub name.

    Raises:
        ModelError: it looks like a path but is not there, or holds no model.
    """
    path = Path(name).expanduser().absolute()  # snapshots name it as their base model
    if not path.exists():
        if name.startswith(("/", ".", "~")) or name.count("/") > 1 or path.suffix == ".gguf":
            raise ModelError(f"The model {name} does not exist on this machine. Check the path.")
        return None, None
    gguf = find_gguf(path)
    if gguf is not None:
        return convert_gguf(gguf, reporter), fingerprint_files([gguf])
    if path.is_file():
        raise ModelError(
            f"{name} is a file that no model can be loaded from. Pass its folder, a .gguf file or a Hub name."
        )
    if (path / "adapter_config.json").exists():
        raise adapter_as_model(name, path / "adapter_config.json")
    if not (path / "config.json").exists():
        found = ", ".join(sorted(f.name for f in path.iterdir())[:8]) or "nothing"
        raise ModelError(
            f"The folder {name} is no model: it has no config.json; it holds: {found}. "
            "Pass a folder written by save_pretrained, a .gguf file or a Hub name."
        )
    return path, fingerprint_folder(path)


def adapter_as_model(name: str, adapter_config: Path | None) -> ModelError:
    """Return the error for an adapter given as the model; it names the base model where that is known."""
    parent = None
    if adapter_config is not None:
        try:
            parent = json.loads(adapter_config.read_text(encoding="utf-8")).get("base_model_name_or_path")
        except ValueError:  # a broken file names no base model; the advice stays the same
            parent = None
    return ModelError(
        f"{name} is a PEFT adapter, not a model. Pass --model {parent or 'ITS_BASE_MODEL'} --adapter {name}."
    )
