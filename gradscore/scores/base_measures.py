"""Measures from one forward pass of the model without its adapter: losses, distances, entropy.

The views share the pass, since none of them changes it, and where they share lower layers it starts above them too.
"""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gradscore.model.token_statistics import TokenStatistics
from gradscore.records import EncodedRow


def base_measures(
    statistics: TokenStatistics,
    rows: Sequence[EncodedRow],
    stop_ids: Collection[int],
    number_ids: Collection[int],
) -> dict[str, Float[Tensor, " n"]]:
    """Return the measures of the pass for each row, by name; NaN where a row has none."""
    n_rows = len(rows)
    loss = statistics.row_means(statistics.losses, n_rows)
    excess = statistics.losses - statistics.entropies
    numbers = torch.tensor(sorted(number_ids), dtype=torch.long, device=excess.device)
    return {
        "base_loss": loss,
        "perplexity": loss.exp(),
        "el2n": statistics.row_means(statistics.distances, n_rows),
        "entropy": statistics.row_means(statistics.entropies, n_rows),
        "peak_excess": statistics.row_maxima(excess, n_rows),
        "number_excess": statistics.row_maxima(excess, n_rows, torch.isin(statistics.tokens, numbers)),
        "stop_loss": stop_loss(statistics, rows, stop_ids),
    }


def stop_loss(
    statistics: TokenStatistics, rows: Sequence[EncodedRow], stop_ids: Collection[int]
) -> Float[Tensor, " n"]:
    """Return the loss of each row's last target token where that is a stop token, else NaN.

    A row that was truncated has NaN too: its last answer ends where the limit was, or is not its last.
    """
    last = torch.bincount(statistics.rows, minlength=len(rows)).cumsum(0) - 1
    ends = [not row.truncated and int(row.input_ids[row.target_mask][-1]) in stop_ids for row in rows]
    is_stop = torch.tensor(ends, device=last.device)
    return torch.where(is_stop, statistics.losses[last], torch.nan)
