"""Chat templates as functions: dates that stand still, typed parts, marks, and refusals."""

import pytest

from gradscore.data.conversation import UnusableRowError
from gradscore.data.template import ChatTemplate
from gradscore.errors import DatasetError
from tests.data import templates

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def template(source):
    return ChatTemplate(source, {"eos_token": "<|im_end|>"}, ["<|im_end|>"])


def test_dates_do_not_depend_on_the_day():
    dated = template(templates.DATED)
    assert dated.is_dated
    assert dated.render(TALK).startswith("Today is 26 Jul 2024.\n<|im_start|>user\nq")
    assert not template(templates.STRICT).is_dated


def test_content_is_given_as_parts_to_a_template_that_wants_them():
    assert template(templates.PARTS).render(TALK) == "user: q<|im_end|>\nassistant: a<|im_end|>\n"


def test_marks_are_character_spans():
    marked = template(templates.MARKED)
    text, spans = marked.render_marked(TALK)
    assert marked.has_generation_marks
    assert [text[start:end] for start, end in spans] == ["a"]
    assert not template(templates.STRICT).has_generation_marks


def test_special_tokens_are_known_by_name():
    assert template(templates.ENDS_ONCE).render(TALK) == "user: q\nassistant: a\n<|im_end|>"


def test_refusals_give_the_templates_own_reason():
    with pytest.raises(UnusableRowError, match=r"refuses this conversation .only user and assistant turns"):
        template(templates.STRICT).render([{"role": "tool", "content": "x"}])


def test_template_that_leaves_out_what_turns_say_is_refused():
    with pytest.raises(
        DatasetError, match=r"leaves out what a user says: a turn of .* becomes 'user'.*--chat-template"
    ):
        template("{% for m in messages %}{{ m['role'] }}{% endfor %}")
