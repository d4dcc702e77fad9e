"""A chat template as a function from messages to text, with the same text on every day."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

from gradscore.data.conversation import UnusableRowError
from gradscore.errors import DatasetError

PROBE = "qzxprobe"
"""A word that no template contains: where it shows up in the text, the template has rendered it."""

GENERATION_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")

# Some templates write today's date into the system turn, which would give a row another score tomorrow.
# A macro of the same name hides the clock; the date is the one that Llama 3 templates fall back to.
FIXED_DATE = (
    '{%- macro strftime_now(format) -%}{{ format|replace("%Y", "2024")|replace("%y", "24")'
    '|replace("%B", "July")|replace("%b", "Jul")|replace("%m", "07")|replace("%d", "26")'
    '|replace("%A", "Friday")|replace("%a", "Fri")|replace("%H", "00")|replace("%M", "00")|replace("%S", "00") }}'
    "{%- endmacro -%}"
)


class ChatTemplate:
    """One compiled template with the special tokens it may write."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], stop_tokens: Sequence[str]) -> None:
        """Prepare a template that may write `special_tokens` by name, and ends answers with one of `stop_tokens`.

        Raises:
            DatasetError: the template leaves out what turns say.
            TemplateSyntaxError: it is no Jinja.
        """
        self.is_dated = "strftime_now" in source
        self._source = (FIXED_DATE + source) if self.is_dated else source
        self._special_tokens = dict(special_tokens)
        self.stop_tokens = tuple(sorted(set(stop_tokens), key=len, reverse=True))
        self.has_generation_marks = GENERATION_MARK.search(source) is not None
        self._takes_parts = False
        self._settle_form_of_content()

    def _settle_form_of_content(self) -> None:
        """Find out whether content is given as text, or as typed parts as templates of vision models want it."""
        texts = []
        for self._takes_parts in (False, True):
            try:
                texts.append(self.render([{"role": "user", "content": PROBE}]))
            except UnusableRowError:
                continue
            if PROBE in texts[-1]:
                return
        self._takes_parts = False
        if texts:
            raise DatasetError(
                f"The chat template leaves out what a user says: a turn of {PROBE!r} becomes {texts[0]!r}. "
                "Pass a template that writes the content of turns as --chat-template."
            )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        opens_answer: bool = False,
    ) -> str:
        """Return the text of the messages, followed by the opening of an assistant turn if `opens_answer`.

        Raises:
            UnusableRowError: the template refuses these messages.
        """
        return self._render(messages, tools, opens_answer=opens_answer, marks=False)[0]

    def render_marked(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[str, list[tuple[int, int]]]:
        """Return the text, and the character spans inside the template's generation marks.

        Raises:
            UnusableRowError: the template refuses these messages.
        """
        return self._render(messages, tools, opens_answer=False, marks=True)

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        opens_answer: bool,
        marks: bool,
    ) -> tuple[str, list[tuple[int, int]]]:
        try:
            texts, spans = render_jinja_template(
                conversations=[[self._in_parts(message) for message in messages]],
                tools=list(tools) or None,
                chat_template=self._source,
                return_assistant_tokens_mask=marks,
                add_generation_prompt=opens_answer,
                **self._special_tokens,
            )
        except jinja2.TemplateSyntaxError:  # wrong for every row, so not a matter of this one
            raise
        # A template is a program: besides its own errors it may add text to nothing, or index what is not there.
        except (jinja2.TemplateError, TypeError, KeyError, IndexError, ValueError) as error:
            raise UnusableRowError(f"the chat template refuses this conversation ({error})") from error
        return texts[0], list(spans[0]) if marks else []

    def _in_parts(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._takes_parts:
            return message
        return {**message, "content": [{"type": "text", "text": message["content"]}]}
