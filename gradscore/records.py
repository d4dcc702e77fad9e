"""The few values that travel along the line, from a row of the dataset to a row of the table.

A row is read (`Row`), rendered and tokenised (`EncodedRow`), scored (`ScoredRow`) and written to the
table. All are frozen; each stage makes the next record and changes none. Nothing here needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

OK = "ok"
NO_TARGET_TOKENS = "no_target_tokens"
TOO_LONG = "too_long"
NON_FINITE = "non_finite"
INVALID_PREFIX = "invalid: "


def invalid(reason: str) -> str:
    """Return the status of a row that could not be used, with its reason."""
    return INVALID_PREFIX + reason


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the source, as it was read."""

    row_index: int
    """Position in the source, from 0."""
    row_key: str
    """128-bit hash of the row's canonical content, 32 hex digits; equal content gives equal key."""
    content: Mapping[str, Any]
    """Column name to value; empty when `problem` is set."""
    category: str | None = None
    """Value of the category column as text, when one was named."""
    problem: str | None = None
    """Why the row could not be read; None for a readable row."""
    raw: bytes | None = None
    """The row's exact bytes in a line-based source, without the line end, so that it can be written back."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """Where rows came from: stored with the table, so that a filter finds the same rows again."""

    dataset: str
    """Absolute path of a local source, or the name of a Hub dataset."""
    format: str
    """`jsonl`, `json`, `parquet`, `csv`, `tsv`, `saved` (save_to_disk folder) or `hub`."""
    columns: tuple[str, ...]
    """Columns in source order; for JSON, of the first row that could be read."""
    n_rows: int
    """Rows in the source before any limit, sample or shard."""
    split: str | None = None
    subset: str | None = None
    data_files: str | None = None


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """One row as tokens, with the tokens that enter the loss marked."""

    row_index: int
    row_key: str
    status: str
    """`ok`, or why the row has no score."""
    input_ids: NDArray[np.int64] = field(repr=False)
    """Token ids, [t]; empty when the row could not be encoded."""
    target_mask: NDArray[np.bool_] = field(repr=False)
    """True where the token is a target, [t]: its own loss, given the tokens before it, is counted."""
    n_tokens: int = 0
    """Tokens that the model sees, after truncation."""
    n_target_tokens: int = 0
    """Target tokens among them. The first token of a sequence can never be a target."""
    truncated: bool = False
    category: str | None = None
    side: str | None = None
    """`chosen` or `rejected` for a preference pair, else None."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One row of the score table. Scores are None wherever `status` is not `ok`; they are never 0 for that."""

    row_index: int
    row_key: str
    source: str
    category: str | None
    side: str | None
    status: str
    n_tokens: int
    n_target_tokens: int
    truncated: bool
    n_views: int = 0
    loss: float | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    grad_norm: float | None = None
    grad_norm_first: float | None = None
    grad_norm_last: float | None = None
    gsnr: float | None = None
    gsnr_unbiased: float | None = None
    gsnr_se: float | None = None
    gsnr_spread: float | None = None
    layer_norms: tuple[float, ...] | None = None
    view_layer_norms: tuple[float, ...] | None = None
    sketch: tuple[float, ...] | None = None
    measures: Mapping[str, float | None] = field(default_factory=dict)
    """The optional columns that were asked for, by name; see `gradscore.measures`."""


@runtime_checkable  # the tests check the types of arguments while they run
class Reporter(Protocol):
    """What a stage tells while it works. The command line draws a progress bar; a library may stay silent."""

    def message(self, text: str) -> None:
        """Say one line."""

    def start(self, what: str, total: int | None, unit: str = "rows") -> None:
        """Open a progress display over `total` units."""

    def advance(self, n: int = 1) -> None:
        """Say that `n` more units are done."""

    def finish(self) -> None:
        """Close the progress display that is open."""


class SilentReporter:
    """A reporter that says nothing."""

    def message(self, text: str) -> None:
        """Ignore the line."""

    def start(self, what: str, total: int | None, unit: str = "rows") -> None:
        """Ignore the start."""

    def advance(self, n: int = 1) -> None:
        """Ignore the step."""

    def finish(self) -> None:
        """Ignore the end."""
