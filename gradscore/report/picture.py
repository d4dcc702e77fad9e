"""What a picture of the report is, before it is drawn."""

from dataclasses import dataclass
from typing import Any

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Picture:
    """One picture of the page."""

    name: str
    """Also its file name under `--png`."""
    section: str
    title: str
    note: str
    chart: Any
    is_detail: bool = False
