"""Turn a GGUF file into an ordinary model folder, once, and keep that in the user's cache.

transformers reads GGUF by unpacking the quantised weights, then still calls the model quantised and will not
save or train it. A fresh model with the same weights has no such mark. Unpacking 135M parameters takes about
ten seconds or more against half a second for the saved folder, and snapshots of adapters need a base model that plain
transformers can open; both are reasons to keep the folder.
"""

import importlib.util
import os
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gradscore.errors import ModelError, StorageError
from gradscore.model.fingerprint import fingerprint_files
from gradscore.records import Reporter

CONVERSION = 1
"""Part of the cache key: raise it when the conversion below changes."""


def find_gguf(path: Path) -> Path | None:
    """Return the GGUF file that `path` is, or the only one in a folder without config.json; None if there is none.

    Raises:
        ModelError: the folder holds several GGUF files and nothing else to load.
    """
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    if (path / "config.json").exists():
        return None
    files = sorted(path.glob("*.gguf"))
    if len(files) > 1:
        names = ", ".join(f.name for f in files)
        raise ModelError(f"The folder {path} holds several GGUF files: {names}. Name one of them as --model.")
    return files[0] if files else None


def convert_gguf(file: Path, reporter: Reporter) -> Path:
    """Return the folder of the converted model (float32), from the cache where it was converted before.

    The cache is `$XDG_CACHE_HOME/gradscore` or `~/.cache/gradscore`; its key is the file's content.

    Raises:
        ModelError: the package gguf is missing, or the file cannot be read as a model.
        StorageError: the cache cannot be written.
    """
    digest = fingerprint_files([file]).removeprefix("sha256:")
    folder = _cache_folder() / f"{file.stem}-{digest[:16]}-{CONVERSION}"
    if folder.is_dir():
        return folder
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(
            f"{file.name} is a GGUF file, and the package that reads it is not installed. Run: pip install gguf"
        )
    reporter.message(f"Converting {file.name} once; the result is kept in {folder}.")
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        _save_plain(file, partial)
        _publish(partial, folder)
    except OSError as error:
        raise StorageError(
            f"The converted model could not be kept in {folder.parent}: {error}. "
            "Make room there, or set XDG_CACHE_HOME to another folder."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _publish(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was first; its result is the same
            raise


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "gradscore"


def _save_plain(file: Path, folder: Path) -> None:
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    try:
        quantised = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except (
        Exception
    ) as error:  # the readers of broken files raise what comes, tokenizers even a plain Exception
        raise ModelError(
            f"The GGUF file {file} cannot be read as a model: {error}. "
            "Check that it is whole and of an architecture that transformers reads from GGUF."
        ) from error
    config = type(quantised.config)(
        **{k: v for k, v in quantised.config.to_dict().items() if k != "quantization_config"}
    )
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(quantised.state_dict())
    folder.mkdir(parents=True)
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
