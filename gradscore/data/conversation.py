"""The one shape that every schema becomes: messages as chat templates want them, or plain text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Conversation:
    """What one row says, ready to be rendered: messages, or text that is a target as a whole."""

    messages: tuple[Mapping[str, Any], ...] = ()
    """Turns with `role` (system, user, assistant, tool) and `content` (text); an assistant turn may have
    `tool_calls` and `reasoning_content`, a tool turn `tool_call_id` and `name`."""
    is_learned: tuple[bool, ...] = ()
    """Per message: whether it may be a target. An empty answer or one of loss weight 0 may not."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Function descriptions that the assistant may call."""
    text: str | None = None
    """Plain text without turns; then `messages` is empty."""
    side: str | None = None
    """`chosen` or `rejected` for an answer of a preference pair."""


class UnusableRowError(Exception):
    """Why one row cannot become a conversation; the encoder turns it into the row's status."""
