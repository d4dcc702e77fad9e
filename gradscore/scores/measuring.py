"""The optional measures of a batch, pass by pass: measures that share a pass share it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradscore.config import ScoreConfig
from gradscore.data.batch import Batch
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.parameters import CountedParameter, is_adapter
from gradscore.gradients.reduction import Reduction
from gradscore.measures import passes_of
from gradscore.model.forward import Reduction as LossReduction
from gradscore.model.token_statistics import token_statistics
from gradscore.model.views import ViewSwitch, single_view
from gradscore.model.without_adapter import without_adapter
from gradscore.scores.base_measures import base_measures
from gradscore.scores.member import MemberScores
from gradscore.scores.view_measures import consistency, effective_rank, paper_gsnr

Array = np.ndarray
Columns = dict[str, Float[Array, " n"]]


@dataclass(frozen=True)
class Measuring:
    """Which measures are wanted of every batch, and what they are taken with."""

    names: tuple[str, ...]
    model: nn.Module
    switch: ViewSwitch
    parameters: tuple[CountedParameter, ...]
    reduction: Reduction
    scores: ScoreConfig
    loss: LossReduction = "mean"
    """Of the views' losses; measures themselves are means over target tokens."""
    stop_ids: frozenset[int] = frozenset()
    """Tokens that end an answer."""

    def of_member(self, views: Sequence[SampleGradients]) -> Columns:
        """Return what needs the gradients of one member's views, oldest first; NaN where there is no value."""
        if "effective_rank" not in self.names:
            return {}
        newest = views[-1].vectors
        matrices = [newest[i].unflatten(1, shape) for i, shape in self._adapter_places().items()]
        return {"effective_rank": _numbers(effective_rank(matrices))} if matrices else {}

    def of_rows(self, batch: Batch, members: Sequence[MemberScores]) -> Columns:
        """Return all measures of the batch's rows; NaN where there is no value."""
        columns = self._from_views(members)
        columns |= self._from_base(batch, members)
        return {name: columns[name] for name in self.names if name in columns}

    def why_not(self, name: str) -> str | None:
        """Return why a measure would be empty in this run, or None if nothing is in its way."""
        if name == "effective_rank" and not self._adapter_places():
            return "it needs a counted LoRA adapter, without --stride and --projection"
        return None

    def _from_views(self, members: Sequence[MemberScores]) -> Columns:
        columns = _means([member.measures for member in members])
        if members[0].products is None:
            return columns
        columns["consistency"] = np.mean(
            [consistency(m.products) for m in members if m.products is not None], 0
        )
        columns["gsnr_paper"] = paper_gsnr(
            np.stack([member.norms[:, 0] for member in members]),
            np.stack([member.norms[:, -1] for member in members]),
            self.scores.epsilon,
            self.scores.gsnr_paper,
        )
        return columns

    def _from_base(self, batch: Batch, members: Sequence[MemberScores]) -> Columns:
        if "base" not in passes_of(self.names):
            return {}
        self.switch.activate(single_view())
        with without_adapter(self.model):
            statistics = token_statistics(self.model, batch)
        found = base_measures(statistics, batch.rows, self.stop_ids)
        columns = {name: _numbers(values) for name, values in found.items()}
        newest = np.mean([member.losses[:, -1] for member in members], axis=0)
        if self.loss == "sum":
            newest = newest / _numbers(batch.n_target_tokens)
        columns["loss_drop"] = columns["base_loss"] - newest
        return columns

    def _adapter_places(self) -> dict[int, torch.Size]:
        """Return place and shape of the counted A and B whose gradients are kept whole."""
        shapes = {
            i: self.model.get_parameter(p.name).shape
            for i, p in enumerate(self.parameters)
            if is_adapter(p.name)
        }
        return {i: s for i, s in shapes.items() if len(s) == 2 and self.reduction.n_kept(s) == s.numel()}


def _means(members: Sequence[Columns]) -> Columns:
    return {name: np.mean([member[name] for member in members], axis=0) for name in members[0]}


def _numbers(values: Tensor) -> Float[Array, " n"]:
    return values.double().cpu().numpy()
