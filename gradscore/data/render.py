"""Turn a conversation into text with its target characters, under one chat template.

Turns after the last target are left out: they cannot change its loss, and some templates write an answer
differently once a question follows.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from transformers import PreTrainedTokenizerBase

from gradscore.config import DataConfig
from gradscore.data.alpaca_prompt import ALPACA_PROMPT
from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.fold import fold, probe
from gradscore.data.spans import Span, answer_spans
from gradscore.data.template import ChatTemplate
from gradscore.errors import DatasetError


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


@dataclass(frozen=True)
class Frame:
    """Text around answers to empty user turns."""

    opening: str
    between: str
    """From the end of an answer, its stop token included, to the beginning of the next."""
    needs_opening: bool


class Renderer:
    """Conversations to text, under one chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: DataConfig) -> None:
        """Choose the template: `--chat-template`, the tokenizer's own, or the Alpaca prompt, in this order.

        Raises:
            DatasetError: the template file cannot be read, or is not Jinja.
        """
        source, name = _template_source(tokenizer, config)
        try:
            self._template = ChatTemplate(source, _special_tokens(tokenizer), tokenizer.all_special_tokens)
            self._abilities = probe(self._template)
        except jinja2.TemplateSyntaxError as error:
            raise DatasetError(
                f"The {name} is no valid Jinja template: line {error.lineno}: {error.message}. Repair it."
            ) from error
        self._needs_opening = source == ALPACA_PROMPT
        self._last_only = config.turns == "last"
        self.summary = f"{name[0].upper()}{name[1:]}"
        """Which template, in a few words."""
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
            # An empty last answer leaves no target, rather than another answer than the one asked for.
            answers = [i for i, message in enumerate(conversation.messages) if message["role"] == "assistant"]
            targets = [index for index in targets if index == answers[-1]]
        if not targets:
            text = self._template.render(conversation.messages, conversation.tools)
            return Rendered(text, (), needs_opening=self._needs_opening)
        end = targets[-1] + 1
        read = replace(
            conversation, messages=conversation.messages[:end], is_learned=conversation.is_learned[:end]
        )
        text, spans = answer_spans(self._template, read, targets)
        return Rendered(text, tuple(spans), needs_opening=self._needs_opening)

    def frame(self) -> Frame:
        """Return what is written around answers to empty user turns.

        Raises:
            UnusableRowError: the template refuses an empty user turn.
        """
        turns = ({"role": "user", "content": ""}, {"role": "assistant", "content": "a"})
        one = self.render(Conversation(messages=turns, is_learned=(False, True)))
        opening = one.text[: one.spans[0][0]]
        try:
            two = self.render(Conversation(messages=turns * 2, is_learned=(False, True) * 2))
            (_, end), (start, _) = two.spans
        except (
            UnusableRowError,
            ValueError,
        ):  # this template, or --turns last, has one answer in a row at most
            return Frame(opening, opening, self._needs_opening)
        return Frame(opening, two.text[end:start], self._needs_opening)


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
    parts = [f"Rendered with the {name}; answers are found from {how}."]
    if folds:
        parts.append(f"What the template cannot write by itself, where rows have it: {'; '.join(folds)}.")
    if template.is_dated:
        parts.append("Its date of today is fixed to 26 Jul 2024, so that scores do not depend on the day.")
    return " ".join(parts)
