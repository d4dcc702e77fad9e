"""Views: the settings of the model under which a row's gradient is taken, and switching between them.

All views are read once and kept beside the model (adapters on its device, full checkpoints in the memory of
the CPU); switching copies tensors in place. So the sweep can visit every view for each batch of rows, which
is what makes a row's score independent of the other rows. A switch of SmolLM2's adapter (2.4M parameters)
takes about 3 ms, against some hundred for a batch.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal

import torch
from peft import PeftModel, get_peft_model_state_dict
from peft.utils import load_peft_weights
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from gradscore.errors import ModelError, StorageError
from gradscore.model.roles import plain_parameter_name

Kind = Literal["adapter", "checkpoint", "dropout", "base"]
FOLDER = "views"
LIST_NAME = "views.json"


@dataclass(frozen=True)
class View:
    """One setting of the model."""

    name: str
    """Unique in its run, such as `member-0/step-000500`."""
    kind: Kind
    member: int = 0
    """Which warm-up run it belongs to; moments are taken over the views of one member."""
    step: int = 0
    """Optimiser steps before it was taken, or its place in the order."""
    path: str | None = None
    """Folder of its weights; None where the weights are the starting ones."""
    seed: int | None = None
    """Seed of a dropout view."""


def view_seed(view: View, row_key: str) -> int:
    """Return the seed of one row's random draws under one view: the same on any machine, in any order."""
    digest = hashlib.sha256(f"{view.seed}\0{view.name}\0{row_key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def single_view() -> View:
    """Return the model as it is: with its adapter if one was given, without training."""
    return View("base", "base")


def with_base(views: Sequence[View]) -> list[View]:
    """Return the views with the starting state before the oldest of each member."""
    members = dict.fromkeys(view.member for view in views)
    return [
        view
        for member in members
        for view in (
            View(f"member-{member}/base", "base", member),
            *(v for v in views if v.member == member),
        )
    ]


def write_views(folder: Path, views: Sequence[View]) -> None:
    """Write `views/views.json` in a run's folder; paths inside it are stored relative, so that it can be moved.

    Raises:
        StorageError: the list cannot be written.
    """
    home = folder / FOLDER
    entries = [asdict(view) for view in views]
    for entry in entries:
        if entry["path"] is not None and Path(entry["path"]).is_relative_to(home.absolute()):
            entry["path"] = str(Path(entry["path"]).relative_to(home.absolute()))
    aside = home / f"{LIST_NAME}.partial"
    try:
        home.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps({"views": entries}, indent=1) + "\n", encoding="utf-8")
        os.replace(aside, home / LIST_NAME)
    except OSError as error:
        raise StorageError(
            f"The list of views {home / LIST_NAME} could not be written: {error}. Make room there, then start again; "
            "views that are complete stay."
        ) from error


def list_views(folder: Path) -> list[View]:
    """Return the views of a run's folder, oldest first per member.

    Raises:
        ModelError: there is no list of views, or it cannot be read.
    """
    home = (folder / FOLDER).absolute()
    try:
        entries = json.loads((home / LIST_NAME).read_text(encoding="utf-8"))["views"]
        views = [View(**entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"The views of {folder} cannot be read from {home / LIST_NAME}: {error}. Run the warm-up again."
        ) from error
    return [v if v.path is None else replace(v, path=str(home / v.path)) for v in views]


class ViewSwitch:
    """Puts a model into any of its views, and back into its starting state at the end.

    Use it as a context manager: `with ViewSwitch(model, views) as switch: switch.activate(view)`. The model's
    state when the switch is made is its starting state: that of base and dropout views.

    Raises:
        ModelError: a view's weights are missing or do not fit the model.
    """

    def __init__(self, model: nn.Module, views: Sequence[View]) -> None:
        stored = [view for view in views if view.path is not None]
        kinds = {view.kind for view in stored}
        if len(kinds) > 1:
            raise ModelError(
                "Views must all be adapters or all be full models; these are both. Pass one kind of checkpoint."
            )
        is_full = kinds == {"checkpoint"}
        self._device = torch.device("cpu") if is_full else next(model.parameters()).device
        self._live = full_tensors(model) if is_full else adapter_tensors(model)
        self._start = {name: t.detach().to(self._device, copy=True) for name, t in self._live.items()}
        self._states = {view: self._read(view) for view in stored}
        self._active: View | None = None

    def activate(self, view: View) -> None:
        """Put the model into `view`; nothing is copied where it already is."""
        if view == self._active:
            return
        self._copy(self._start if view.path is None else self._states[view])
        self._active = view

    def __enter__(self) -> "ViewSwitch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._copy(self._start)
        self._active = None

    def _copy(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._live.items():
                tensor.copy_(state[name])

    def _read(self, view: View) -> dict[str, Tensor]:
        path = str(view.path)
        if view.kind == "adapter":
            state = load_peft_weights(path, device=str(self._device))
        else:
            state = read_full_tensors(path)
        differing = [
            f"{name} is {_shape(state.get(name))} there and {_shape(self._live.get(name))} here"
            for name in sorted(state.keys() | self._live.keys())
            if _shape(state.get(name)) != _shape(self._live.get(name))
        ]
        if differing:
            raise ModelError(
                f"The view {path} does not fit the model: {'; '.join(differing[:3])}. "
                "Pass checkpoints of this model, all of the same kind and rank."
            )
        return state


def adapter_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the adapter's tensors under the names of PEFT's files; they share memory with the parameters."""
    if not isinstance(model, PeftModel):
        return {}
    return get_peft_model_state_dict(model, save_embedding_layers=False)


def full_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of the model without its adapter, under their names in the plain model."""
    return {
        plain_parameter_name(name): p.detach() for name, p in model.named_parameters() if ".lora_" not in name
    }


def read_full_tensors(path: str) -> dict[str, Tensor]:
    """Return the parameters of a model folder, on the CPU.

    Raises:
        ModelError: the folder cannot be loaded, or lacks weights.
    """
    try:
        model, info = AutoModelForCausalLM.from_pretrained(path, dtype="auto", output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"The checkpoint {path} cannot be loaded: {' '.join(str(error).split())[:300]} Check that it is complete."
        ) from error
    if info["missing_keys"]:
        lacking = ", ".join(sorted(info["missing_keys"])[:3])
        raise ModelError(f"The checkpoint {path} lacks weights: {lacking}. Pass a complete one.")
    return full_tensors(model)


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else "×".join(map(str, tensor.shape))
