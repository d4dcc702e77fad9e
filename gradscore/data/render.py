"""Turn a conversation into text and mark the characters that are targets, from the template's own structure.

A template with `{% generation %}` marks says itself where answers lie. For any other, an answer is what
rendering adds: the text up to turn i with the opening of an answer must be the beginning of the text up to
and including turn i, and that the beginning of the whole. Text is never searched for the answer, which may
occur in the prompt too. Turns after the last target are left out: they cannot change its loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

from gradscore.config import DataConfig
from gradscore.data.alpaca_prompt import ALPACA_PROMPT
from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.fold import fold, probe
from gradscore.data.template import ChatTemplate
from gradscore.errors import DatasetError

Span = tuple[int, int]
REWRITES = "the template rewrites earlier turns; use --turns last"


@dataclass(frozen=True)
class Rendered:
    """Text of one row, and which of its characters are targets."""

    text: str
    spans: tuple[Span, ...]
    """Half-open character ranges, in order, not overlapping."""
    is_plain: bool = False
    """Text without turns: every token after the first is a target, the end token too."""
    needs_opening: bool = False
    """Whether the tokenizer's own beginning-of-text token goes before it; a chat template writes its own."""


class Renderer:
    """Conversations to text, under one chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: DataConfig) -> None:
        """Choose the template: `--chat-template`, the tokenizer's own, or the Alpaca prompt, in this order.

        Raises:
            DatasetError: the template file cannot be read, or is not Jinja.
        """
        source, name = _template_source(tokenizer, config)
        try:
            self._template = ChatTemplate(source, _special_tokens(tokenizer))
            self._abilities = probe(self._template)
        except jinja2.TemplateSyntaxError as error:
            raise DatasetError(
                f"The {name} is no valid Jinja template: line {error.lineno}: {error.message}. Repair it."
            ) from error
        self._needs_opening = source == ALPACA_PROMPT
        self._last_only = config.turns == "last"
        self._stops = tuple(sorted(set(tokenizer.all_special_tokens), key=len, reverse=True))
        self.description = _describe(name, self._template, self._abilities.folds())

    def render(self, conversation: Conversation) -> Rendered:
        """Return the text of a conversation and its target spans.

        Raises:
            UnusableRowError: the template refuses the conversation, or its answers cannot be told from structure.
        """
        if conversation.text is not None:
            span = ((0, len(conversation.text)),) if conversation.text.strip() else ()
            return Rendered(conversation.text, span, is_plain=True, needs_opening=True)
        conversation = fold(conversation, self._abilities)
        targets = [index for index, learned in enumerate(conversation.is_learned) if learned]
        if self._last_only:
            targets = targets[-1:]
        if not targets:
            text = self._template.render(conversation.messages, conversation.tools)
            return Rendered(text, (), needs_opening=self._needs_opening)
        messages = conversation.messages[: targets[-1] + 1]
        find = self._marked_spans if self._template.has_generation_marks else self._added_spans
        text, spans = find(messages, conversation.tools, targets)
        return Rendered(text, tuple(spans), needs_opening=self._needs_opening)

    def _marked_spans(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], targets: list[int]
    ) -> tuple[str, list[Span]]:
        text, marked = self._template.render_marked(messages, tools)
        answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        if len(marked) != len(answers):
            raise UnusableRowError(
                f"the template marks {len(marked)} generated parts for {len(answers)} assistant turns"
            )
        by_turn = dict(zip(answers, marked, strict=True))
        return text, [self._with_stop(text, by_turn[index]) for index in targets]

    def _with_stop(self, text: str, span: Span) -> Span:
        """Return the span with the stop token that some templates leave outside their marks, and no space after."""
        start, end = span
        end = start + len(text[start:end].rstrip())
        stop = next((token for token in self._stops if text.startswith(token, end)), "")
        return start, end + len(stop)

    def _added_spans(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], targets: list[int]
    ) -> tuple[str, list[Span]]:
        text = self._template.render(messages, tools)
        return text, [self._added_span(messages, tools, index, text) for index in targets]

    def _added_span(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], index: int, text: str
    ) -> Span:
        if index == 0:
            raise UnusableRowError("the conversation opens with an answer, so there is nothing to answer to")
        before = self._template.render(messages[:index], tools, opens_answer=True)
        is_last = index == len(messages) - 1
        upto = text if is_last else self._template.render(messages[: index + 1], tools)
        if text.startswith(before) and text.startswith(upto) and upto.startswith(before):
            return len(before), max(len(before), len(upto.rstrip()))
        if is_last:
            raise UnusableRowError("the template does not write an answer after the opening of an answer")
        raise UnusableRowError(REWRITES)


def _template_source(tokenizer: PreTrainedTokenizerBase, config: DataConfig) -> tuple[str, str]:
    if config.chat_template is not None:
        try:
            return Path(config.chat_template).read_text(encoding="utf-8"), f"template {config.chat_template}"
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(
                f"The chat template {config.chat_template} cannot be read: {error}. Check --chat-template."
            ) from error
    own = tokenizer.chat_template
    if isinstance(own, dict):  # named templates; `default` is the one for conversations
        own = own.get("default")
    if own:
        return own, "chat template of the tokenizer"
    return ALPACA_PROMPT, "Alpaca prompt, since the tokenizer has no chat template"


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    return {
        name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)
    }


def _describe(name: str, template: ChatTemplate, folds: list[str]) -> str:
    how = "its generation marks" if template.has_generation_marks else "what each turn adds to the text"
    parts = [f"Rendered with the {name}; answers are found from {how}.", *(f"{fold}." for fold in folds)]
    if template.is_dated:
        parts.append("today's date in it is fixed to 26 Jul 2024, so that scores do not depend on the day.")
    return " ".join(part[0].upper() + part[1:] for part in parts)
