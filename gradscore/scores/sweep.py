"""The loop: for each batch of rows visit every view, then give the finished rows away.

Sample-major: all views of a batch are taken while it is in hand, so that no gradient is stored beyond it, and a
row's score depends on the row and the views alone. Dropout views draw their masks from a seed of the row's own, one
row at a time, for the same reason.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradscore.config import ScoreConfig
from gradscore.data.batch import Batch, collate, plan_batches
from gradscore.errors import CheckFailedError
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.parameters import CountedParameter, group_names
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.sketch import CountSketch
from gradscore.model.dropout import set_dropout
from gradscore.model.forward import base_model
from gradscore.model.load import position_boundary
from gradscore.model.trunk import Trunk
from gradscore.model.views import View, ViewSwitch, view_seed
from gradscore.records import OK, EncodedRow, ScoredRow
from gradscore.scores.measuring import BatchMeasures, Measuring
from gradscore.scores.member import MemberScores, score_member
from gradscore.scores.rows import with_scores, without_scores

VECTOR_BYTES = {"cpu": 2**30, "cuda": 2**33}
"""Memory for the gradients of one batch under all views; the number of rows in a batch is held under it."""


@dataclass(frozen=True)
class Sweep:
    """All that scoring a row needs, rows apart."""

    model: nn.Module
    engine: GradientEngine
    switch: ViewSwitch
    views: tuple[View, ...]
    parameters: tuple[CountedParameter, ...]
    reduction: Reduction
    scores: ScoreConfig
    source: str
    pad_id: int
    max_batch_tokens: int
    clip: float | None = None
    dropout: float = 0.0
    sketch: CountSketch | None = None
    trunk: Trunk | None = None
    """Layers that all views share; None where every view runs the whole model."""
    detailed: frozenset[str] = frozenset()
    """Keys of the rows whose layer norms are kept view by view."""
    measuring: Measuring | None = None
    """The optional measures that are taken of every row."""

    def score(self, rows: Sequence[EncodedRow]) -> Iterator[list[ScoredRow]]:
        """Yield scored rows batch by batch; rows without a score come at once.

        Raises:
            CheckFailedError: a single row does not fit into memory.
        """
        failed = [without_scores(row, self.source) for row in rows if row.status != OK]
        if failed:
            yield failed
        usable = [row for row in rows if row.status == OK]
        for batch in self.batches(usable):
            yield self._score_batch(batch)

    def gradients(self, rows: Sequence[EncodedRow]) -> Iterator[SampleGradients]:
        """Yield the gradients of usable rows batch by batch, under every view in turn, before any clipping."""
        for batch in self.collated(rows):
            for view in self.views:
                yield self._gradients(view, batch, self.engine)

    def collated(self, rows: Sequence[EncodedRow]) -> Iterator[Batch]:
        """Yield usable rows in batches that are ready for any view."""
        for batch in self.batches(rows):
            yield self.collate(batch)

    def batches(self, rows: Sequence[EncodedRow]) -> Iterator[list[EncodedRow]]:
        """Yield the rows in batches, first the longest, so that a lack of memory shows at once.

        The others come in a fixed random order, so that the time left can be told from the rows done.
        """
        plan = plan_batches(
            [row.n_tokens for row in rows],
            self.max_batch_tokens,
            self.max_rows(),
            position_boundary(base_model(self.model).config),
        )
        later = plan[1:]
        random.Random(0).shuffle(later)
        for places in plan[:1] + later:
            yield [rows[i] for i in places]

    def collate(self, rows: Sequence[EncodedRow]) -> Batch:
        """Return the rows as one batch, already past the layers that all views share."""
        batch = collate(rows, self.pad_id, self._device())
        return batch if self.trunk is None else self.trunk.run(batch)

    def max_rows(self) -> int:
        """Return how many rows a batch may have: one for dropout views, else what their gradients leave room for."""
        if any(view.kind == "dropout" for view in self.views):
            return 1
        coordinates = sum(
            self.reduction.n_kept(self.model.get_parameter(p.name).shape) for p in self.parameters
        )
        views_of_a_member = max(
            len(list(views)) for _, views in groupby(self.views, lambda view: view.member)
        )
        width = (
            8 if self._device().type == "cpu" and next(self.model.parameters()).dtype == torch.float64 else 4
        )
        room = VECTOR_BYTES.get(self._device().type, VECTOR_BYTES["cpu"])
        return max(1, room // (coordinates * views_of_a_member * width))

    def _score_batch(self, rows: list[EncodedRow]) -> list[ScoredRow]:
        """Return the scored rows of one batch; one that does not fit into the GPU's memory is halved."""
        try:
            batch = self.collate(rows)
            measures = None if self.measuring is None else BatchMeasures(self.measuring, batch)
            members = self._score_members(batch, measures)
            columns = {} if measures is None else measures.of_rows(members)
            return with_scores(rows, members, self.source, columns, self.detailed)
        except torch.OutOfMemoryError as error:
            if len(rows) == 1:
                raise CheckFailedError(
                    f"Row {rows[0].row_index} alone ({rows[0].n_tokens} tokens) does not fit into the memory of "
                    f"{self._device()}: {str(error).rstrip('.')}. Pass a smaller --max-length, or --parameters with fewer weights."
                ) from error
        torch.cuda.empty_cache()
        middle = len(rows) // 2
        return self._score_batch(rows[:middle]) + self._score_batch(rows[middle:])

    def _score_members(self, batch: Batch, measures: BatchMeasures | None) -> list[MemberScores]:
        names = tuple(parameter.name for parameter in self.parameters)
        members = []
        for _, group in groupby(self.views, lambda view: view.member):
            views = list(group)
            newest = None if measures is None else measures.newest_engine()
            engines = [self.engine] * (len(views) - 1) + [newest or self.engine]
            gradients = [
                self.scored_gradients(view, batch, engine)
                for view, engine in zip(views, engines, strict=True)
            ]
            member = score_member(gradients, self._groups(), self.scores, names, self.sketch)
            extra = {} if measures is None else measures.of_member(views, gradients)
            members.append(replace(member, measures=extra))
        return members

    def scored_gradients(
        self, view: View, batch: Batch, engine: GradientEngine | None = None
    ) -> SampleGradients:
        """Return the gradients that enter the scores: clipped, if that was asked for; by the sweep's own engine."""
        gradients = self._gradients(view, batch, engine or self.engine)
        return gradients if self.clip is None else gradients.clipped(self.clip)

    def _gradients(self, view: View, batch: Batch, engine: GradientEngine) -> SampleGradients:
        with ExitStack() as stack:
            self.switch.activate(view)
            if view.kind == "dropout":
                stack.enter_context(torch.random.fork_rng(devices=self._cuda_devices()))
                stack.enter_context(set_dropout(self.model, self.dropout))
                torch.manual_seed(view_seed(view, batch.rows[0].row_key))
            return engine.gradients(batch)

    def _groups(self) -> Float[Tensor, "p g"]:
        labels = group_names(self.parameters)
        groups = torch.zeros(len(self.parameters), len(labels), device=self._device())
        for i, parameter in enumerate(self.parameters):
            groups[i, labels.index(parameter.group)] = 1.0
        return groups

    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _cuda_devices(self) -> list[int]:
        return [self._device().index or 0] if self._device().type == "cuda" else []
