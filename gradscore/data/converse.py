"""Turn one row into a conversation, following the dataset's schema."""

from collections.abc import Callable, Mapping
from typing import Any

from gradscore.config import DataConfig
from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.fields import MISSING, is_null, is_scalar, look_up, to_text
from gradscore.data.schemas import Schema
from gradscore.data.turns import TurnList, parse_tools


def sides_of(schema: Schema, config: DataConfig) -> tuple[str | None, ...]:
    """Return the sides of each row that are scored: one or both of a preference pair, else just None."""
    if schema.name != "preference":
        return (None,)
    return ("chosen", "rejected") if config.side == "both" else (config.side,)


def to_conversation(content: Mapping[str, Any], schema: Schema, side: str | None = None) -> Conversation:
    """Return the conversation that a row holds; numbers become text as JSON writes them.

    Raises:
        UnusableRowError: a needed field is missing, null or of the wrong kind.
    """
    fields = Fields(content, schema)
    if schema.name == "text":
        return Conversation(text=fields.text("text"))
    turns = TurnList()
    CONVERTERS[schema.name](fields, turns, side)
    if not turns.messages:
        raise UnusableRowError("the conversation has no turns")
    return Conversation(
        tuple(turns.messages), tuple(turns.is_learned), parse_tools(fields.get("tools")), side=side
    )


class Fields:
    """A row seen through its schema: values by role."""

    def __init__(self, content: Mapping[str, Any], schema: Schema) -> None:
        self._content = content
        self._schema = schema

    def get(self, role: str) -> Any:
        """Return the value of a role; None where it is absent or null."""
        column = self._schema.columns.get(role)
        value = MISSING if column is None else look_up(self._content, column)
        return None if value is MISSING or is_null(value) else value

    def need(self, role: str) -> Any:
        """Return the value of a role.

        Raises:
            UnusableRowError: it is absent or null.
        """
        value = self.get(role)
        if value is None:
            column = self._schema.columns[role]
            state = "missing" if look_up(self._content, column) is MISSING else "null"
            raise UnusableRowError(f"column {column!r} is {state}")
        return value

    def text(self, role: str, *, default: str | None = None) -> str:
        """Return the value of a role as text; `default` where it is absent or null, if one is given.

        Raises:
            UnusableRowError: it is absent without a default, or not a single value.
        """
        value = self.need(role) if default is None else self.get(role)
        if value is None and default is not None:
            return default
        if not is_scalar(value):
            raise UnusableRowError(
                f"column {self._schema.columns[role]!r} holds a {type(value).__name__}, not text"
            )
        return to_text(value)

    def add_system(self, turns: TurnList) -> None:
        """Open the conversation with the system column's text, if there is any."""
        system = self.text("system", default="")
        if system:
            turns.add("system", system)

    def add_turns(self, turns: TurnList, role: str, *, speaker: str) -> None:
        """Append what a role holds: a list of turns, one turn, or text said by `speaker`.

        Raises:
            UnusableRowError: it is absent, null, or none of these.
        """
        value = self.need(role)
        column = self._schema.columns[role]
        if is_scalar(value):
            turns.add(speaker, to_text(value))
        elif isinstance(value, Mapping):
            turns.add_turn(value, column)
        elif isinstance(value, (list, tuple)):
            for number, turn in enumerate(value):
                turns.add_turn(turn, f"{column}[{number}]")
        else:
            raise UnusableRowError(f"column {column!r} holds a {type(value).__name__}, not turns")


def _alpaca(fields: Fields, turns: TurnList, side: str | None) -> None:
    fields.add_system(turns)
    history = fields.get("history") or []
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in history):
        raise UnusableRowError("the history column is not a list of [question, answer] pairs")
    for number, (question, answer) in enumerate(history):
        turns.add_turn({"role": "user", "content": question}, f"history[{number}][0]")
        turns.add_turn({"role": "assistant", "content": answer}, f"history[{number}][1]")
    turns.add("user", _with_input(fields, fields.text("instruction")))
    turns.add("assistant", fields.text("output"))


def _with_input(fields: Fields, instruction: str) -> str:
    return "\n".join(part for part in (instruction, fields.text("input", default="")) if part)


def _turn_list(role: str) -> Callable[[Fields, TurnList, str | None], None]:
    def convert(fields: Fields, turns: TurnList, side: str | None) -> None:
        if is_scalar(fields.need(role)):
            raise UnusableRowError(f"the {role} column holds a single value, not a list of turns")
        fields.add_system(turns)
        fields.add_turns(turns, role, speaker="user")

    return convert


def _two_columns(asked: str, answered: str) -> Callable[[Fields, TurnList, str | None], None]:
    def convert(fields: Fields, turns: TurnList, side: str | None) -> None:
        fields.add_system(turns)
        fields.add_turns(turns, asked, speaker="user")
        fields.add_turns(turns, answered, speaker="assistant")

    return convert


def _preference(fields: Fields, turns: TurnList, side: str | None) -> None:
    answer = str(side)
    fields.add_system(turns)
    if fields.get("prompt") is not None and not _holds_whole_talk(fields.need(answer)):
        fields.add_turns(turns, "prompt", speaker="user")
        if turns.messages[-1]["role"] == "user":
            turns.messages[-1]["content"] = _with_input(fields, turns.messages[-1]["content"])
    # Only the answer itself is compared; what came before is context on both sides.
    n_before = len(turns.messages)
    fields.add_turns(turns, answer, speaker="assistant")
    turns.is_learned[:n_before] = [False] * n_before
    if _holds_whole_talk(fields.need(answer)):
        turns.is_learned[:-1] = [False] * (len(turns.is_learned) - 1)


def _holds_whole_talk(answer: Any) -> bool:
    """Return whether an answer column repeats the prompt: a list of turns that a user opens."""
    first = answer[0] if isinstance(answer, (list, tuple)) and answer else None
    said = (first.get("role") or first.get("from")) if isinstance(first, Mapping) else None
    return said in ("user", "human", "system")


CONVERTERS: dict[str, Callable[[Fields, TurnList, str | None], None]] = {
    "alpaca": _alpaca,
    "sharegpt": _turn_list("conversations"),
    "messages": _turn_list("messages"),
    "prompt_completion": _two_columns("prompt", "completion"),
    "question_answer": _two_columns("question", "answer"),
    "preference": _preference,
}
