"""Make one list of messages out of the ways in which datasets write turns, roles, parts and tool calls."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradscore.data.conversation import UnusableRowError
from gradscore.data.fields import is_null, is_scalar, to_text

ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "function_call": "function_call",
    "tool_call": "function_call",
    "observation": "tool",
    "function_response": "tool",
    "function": "tool",
    "tool": "tool",
    "ipython": "tool",
}
TEXT_PARTS = ("text", "input_text", "output_text")
REASONING_PARTS = ("reasoning", "thinking")


@dataclass
class TurnList:
    """Messages in the making, with the numbering that ties each tool result to its call."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    is_learned: list[bool] = field(default_factory=list)
    n_calls: int = 0
    open_calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, role: str, content: str, **more: Any) -> None:
        """Append a turn that has content, or nothing but its role where the content is empty."""
        self.messages.append({"role": role, "content": content, **more})
        self.is_learned.append(role == "assistant" and bool(content.strip() or more))

    def add_turn(self, turn: Any, where: str) -> None:
        """Append one turn of a dataset, in ShareGPT or OpenAI spelling.

        Raises:
            UnusableRowError: the turn has no role, an unknown one, or content that is not text.
        """
        if not isinstance(turn, Mapping):
            raise UnusableRowError(f"{where} is a {type(turn).__name__}, not a turn with a role and content")
        said = turn.get("role") if not is_null(turn.get("role")) else turn.get("from")
        role = ROLES.get(str(said).lower())
        if role is None:
            raise UnusableRowError(f"{where} has the role {said!r}; known roles are: {', '.join(ROLES)}")
        content = turn.get("content") if not is_null(turn.get("content")) else turn.get("value")
        calls = [] if is_null(turn.get("tool_calls")) else list(turn["tool_calls"])
        may_be_null = role == "assistant" and bool(calls)
        text, reasoning, part_calls = _parts(content, where, may_be_null=may_be_null)
        if role == "function_call":
            self._add_calls("", _parse_calls(text, where), where)
        elif role == "tool":
            self._add_result(text, turn)
        elif role == "assistant":
            self._add_answer(text, reasoning or turn, [*calls, *part_calls], where)
        else:
            self.add(role, text)
        weight = turn.get("loss_weight")
        if not is_null(weight) and weight == 0:
            self.is_learned[-1] = False

    def _add_answer(
        self, text: str, reasoning: str | Mapping[str, Any], calls: list[Any], where: str
    ) -> None:
        if isinstance(reasoning, Mapping):
            found = reasoning.get("reasoning_content")
            reasoning = to_text(found) if not is_null(found) else ""
        more = {"reasoning_content": reasoning} if reasoning else {}
        if calls:
            self._add_calls(text, calls, where, **more)
        else:
            self.add("assistant", text, **more)

    def _add_calls(self, text: str, calls: list[Any], where: str, **more: Any) -> None:
        numbered = []
        for call in calls:
            self.n_calls += 1
            numbered.append(_to_call(call, self.n_calls, where))
        self.open_calls = list(numbered)
        self.add("assistant", text, tool_calls=numbered, **more)

    def _add_result(self, text: str, turn: Mapping[str, Any]) -> None:
        more = {key: turn[key] for key in ("name", "tool_call_id") if not is_null(turn.get(key))}
        if self.open_calls:
            call = self.open_calls.pop(0)
            more = {"name": call["function"]["name"], "tool_call_id": call["id"], **more}
        self.add("tool", text, **more)


def _parts(content: Any, where: str, *, may_be_null: bool) -> tuple[str, str, list[Any]]:
    """Return a turn's text, reasoning and tool calls, from text or from a list of typed parts."""
    if is_null(content):
        if may_be_null:
            return "", "", []
        raise UnusableRowError(f"{where} has no content (null)")
    if is_scalar(content):
        return to_text(content), "", []
    parts = [content] if isinstance(content, Mapping) else content
    if not isinstance(parts, Sequence):
        raise UnusableRowError(f"{where} has content of type {type(content).__name__}, not text")
    text, reasoning, calls = [], [], []
    for part in parts:
        kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
        value = part if is_scalar(part) else _part_value(part, str(kind))
        if kind in TEXT_PARTS and is_scalar(value):
            text.append(to_text(value))
        elif kind in REASONING_PARTS and is_scalar(value):
            reasoning.append(to_text(value))
        elif kind == "tool_call" and not is_null(value):
            calls.extend(_parse_calls(value, where))
        else:
            raise UnusableRowError(
                f"{where} has a part of type {kind!r} that is not text, reasoning or a tool call"
            )
    return "".join(text), "".join(reasoning), calls


def _part_value(part: Any, kind: str) -> Any:
    if not isinstance(part, Mapping):
        return None
    return next((part[key] for key in ("value", "text", kind) if not is_null(part.get(key))), None)


def _parse_calls(value: Any, where: str) -> list[Any]:
    """Return the calls that JSON text or data describes: one call, or a list of them."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UnusableRowError(f"{where} is a function call, but not valid JSON ({error})") from error
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _to_call(call: Any, number: int, where: str) -> dict[str, Any]:
    inner = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(inner, Mapping) or is_null(inner.get("name")):
        raise UnusableRowError(f"{where} has a function call without a name")
    arguments = inner.get("arguments", inner.get("parameters"))
    if isinstance(arguments, str):
        # Templates want a mapping; a string that is no JSON goes through as it is.
        with contextlib.suppress(ValueError):
            arguments = json.loads(arguments)
    else:
        arguments = without_nulls(arguments or {})
    given = call.get("id")
    # Nine letters or digits: the one form of id that Mistral's templates accept.
    identifier = given if isinstance(given, str) else f"call{number:05d}"
    function = {"name": str(inner["name"]), "arguments": arguments}
    return {"id": identifier, "type": "function", "function": function}


def without_nulls(value: Any) -> Any:
    """Return data without its null fields: Arrow formats give every struct the fields of all others.

    Keys of rows ignore null fields too, so rows with equal keys render alike.
    """
    if isinstance(value, Mapping):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [without_nulls(v) for v in value]
    return value


def parse_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return function descriptions in OpenAI form, from JSON text or data, wrapped or bare.

    Raises:
        UnusableRowError: the column holds something else.
    """
    if is_null(value) or value == "" or value == []:
        return ()
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UnusableRowError(f"the tools column is not valid JSON ({error})") from error
    else:
        value = without_nulls(value)
    tools = [value] if isinstance(value, Mapping) else value
    if not isinstance(tools, (list, tuple)) or not all(isinstance(tool, Mapping) for tool in tools):
        raise UnusableRowError("the tools column does not hold a list of function descriptions")
    return tuple(tool if "function" in tool else {"type": "function", "function": tool} for tool in tools)
