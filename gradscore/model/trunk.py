"""The frozen layers under the first changing one, run once per batch for all views.

Views that differ in the upper layers alone agree on everything below them, so what enters the first of these is
computed once, without a graph, and every view starts there. With the adapter on the upper quarter of the layers
four views cost less than two plain passes instead of four (`docs/benchmarks.md`). If asked, the hidden states are kept
on disk as well: then warm-up, self-check and every view together run the frozen layers once per row.

Whether a model allows it is tried on a batch before any work: some carry more from layer to layer than the hidden
states, and these are run whole for every view, which is said.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from gradscore.data.batch import Batch, Midway
from gradscore.errors import StorageError
from gradscore.model.forward import base_model, decoder_inputs, sample_losses
from gradscore.model.midway import midway_of, numbered_layers
from gradscore.model.roles import layer_index, module_role
from gradscore.records import EncodedRow, Reporter

TOLERANCE = 1e-5
"""Largest relative difference of a row's loss between a shared and a whole pass, in float32."""


def first_changing_layer(names: Iterable[str]) -> int:
    """Return the lowest layer that holds one of these parameters; 0 if any lies below the layers or beside them."""
    inside = [layer_index(name) for name in names if module_role(name) != "head"]
    return 0 if not inside else min(index or 0 for index in inside)


@dataclass(frozen=True)
class Trunk:
    """The layers below number `layer`, and where their output is kept."""

    model: nn.Module
    layer: int
    folder: Path | None = None
    """Where each row's hidden states are kept; None keeps nothing."""

    def run(self, batch: Batch) -> Batch:
        """Return the batch midway: with the hidden states that enter the first changing layer."""
        kept = None if self.folder is None else self._load(batch)
        if kept is not None:
            return replace(batch, midway=kept)
        causal = base_model(self.model)
        with torch.no_grad():
            midway = midway_of(causal, self.layer, lambda: causal(**decoder_inputs(causal, batch)))
        if self.folder is not None:
            self._save(batch, midway)
        return replace(batch, midway=midway)

    def discard(self) -> None:
        """Remove what was kept on disk."""
        if self.folder is not None and self.folder.is_dir():
            shutil.rmtree(self.folder)

    def _load(self, batch: Batch) -> Midway | None:
        """Return the kept hidden states, padded with zeros; None unless every row is there."""
        assert self.folder is not None
        paths = [self._path(row) for row in batch.rows]
        if not all(path.exists() for path in paths):
            return None
        files = [load_file(path) for path in paths]
        hidden = torch.zeros(
            *batch.input_ids.shape, files[0]["hidden"].shape[1], dtype=files[0]["hidden"].dtype
        )
        for i, file in enumerate(files):
            hidden[i, batch.attention_mask[i].bool().cpu()] = file["hidden"]
        return Midway(hidden.to(batch.input_ids.device), self.layer, bool(files[0]["is_tuple"]))

    def _save(self, batch: Batch, midway: Midway) -> None:
        assert self.folder is not None
        is_tuple = torch.tensor(midway.is_tuple)
        for row, hidden, mask in zip(batch.rows, midway.hidden, batch.attention_mask.bool(), strict=True):
            path = self._path(row)
            aside = path.with_suffix(".partial")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                save_file({"hidden": hidden[mask].cpu().contiguous(), "is_tuple": is_tuple}, aside)
                os.replace(aside, path)
            except (OSError, SafetensorError) as error:
                raise StorageError(
                    f"The hidden states of row {row.row_index} could not be kept in {self.folder}: {error}. Make room "
                    "there or leave out --cache-trunk, then start again; what is finished stays."
                ) from error

    def _path(self, row: EncodedRow) -> Path:
        assert self.folder is not None
        digest = hashlib.blake2b(row.input_ids.tobytes(), digest_size=16).hexdigest()
        return self.folder / digest[:2] / f"{digest}.safetensors"


def shared_trunk(
    model: nn.Module,
    changing: Collection[str],
    probe: Batch,
    reporter: Reporter,
    folder: Path | None = None,
) -> Trunk | None:
    """Return the layers that all views share, or None where there are none or where the model does not allow it.

    Args:
        model: in its starting state.
        changing: names of the parameters that views replace or that are counted.
        probe: a few rows on which a shared pass is held against a whole one.
        reporter: is told what is shared, or why nothing is.
        folder: where hidden states are kept between passes, if that was asked for.
    """
    layers = numbered_layers(base_model(model))
    layer = first_changing_layer(changing)
    if layer == 0 or not layers:
        return None
    trunk = Trunk(model, layer)
    difference = _difference(model, trunk, probe)
    if not difference <= TOLERANCE:
        reporter.message(
            f"{type(base_model(model)).__name__} carries more from layer to layer than hidden states (a pass that starts at "
            f"layer {layer} differs by {difference:.0e}), so every view runs all {len(layers)} layers."
        )
        return None
    below = "Layer 0" if layer == 1 else f"Layers 0 to {layer - 1}"
    reporter.message(f"{below} of {len(layers)} run once per batch, since all views agree on them")
    return replace(trunk, folder=folder)


def _difference(model: nn.Module, trunk: Trunk, probe: Batch) -> float:
    with torch.no_grad():
        whole = sample_losses(model, probe)
        shared = sample_losses(model, trunk.run(probe))
    return float(((whole - shared).abs() / whole.abs()).max())
