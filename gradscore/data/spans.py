"""Find where the answers lie in a rendered conversation, from the template's own structure.

A template with `{% generation %}` marks says it itself. For any other, an answer is what rendering adds:
the text up to turn i with the opening of an answer must be the beginning of the text up to and including
turn i, and that the beginning of the whole. Text is never searched for the answer, which may occur in the
prompt too. The stop token belongs to its answer; white space after it does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.template import ChatTemplate

Span = tuple[int, int]
REWRITES = "the template rewrites earlier turns; use --turns last"
NOT_AS_OPENED = "the template does not begin an answer as it opens one (add_generation_prompt)"
NO_QUESTION = "the conversation opens with an answer, so there is nothing that it answers"


def answer_spans(
    template: ChatTemplate, conversation: Conversation, targets: Sequence[int]
) -> tuple[str, list[Span]]:
    """Return the conversation's text, and the half-open character range of the answer in each target turn.

    Raises:
        UnusableRowError: the template refuses the conversation, or its structure does not show the answers.
    """
    if template.has_generation_marks:
        return _marked_spans(template, conversation, targets)
    text = template.render(conversation.messages, conversation.tools)
    return text, [_added_span(template, conversation, index, text) for index in targets]


def _marked_spans(
    template: ChatTemplate, conversation: Conversation, targets: Sequence[int]
) -> tuple[str, list[Span]]:
    text, marked = template.render_marked(conversation.messages, conversation.tools)
    answers = [i for i, message in enumerate(conversation.messages) if message["role"] == "assistant"]
    if len(marked) != len(answers):
        marked = _joined(text, marked)
    if len(marked) == len(answers):
        by_turn = dict(zip(answers, marked, strict=True))
        marked = [by_turn[index] for index in targets]
    elif list(targets) != answers:
        raise UnusableRowError(
            f"the template marks {len(marked)} generated parts for {len(answers)} assistant turns, "
            "so that one turn cannot be told from the others; use --turns all"
        )
    return text, [_with_stop(template, text, span) for span in marked]


def _joined(text: str, marked: Sequence[Span]) -> list[Span]:
    """Return the marked parts with neighbours joined: some templates mark an answer and its stop token apart."""
    joined: list[Span] = []
    for start, end in marked:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _with_stop(template: ChatTemplate, text: str, span: Span) -> Span:
    """Return the span up to its stop token, which some templates leave outside their marks."""
    start, end = span
    stripped = start + len(text[start:end].rstrip())
    # An end token inside the marks is at the end already; one outside follows the span directly.
    if any(text.endswith(token, start, stripped) for token in template.stop_tokens):
        return start, stripped
    stop = next((token for token in template.stop_tokens if text.startswith(token, end)), "")
    return (start, end + len(stop)) if stop else (start, stripped)


def _added_span(template: ChatTemplate, conversation: Conversation, index: int, text: str) -> Span:
    messages, tools = conversation.messages, conversation.tools
    if index == 0:
        raise UnusableRowError(NO_QUESTION)
    before = template.render(messages[:index], tools, opens_answer=True)
    upto = text if index == len(messages) - 1 else template.render(messages[: index + 1], tools)
    if text.startswith(upto) and upto.startswith(before):
        return len(before), max(len(before), len(upto.rstrip()))
    return _framed_span(template, conversation, index, text=text, before=before)


def _framed_span(
    template: ChatTemplate, conversation: Conversation, index: int, *, text: str, before: str
) -> Span:
    """Return the span of an answer that the template writes otherwise than it opens it, or than it writes the last.

    Qwen3 opens only the last answer with an empty thinking block; Nemotron opens one with `<think>` that an
    answer without reasoning does not have. The text is rendered twice more with one letter in place of the
    answer (of the function's name, in a call): what both have in common is the frame around it, and the
    answer must fit into the frame unchanged. The stop token is what follows the answer when it is the last.
    """
    is_last = index == len(conversation.messages) - 1
    message = conversation.messages[index]
    frame, after = _frame(template, conversation, index)
    tail = after if is_last else _frame(template, _cut(conversation, index + 1), index)[1]
    framed = text[len(frame) : len(text) - len(after)]
    is_framed = (
        text.startswith(frame) and text.endswith(after) and framed.strip() == _framed_text(message).strip()
    )
    is_opened = frame.startswith(before)
    is_call = "tool_calls" in message
    has_tail = after.startswith(tail)
    if not is_framed or "reasoning_content" in message or (is_call and not (is_opened and has_tail)):
        raise UnusableRowError(NOT_AS_OPENED if is_last else REWRITES)
    start = len(before) if is_opened else len(frame)
    end = len(frame) + len(framed)
    if has_tail and tail.strip():
        return start, end + len(tail.rstrip())
    return _with_stop(template, text, (start, end))


def _framed_text(message: Mapping[str, Any]) -> str:
    return str(
        message["tool_calls"][-1]["function"]["name"] if "tool_calls" in message else message["content"]
    )


def _frame(template: ChatTemplate, conversation: Conversation, index: int) -> tuple[str, str]:
    """Return what stands before and after the answer of a turn.

    Raises:
        UnusableRowError: one letter in its place changes more than that place.
    """
    first, second = (
        template.render(_with_letter(conversation.messages, index, letter), conversation.tools)
        for letter in "ab"
    )
    place = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))
    frame, after = first[:place], first[place + 1 :]
    if (first, second) != (f"{frame}a{after}", f"{frame}b{after}"):
        raise UnusableRowError("the template changes an answer's text, so that its place cannot be told")
    return frame, after


def _with_letter(messages: Sequence[Mapping[str, Any]], index: int, letter: str) -> list[Mapping[str, Any]]:
    message = dict(messages[index])
    if "tool_calls" in message:
        call = message["tool_calls"][-1]
        renamed = {**call, "function": {**call["function"], "name": letter}}
        message["tool_calls"] = [*message["tool_calls"][:-1], renamed]
    else:
        message["content"] = letter
    return [*messages[:index], message, *messages[index + 1 :]]


def _cut(conversation: Conversation, n_messages: int) -> Conversation:
    return replace(
        conversation,
        messages=conversation.messages[:n_messages],
        is_learned=conversation.is_learned[:n_messages],
    )
