"""What the encoder makes of a dataset: a few rows as text with their targets, and counts over all rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from gradscore.data.encode import Encoder
from gradscore.records import INVALID_PREFIX, NO_TARGET_TOKENS, OK, TOO_LONG, EncodedRow, Row

COUNTED = (
    "rows", OK, TOO_LONG, NO_TARGET_TOKENS, "invalid", "truncated", "empty", "promptless", "tokens", "target_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class RowPreview:
    """One encoded row as text."""

    row_index: int
    side: str | None
    status: str
    n_tokens: int
    n_target_tokens: int
    truncated: bool
    pieces: tuple[tuple[str, bool], ...]
    """The decoded tokens in order, neighbours of the same kind together: text, and whether it is a target."""


@dataclass(frozen=True)
class Preview:
    """The first rows as text, and how all rows fared."""

    rows: tuple[RowPreview, ...]
    counts: dict[str, int]
    """Rows by status, and across it `truncated`, `empty` (no target in the whole row, so none was cut away) and
    `promptless` (usable, but all that stood before the answer was cut away, or there never was anything);
    then `tokens` and `target_tokens` of the rows that are ok. Each side of a preference pair counts as a row."""


def preview(rows: Iterable[Row], encoder: Encoder, n_shown: int) -> Preview:
    """Return the first `n_shown` rows as text, and counts over all rows."""
    shown: list[RowPreview] = []
    counts = dict.fromkeys(COUNTED, 0)
    for number, row in enumerate(rows):
        for encoded in encoder.encode(row):
            count_row(counts, encoded)
            if number < n_shown:
                shown.append(show(encoded, encoder.tokenizer))
    return Preview(tuple(shown), counts)


def count_row(counts: dict[str, int], encoded: EncodedRow) -> None:
    """Add one encoded row to counts that have the keys `COUNTED`."""
    counts["rows"] += 1
    counts["invalid" if encoded.status.startswith(INVALID_PREFIX) else encoded.status] += 1
    counts["truncated"] += encoded.truncated
    counts["empty"] += encoded.status == NO_TARGET_TOKENS and not encoded.truncated
    if encoded.status == OK:
        counts["promptless"] += bool(encoded.target_mask[1])
        counts["tokens"] += encoded.n_tokens
        counts["target_tokens"] += encoded.n_target_tokens


def show(encoded: EncodedRow, tokenizer: PreTrainedTokenizerBase) -> RowPreview:
    """Return an encoded row as text, split where targets begin and end."""
    changes = np.flatnonzero(np.diff(encoded.target_mask)) + 1
    ends = [*changes.tolist(), len(encoded.input_ids)] if len(encoded.input_ids) else []
    pieces, decoded = [], ""
    for end in ends:
        # Decoded from the start each time: a piece alone would lose the space that opens it in some tokenizers.
        upto = tokenizer.decode(encoded.input_ids[:end], clean_up_tokenization_spaces=False)
        pieces.append((upto[len(decoded) :], bool(encoded.target_mask[end - 1])))
        decoded = upto
    return RowPreview(
        encoded.row_index,
        encoded.side,
        encoded.status,
        encoded.n_tokens,
        encoded.n_target_tokens,
        encoded.truncated,
        tuple(pieces),
    )


def to_json(encoded: EncodedRow) -> dict[str, Any]:
    """Return what anyone needs to recompute a row's scores: its key, tokens, target mask (0 or 1) and status."""
    record = {
        "row_index": encoded.row_index,
        "row_key": encoded.row_key,
        "input_ids": encoded.input_ids.tolist(),
        "target_mask": encoded.target_mask.astype(int).tolist(),
        "status": encoded.status,
    }
    return record if encoded.side is None else {**record, "side": encoded.side}
