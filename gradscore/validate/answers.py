"""The answer inside a row of any schema: read it, and write another in its place.

The answer is the text that a person would call so: the output column, or the content of the last assistant
turn that has text. Everything else in the row stays as it is, other turns and other columns included.
"""

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

from gradscore.data.conversation import UnusableRowError
from gradscore.data.converse import to_conversation
from gradscore.data.fields import MISSING, is_scalar, look_up, to_text
from gradscore.data.schemas import Schema
from gradscore.data.turns import ROLES

ANSWER_ROLES = {
    "alpaca": "output",
    "sharegpt": "conversations",
    "messages": "messages",
    "prompt_completion": "completion",
    "question_answer": "answer",
    "preference": "chosen",
    "text": "text",
}
"""Schema to the role that holds the answer, as text or as turns."""
_CONTENT_KEYS = ("content", "value")
_PART_KEYS = ("text", "value")


def read_answer(content: Mapping[str, Any], schema: Schema) -> str | None:
    """Return the row's answer as text; None where it has none that could be replaced by another text."""
    holder = _holder(content, schema)
    if holder is None:
        return None
    value = holder[0][holder[1]]
    text = to_text(value)
    return text if text.strip() else None


def read_question(content: Mapping[str, Any], schema: Schema, side: str | None = None) -> str | None:
    """Return all that stands before the answer, one turn a line; None where the row is no conversation.

    Two rows with an equal question ask the same thing in the same context.
    """
    try:
        conversation = to_conversation(content, schema, side)
    except UnusableRowError:
        return None
    return "\n".join(f"{message['role']}: {message['content']}" for message in conversation.messages[:-1])


def with_answer(content: Mapping[str, Any], schema: Schema, answer: str) -> dict[str, Any]:
    """Return a copy of the row with another answer. The row must have one (`read_answer` is not None)."""
    changed = copy.deepcopy(dict(content))
    holder = _holder(changed, schema)
    assert holder is not None, "only rows with an answer get another"
    holder[0][holder[1]] = answer
    return changed


def _holder(content: Mapping[str, Any], schema: Schema) -> tuple[MutableMapping[str, Any], str] | None:
    """Return the mapping that holds the answer and the answer's key in it; None where there is no such text."""
    column = schema.columns[ANSWER_ROLES[schema.name]]
    value = look_up(content, column)
    if value is MISSING or value is None:
        return None
    if is_scalar(value):
        return _mapping_of(content, column)
    turns = [value] if isinstance(value, Mapping) else value
    if not isinstance(turns, (list, tuple)):
        return None
    for turn in reversed(turns):
        if isinstance(turn, MutableMapping) and _is_answer(turn):
            for key in _CONTENT_KEYS:
                if is_scalar(turn.get(key)):
                    return turn, key
                part = _only_text_part(turn.get(key))
                if part is not None:
                    return part
    return None


def _only_text_part(value: Any) -> tuple[MutableMapping[str, Any], str] | None:
    """Return the one part with text of a content that is a list of typed parts, and the text's key in it."""
    parts = value if isinstance(value, (list, tuple)) else []
    found = [
        (part, key)
        for part in parts
        if isinstance(part, MutableMapping) and part.get("type") == "text"
        for key in _PART_KEYS
        if is_scalar(part.get(key))
    ]
    return found[0] if len(found) == 1 else None


def _is_answer(turn: Mapping[str, Any]) -> bool:
    said = turn.get("role") if turn.get("role") is not None else turn.get("from")
    return ROLES.get(str(said).lower()) == "assistant"


def _mapping_of(content: Mapping[str, Any], column: str) -> tuple[MutableMapping[str, Any], str] | None:
    """Return the innermost mapping on a dotted path, and the last step; see `look_up`."""
    if column in content:
        return content, column  # type: ignore[return-value]  # written to only in with_answer's own copy
    parent, _, last = column.rpartition(".")
    holder = look_up(content, parent) if parent else content
    return (holder, last) if isinstance(holder, MutableMapping) else None
