"""What a forward pass says about every target token: loss, entropy, and distance from the right answer.

Needs whole distributions, but never more of them than `LOGITS_PER_CHUNK` at a time: the decoder runs once, and the
head runs over the positions that predict a target, chunk by chunk. No graph is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gradscore.data.batch import Batch
from gradscore.model import forward
from gradscore.model.forward import (
    PLAIN_HEADS,
    base_model,
    capped,
    decoder_inputs,
    own_head_logits,
    started,
    wide,
)


@dataclass(frozen=True)
class TokenStatistics:
    """One entry per target token of a batch, row by row and in order."""

    rows: Int[Tensor, " m"]
    """Row of the batch that the token is in."""
    losses: Float[Tensor, " m"]
    """-ln p(token), in nats."""
    entropies: Float[Tensor, " m"]
    """-sum_v p_v ln p_v, in nats."""
    distances: Float[Tensor, " m"]
    """||p - onehot(token)||_2."""
    tokens: Int[Tensor, " m"]
    """The target tokens themselves."""

    def row_means(self, values: Float[Tensor, " m"], n_rows: int) -> Float[Tensor, " n"]:
        """Return the mean of a statistic over each row's target tokens."""
        totals = values.new_zeros(n_rows).index_add(0, self.rows, values)
        return totals / torch.bincount(self.rows, minlength=n_rows)

    def row_maxima(
        self, values: Float[Tensor, " m"], n_rows: int, counts: Bool[Tensor, " m"] | None = None
    ) -> Float[Tensor, " n"]:
        """Return the largest value over each row's target tokens, or over those that count; NaN where none does."""
        chosen = torch.ones_like(self.rows, dtype=torch.bool) if counts is None else counts
        largest = values.new_full((n_rows,), torch.nan)
        return largest.scatter_reduce(0, self.rows[chosen], values[chosen], "amax", include_self=False)


def token_statistics(model: nn.Module, batch: Batch) -> TokenStatistics:
    """Return the statistics of all target tokens under the model's present state."""
    rows, columns = torch.nonzero(batch.target_mask[:, 1:], as_tuple=True)
    labels = batch.input_ids[rows, columns + 1]
    losses, entropies, distances = [], [], []
    with torch.no_grad():
        for logits, wanted in _logits(model, batch, rows, columns, labels):
            log_p = functional.log_softmax(wide(logits), dim=1)
            p = log_p.exp()
            picked = log_p.gather(1, wanted[:, None])[:, 0]
            losses.append(-picked)
            # p ln p is 0 where p is: a product of zero and minus infinity would be NaN.
            entropies.append(-torch.special.xlogy(p, p).sum(1))
            squared = p.square().sum(1) - 2 * picked.exp() + 1
            distances.append(squared.clamp(min=0.0).sqrt())
    return TokenStatistics(rows, torch.cat(losses), torch.cat(entropies), torch.cat(distances), labels)


def _logits(
    model: nn.Module, batch: Batch, rows: Tensor, columns: Tensor, labels: Tensor
) -> Iterator[tuple[Float[Tensor, "m v"], Int[Tensor, " m"]]]:
    """Yield logits and target tokens by chunks of target positions."""
    causal = base_model(model)
    if causal.config.model_type not in PLAIN_HEADS:
        yield own_head_logits(causal, batch, rows, columns), labels
        return
    with started(causal, batch):
        hidden = causal.get_decoder()(**decoder_inputs(causal.get_decoder(), batch)).last_hidden_state
    head = causal.get_output_embeddings()
    soft_cap = getattr(causal.config, "final_logit_softcapping", None)
    per_chunk = max(1, forward.LOGITS_PER_CHUNK // causal.config.vocab_size)
    for h, wanted in zip(hidden[rows, columns].split(per_chunk), labels.split(per_chunk), strict=True):
        yield capped(head(h), soft_cap), wanted
