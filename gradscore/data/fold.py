"""Find out what a chat template can say, and fold what it cannot into plain turns.

Many templates raise on a system turn or print neither tools nor tool calls, so that a call would vanish
from the text without a word. Each ability is probed once, by rendering a small conversation that contains
a made-up word; what the template drops is written into a turn that it does render.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.template import PROBE, ChatTemplate

USER = {"role": "user", "content": "a"}
CALL = {"id": "call00001", "type": "function", "function": {"name": PROBE, "arguments": {}}}
TOOL = {
    "type": "function",
    "function": {"name": PROBE, "description": "a", "parameters": {"type": "object", "properties": {}}},
}


@dataclass(frozen=True)
class Abilities:
    """What a template renders by itself."""

    system: bool
    tools: bool
    tool_calls: bool
    tool_results: bool
    reasoning: bool

    def folds(self) -> list[str]:
        """Return one phrase for everything that has to be folded."""
        phrases = {
            "system": "system turns are put before the first user turn",
            "tools": "function descriptions are put into the system turn as JSON",
            "tool_calls": "function calls are written as JSON into the answer",
            "tool_results": "function results become user turns",
            "reasoning": "reasoning is written as <think>…</think> before the answer",
        }
        return [phrase for ability, phrase in phrases.items() if not getattr(self, ability)]


def probe(template: ChatTemplate) -> Abilities:
    """Return what the template renders, found by trying."""
    calling = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    result = {"role": "tool", "content": PROBE, "name": "a", "tool_call_id": "call00001"}
    tool_calls = _shows(template, [USER, calling])
    harmless = {**CALL, "function": {"name": "a", "arguments": {}}}
    answer = {"role": "assistant", "content": "" if tool_calls else "a"}
    before_result = {**answer, "tool_calls": [harmless]} if tool_calls else answer
    return Abilities(
        system=_shows(template, [{"role": "system", "content": PROBE}, USER]),
        tools=_shows(template, [USER], [TOOL]),
        tool_calls=tool_calls,
        tool_results=_shows(template, [USER, before_result, result]),
        reasoning=_shows(template, [USER, {"role": "assistant", "content": "a", "reasoning_content": PROBE}]),
    )


def _shows(
    template: ChatTemplate, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
) -> bool:
    try:
        return PROBE in template.render(messages, tools)
    except UnusableRowError:
        return False


def fold(conversation: Conversation, abilities: Abilities) -> Conversation:
    """Return the same conversation, with everything that the template cannot say written into plain turns."""
    turns = [
        (_fold_turn(message, abilities), learned)
        for message, learned in zip(conversation.messages, conversation.is_learned, strict=True)
    ]
    tools = conversation.tools
    if tools and not abilities.tools:
        turns = _with_tools_in_system(turns, tools)
        tools = ()
    if not abilities.system:
        turns = _with_system_in_user(turns)
    return Conversation(
        tuple(message for message, _ in turns),
        tuple(learned for _, learned in turns),
        tools,
        side=conversation.side,
    )


Turns = list[tuple[dict[str, Any], bool]]


def _fold_turn(message: Mapping[str, Any], abilities: Abilities) -> dict[str, Any]:
    folded = dict(message)
    if "tool_calls" in folded and not abilities.tool_calls:
        calls = [json.dumps(call["function"], ensure_ascii=False) for call in folded.pop("tool_calls")]
        folded["content"] = "\n".join([*([folded["content"]] if folded["content"] else []), *calls])
    if "reasoning_content" in folded and not abilities.reasoning:
        folded["content"] = f"<think>\n{folded.pop('reasoning_content')}\n</think>\n\n{folded['content']}"
    if folded["role"] == "tool" and not abilities.tool_results:
        folded = {"role": "user", "content": folded["content"]}
    return folded


def _with_tools_in_system(turns: Turns, tools: Sequence[Mapping[str, Any]]) -> Turns:
    described = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    text = f"You may call these functions, described as JSON:\n{described}"
    if turns and turns[0][0]["role"] == "system":
        system = {**turns[0][0], "content": f"{turns[0][0]['content']}\n\n{text}"}
        return [(system, False), *turns[1:]]
    return [({"role": "system", "content": text}, False), *turns]


def _with_system_in_user(turns: Turns) -> Turns:
    """Return the turns with each system turn put before the next user turn, or made one where none follows."""
    folded: Turns = []
    waiting: list[str] = []
    for message, learned in turns:
        if message["role"] == "system":
            waiting.append(message["content"])
            continue
        if waiting and message["role"] == "user":
            message = {**message, "content": "\n\n".join([*waiting, message["content"]])}
        elif waiting:
            folded.append(({"role": "user", "content": "\n\n".join(waiting)}, False))
        waiting = []
        folded.append((message, learned))
    if waiting:
        folded.append(({"role": "user", "content": "\n\n".join(waiting)}, False))
    return folded
