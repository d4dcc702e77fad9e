"""From arrays over a batch to rows of the table: means over members, and a status where there is no score."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from gradscore.records import NON_FINITE, EncodedRow, ScoredRow
from gradscore.scores.member import MemberScores
from gradscore.scores.moments import Moments

Array = np.ndarray
NO_MEASURES: Mapping[str, Float[Array, " n"]] = MappingProxyType({})


def without_scores(row: EncodedRow, source: str, status: str | None = None) -> ScoredRow:
    """Return the table row of an encoded row that has no score, with its status as the reason."""
    return ScoredRow(
        row_index=row.row_index,
        row_key=row.row_key,
        source=source,
        category=row.category,
        side=row.side,
        status=status or row.status,
        n_tokens=row.n_tokens,
        n_target_tokens=row.n_target_tokens,
        truncated=row.truncated,
    )


def with_scores(
    rows: Sequence[EncodedRow],
    members: Sequence[MemberScores],
    source: str,
    measures: Mapping[str, Float[Array, " n"]] = NO_MEASURES,
    detailed: Collection[str] = (),
) -> list[ScoredRow]:
    """Return the table rows of a batch. Every quantity is the mean over members of the member's own value.

    Args:
        rows: of the batch.
        members: their scores under each member.
        source: the dataset that they come from.
        measures: optional columns; a value that is not finite means that the row has none.
        detailed: keys of the rows whose layer norms are kept view by view as well.
    """
    losses = np.mean([member.losses for member in members], axis=0)
    norms = np.mean([member.norms for member in members], axis=0)
    group_norms = np.mean([member.group_norms for member in members], axis=0)
    is_finite = np.all([member.is_finite for member in members], axis=0)
    columns = _moment_columns([member.moments for member in members if member.moments is not None])
    sketches = [member.sketch for member in members if member.sketch is not None]
    sketch = np.mean(sketches, axis=0) if sketches else None
    scored = []
    for i, row in enumerate(rows):
        if not is_finite[i]:
            scored.append(without_scores(row, source, NON_FINITE))
            continue
        values: dict[str, Any] = {name: float(column[i]) for name, column in columns.items()}
        scored.append(
            replace(
                without_scores(row, source),
                n_views=losses.shape[1],
                loss=float(losses[i].mean()),
                loss_first=float(losses[i, 0]),
                loss_last=float(losses[i, -1]),
                grad_norm=float(norms[i].mean()),
                grad_norm_first=float(norms[i, 0]),
                grad_norm_last=float(norms[i, -1]),
                layer_norms=tuple(group_norms[i].mean(0).tolist()),
                view_layer_norms=tuple(group_norms[i].ravel().tolist()) if row.row_key in detailed else None,
                sketch=None if sketch is None else tuple(sketch[i].tolist()),
                measures={name: _finite(column[i]) for name, column in measures.items()},
                **values,
            )
        )
    return scored


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _moment_columns(members: Sequence[Moments]) -> dict[str, Float[Array, " n"]]:
    """Return the GSNR columns: means over members, their spread, and the error of the mean."""
    if not members:
        return {}
    gsnr = np.stack([member.gsnr for member in members])
    columns = {
        "gsnr": gsnr.mean(0),
        "gsnr_unbiased": np.mean([member.gsnr_unbiased for member in members], axis=0),
    }
    errors = [member.gsnr_se for member in members if member.gsnr_se is not None]
    if errors:
        columns["gsnr_se"] = np.sqrt(np.square(errors).sum(0)) / len(members)
    if len(members) > 1:
        with np.errstate(invalid="ignore"):  # rows that are not finite are dropped by is_finite
            columns["gsnr_spread"] = gsnr.std(0, ddof=1)
    return columns
