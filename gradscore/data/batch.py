"""Padded batches of rows of about equal length.

On a CPU batching by itself gains nothing, so what counts is padding that is not computed: rows are sorted
by length within a window and cut into batches whose padded size stays under a token budget. A row's score
does not depend on its batch; tests hold this.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradscore.records import EncodedRow


@dataclass(frozen=True)
class Midway:
    """Hidden states at the entrance of one layer, so that a forward pass can start there."""

    hidden: Float[Tensor, "n t d"]
    layer: int
    """Number of the layer that they enter."""
    is_tuple: bool
    """Whether the model's layers return a tuple that begins with the hidden states, rather than these alone."""


@dataclass(frozen=True)
class Batch:
    """Rows as tensors, padded to the longest."""

    rows: tuple[EncodedRow, ...]
    input_ids: Int[Tensor, "n t"]
    attention_mask: Int[Tensor, "n t"]
    """1 on tokens, 0 on padding."""
    position_ids: Int[Tensor, "n t"]
    """Position of each token in its own row, so that the padding side does not matter."""
    target_mask: Bool[Tensor, "n t"]
    """True on target tokens."""
    midway: Midway | None = None
    """What the layers below the first changing one have made of the batch, where that was computed once for all."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_target_tokens(self) -> Int[Tensor, " n"]:
        """Target tokens of each row."""
        return self.target_mask.sum(1)

    @property
    def is_right_padded(self) -> bool:
        """Whether every row begins in the first column: then causal attention needs no mask at all."""
        return bool(self.attention_mask[:, 0].all())


def collate(
    rows: Sequence[EncodedRow],
    pad_id: int,
    device: str | torch.device = "cpu",
    padding_side: Literal["right", "left"] = "right",
) -> Batch:
    """Return the rows as one batch, padded with `pad_id` to the longest of them."""
    shape = (len(rows), max(row.n_tokens for row in rows))
    input_ids = torch.full(shape, pad_id, dtype=torch.long)
    attention_mask = torch.zeros(shape, dtype=torch.long)
    target_mask = torch.zeros(shape, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = (
            slice(0, row.n_tokens) if padding_side == "right" else slice(shape[1] - row.n_tokens, shape[1])
        )
        input_ids[i, place] = torch.from_numpy(row.input_ids)
        target_mask[i, place] = torch.from_numpy(row.target_mask)
        attention_mask[i, place] = 1
    position_ids = (attention_mask.cumsum(1) - 1).clamp(min=0)
    return Batch(
        rows=tuple(rows),
        input_ids=input_ids.to(device),
        attention_mask=attention_mask.to(device),
        position_ids=position_ids.to(device),
        target_mask=target_mask.to(device),
    )


def plan_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None, boundary: int | None = None
) -> list[list[int]]:
    """Return groups of positions in `lengths`, longest rows first, each of at most `max_tokens` padded tokens.

    Longest first, so that a run which is going to be short of memory fails at once. A row longer than the
    budget is a batch of its own. Rows longer than `boundary` are never in a batch with others: some models change
    their positions for the whole batch beyond it (`model.load.position_boundary`). Ties keep the given order: the plan is deterministic.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches: list[list[int]] = []
    for position in order:
        longest = lengths[batches[-1][0]] if batches else 0
        size = len(batches[-1]) + 1 if batches else 0
        fits = size > 0 and longest * size <= max_tokens and (max_rows is None or size <= max_rows)
        if fits and (boundary is None or longest <= boundary or lengths[position] > boundary):
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def padding_share(lengths: Sequence[int], batches: Iterable[Sequence[int]]) -> float:
    """Return the share of computed tokens that are padding, in [0, 1)."""
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths) / padded if padded else 0.0
