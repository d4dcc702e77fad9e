"""Reach a value inside a row by a dotted path, and turn single values into text."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

MISSING = object()
"""What `look_up` returns where the path leads nowhere; a null that is there is None."""


def look_up(content: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path such as `meta.source` or `instances.0.output`, or MISSING.

    A column whose name itself contains the dots is taken first.
    """
    if path in content:
        return content[path]
    value: Any = content
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str) and step.isdigit():
            if int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def is_null(value: Any) -> bool:
    """Return whether a value says nothing: None, or the NaN that table formats write for an empty cell."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_scalar(value: Any) -> bool:
    """Return whether a value is text, a number or a truth value."""
    return isinstance(value, (str, int, float, bool))


def to_text(value: Any) -> str:
    """Return text as it is, and a number, truth value, list or struct as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
