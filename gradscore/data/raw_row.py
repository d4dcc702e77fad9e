"""What a format reader hands over: one row's content or what is wrong with it, before it has an index and a key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file, or the reason why it could not be read."""

    content: Mapping[str, Any] | None
    """Column name to value; None when `problem` is set."""
    problem: str | None = None
    """What is wrong, with the line and column where they are known."""
    raw: bytes | None = None
    """Exact bytes of the row without line end, in a line-based file."""
