"""The optional measures of a batch, pass by pass: measures that share a pass share it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradscore.config import ScoreConfig
from gradscore.data.alone import AnswerFrame
from gradscore.data.batch import Batch
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.parameters import CountedParameter, is_adapter
from gradscore.gradients.reduction import Reduction
from gradscore.measures import passes_of
from gradscore.model.folds import fold_of
from gradscore.model.forward import Reduction as LossReduction
from gradscore.model.token_statistics import token_statistics
from gradscore.model.views import View, ViewSwitch, single_view
from gradscore.model.without_adapter import without_adapter
from gradscore.records import EncodedRow
from gradscore.scores.base_measures import base_measures
from gradscore.scores.basis import inner_products
from gradscore.scores.contrast import contrast
from gradscore.scores.fold_measures import fold_cosine, fold_measures
from gradscore.scores.influence import Reference
from gradscore.scores.member import MemberScores
from gradscore.scores.token_moments import token_moments
from gradscore.scores.view_measures import consistency, effective_rank, paper_gsnr

Array = np.ndarray
Columns = dict[str, Float[Array, " n"]]


@dataclass(frozen=True)
class Measuring:
    """Which measures are wanted, and what they are taken with."""

    names: tuple[str, ...]
    model: nn.Module
    switch: ViewSwitch
    parameters: tuple[CountedParameter, ...]
    reduction: Reduction
    scores: ScoreConfig
    collated: Callable[[Sequence[EncodedRow]], Iterator[Batch]]
    """Usable rows in batches as the sweep makes them."""
    gradients: Callable[[View, Batch], SampleGradients]
    """Of a batch under a view, as the sweep takes them."""
    loss: LossReduction = "mean"
    """Of the views' losses; measures themselves are means over target tokens."""
    stop_ids: frozenset[int] = frozenset()
    number_ids: frozenset[int] = frozenset()
    """Tokens that end an answer."""
    frame: AnswerFrame | None = None
    """What goes around an answer in place of its instruction; None where no instruction can be left out."""
    references: Mapping[str, Reference] = field(default_factory=dict)
    """What trusted rows ask for under each view, by its name; empty where there are none."""
    n_folds: int = 0
    """Folds of a cross-fitted warm-up, one per member; 0 where every member is shown every row."""
    token_engine: GradientEngine | None = None
    """An engine that watches positions too, for the newest view; None where that is not wanted or cannot be had."""


def whole_adapter_matrices(
    model: nn.Module, parameters: Sequence[CountedParameter], reduction: Reduction
) -> dict[int, torch.Size]:
    """Return place and shape of the counted A and B of an adapter whose gradients are kept whole."""
    shapes = {i: model.get_parameter(p.name).shape for i, p in enumerate(parameters) if is_adapter(p.name)}
    return {i: s for i, s in shapes.items() if len(s) == 2 and reduction.n_kept(s) == s.numel()}


@dataclass(frozen=True)
class BatchMeasures:
    """The measures of one batch while it is in hand. NaN stands where a row has no value."""

    measuring: Measuring
    batch: Batch
    _newest: list[SampleGradients] = field(default_factory=list, repr=False)
    """Of each member so far, where members are compared by direction."""

    def newest_engine(self) -> GradientEngine | None:
        """Return the engine that must take the newest view of the batch, if it matters which; made ready for it."""
        engine = self.measuring.token_engine
        if engine is not None and engine.reduction.positions is not None:
            engine.reduction.positions.start(self.batch)
        return engine

    def of_member(self, views: Sequence[View], gradients: Sequence[SampleGradients]) -> Columns:
        """Return what needs the gradients of one member's views, oldest first."""
        columns: Columns = {}
        if self._wants("effective_rank") and self._matrices:
            shapes = self._matrices
            matrices = [gradients[-1].vectors[i].unflatten(1, shape) for i, shape in shapes.items()]
            columns["effective_rank"] = _numbers(effective_rank(matrices))
        columns |= self._token_moments()
        columns |= self._influence(views, gradients)
        if self._needs("contrast"):
            columns |= self._contrast(views[-1], gradients[-1])
        if self._wants("fold_cosine") and self.measuring.n_folds:
            self._newest.append(gradients[-1])
        return columns

    def of_rows(self, members: Sequence[MemberScores]) -> Columns:
        """Return all measures that were asked for."""
        columns = self._from_views(members)
        if self._needs("base"):
            columns |= self._from_base(members)
        if self._wants("loss_drop_out") and "loss_out" in columns:
            columns["loss_drop_out"] = columns["base_loss"] - self._per_token(columns["loss_out"])
        if self._needs("alone"):
            columns["loss_alone"] = self._loss_alone()
        if self._wants("ifd"):
            with np.errstate(divide="ignore", invalid="ignore"):
                columns["ifd"] = columns["base_loss"] / columns["loss_alone"]
        return {name: columns[name] for name in self.measuring.names if name in columns}

    def _wants(self, name: str) -> bool:
        return name in self.measuring.names

    def _needs(self, work: str) -> bool:
        return work in passes_of(self.measuring.names)

    def _from_views(self, members: Sequence[MemberScores]) -> Columns:
        columns = {
            name: np.mean([member.measures[name] for member in members], axis=0)
            for name in members[0].measures
        }
        products = [member.products for member in members if member.products is not None]
        if products:
            scores = self.measuring.scores
            columns["consistency"] = np.mean([consistency(p) for p in products], axis=0)
            columns["gsnr_paper"] = paper_gsnr(
                np.stack([member.norms[:, 0] for member in members]),
                np.stack([member.norms[:, -1] for member in members]),
                scores.epsilon,
                scores.gsnr_paper,
            )
        if self.measuring.n_folds:
            folds = [fold_of(row.row_key, self.measuring.n_folds) for row in self.batch.rows]
            columns |= fold_measures(members, np.array(folds))
            if self._newest:
                columns["fold_cosine"] = fold_cosine(inner_products(self._newest), np.array(folds))
        return columns

    def _from_base(self, members: Sequence[MemberScores]) -> Columns:
        self.measuring.switch.activate(single_view())
        with without_adapter(self.measuring.model):
            statistics = token_statistics(self.measuring.model, self.batch)
        measuring = self.measuring
        found = base_measures(statistics, self.batch.rows, measuring.stop_ids, measuring.number_ids)
        columns = {name: _numbers(values) for name, values in found.items()}
        newest = np.mean([member.losses[:, -1] for member in members], axis=0)
        columns["loss_drop"] = columns["base_loss"] - self._per_token(newest)
        return columns

    def _per_token(self, losses: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return losses of views as means over target tokens, which measures are."""
        return losses / _numbers(self.batch.n_target_tokens) if self.measuring.loss == "sum" else losses

    def _token_moments(self) -> Columns:
        engine = self.measuring.token_engine
        if engine is None or engine.reduction.positions is None:
            return {}
        found = token_moments(
            engine.reduction.positions.squares(),
            engine.reduction.positions.total_squared(),
            self.batch.n_target_tokens,
            self.measuring.scores.epsilon,
        )
        return {
            "gsnr_token": _numbers(found.gsnr),
            "gsnr_token_unbiased": _numbers(found.gsnr_unbiased),
        }

    def _influence(self, views: Sequence[View], gradients: Sequence[SampleGradients]) -> Columns:
        references = self.measuring.references
        if not references:
            return {}
        pairs = [(references[view.name], g) for view, g in zip(views, gradients, strict=True)]
        columns = {"influence": np.mean([_numbers(r.influence(g)) for r, g in pairs], axis=0)}
        if self._wants("influence_category"):
            categories = [row.category for row in self.batch.rows]
            found = [_numbers(r.influence_by_category(g, categories)) for r, g in pairs]
            columns["influence_category"] = np.mean(found, axis=0)
        return columns

    @cached_property
    def _matrices(self) -> dict[int, torch.Size]:
        measuring = self.measuring
        return whole_adapter_matrices(measuring.model, measuring.parameters, measuring.reduction)

    @cached_property
    def _alone(self) -> list[tuple[list[int], Batch]]:
        """The rows that have one without their instruction, in batches, each with the places of its rows."""
        frame = self.measuring.frame
        if frame is None:
            return []
        rows = {i: alone for i, row in enumerate(self.batch.rows) if (alone := frame.alone(row)) is not None}
        places = {(row.row_index, row.side): i for i, row in rows.items()}
        batches = self.measuring.collated(list(rows.values()))
        return [([places[row.row_index, row.side] for row in batch.rows], batch) for batch in batches]

    def _loss_alone(self) -> Float[Array, " n"]:
        losses = np.full(len(self.batch), np.nan)
        self.measuring.switch.activate(single_view())
        with without_adapter(self.measuring.model):
            for places, batch in self._alone:
                statistics = token_statistics(self.measuring.model, batch)
                losses[places] = _numbers(statistics.row_means(statistics.losses, len(batch)))
        return losses

    def _contrast(self, view: View, given: SampleGradients) -> Columns:
        columns = {name: np.full(len(self.batch), np.nan) for name in ("contrast_norm", "contrast_cosine")}
        for places, batch in self._alone:
            found = contrast(given.picked(places), self.measuring.gradients(view, batch))
            for name, values in zip(columns, found, strict=True):
                columns[name][places] = _numbers(values)
        return columns


def _numbers(values: Tensor) -> Float[Array, " n"]:
    return values.double().cpu().numpy()
