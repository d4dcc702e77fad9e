"""Where answers lie in rendered text, for templates of every habit, and when that cannot be told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.data.conversation import Conversation, UnusableRowError
from gradscore.data.spans import NO_QUESTION, REWRITES, answer_spans
from gradscore.data.template import ChatTemplate
from tests.data import templates
from tests.tiny_tokenizer import CHATML

WORDS = st.text(alphabet="ab <|>\n", min_size=1).filter(str.strip)


def talk(*turns):
    roles = ["user", "assistant"]
    messages = [
        {"role": roles[number % 2], "content": turn} if isinstance(turn, str) else turn
        for number, turn in enumerate(turns)
    ]
    return Conversation(tuple(messages), tuple(message["role"] == "assistant" for message in messages))


def answers(source, conversation, targets=None):
    template = ChatTemplate(source, {"eos_token": "<|im_end|>"}, ["<|im_end|>", "<|im_start|>"])
    targets = targets or [i for i, learned in enumerate(conversation.is_learned) if learned]
    text, spans = answer_spans(template, conversation, targets)
    assert text == template.render(conversation.messages, conversation.tools)
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize("source", [CHATML, templates.MARKED, templates.MARKED_APART, templates.STRICT, templates.PARTS,
                                    templates.OPENS_THINKING, templates.DATED])  # fmt: skip
def test_answers_with_their_stop_token(source):
    conversation = talk("a", "one", "one", "two", "user", "one")
    assert answers(source, conversation) == ["one<|im_end|>", "two<|im_end|>", "one<|im_end|>"]
    assert answers(source, conversation, [3]) == ["two<|im_end|>"]


@given(st.lists(WORDS, min_size=2, max_size=6).filter(lambda turns: len(turns) % 2 == 0))
def test_answers_are_exact_even_where_the_prompt_says_the_same(turns):
    conversation = talk(*turns)
    assert answers(CHATML, conversation) == [f"{turn}<|im_end|>" for turn in turns[1::2]]
    # White space at an answer's edges may or may not be in the marks; the text between never moves.
    marked = [answer.removesuffix("<|im_end|>").strip() for answer in answers(templates.MARKED, conversation)]
    assert marked == [turn.removesuffix("<|im_end|>").strip() for turn in turns[1::2]]


def test_end_token_after_the_whole_belongs_to_the_last_answer():
    assert answers(templates.ENDS_ONCE, talk("q", "one")) == ["one\n<|im_end|>"]


def test_earlier_answer_of_a_thinking_template_is_found_by_its_frame():
    conversation = talk("q", "one", "q", "two")
    assert answers(templates.THINKING, conversation) == [
        "one<|im_end|>",
        "<think>\n\n</think>\n\ntwo<|im_end|>",
    ]


def test_earlier_call_of_a_thinking_template_is_found_by_its_frame():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    calling = {"role": "assistant", "content": "", "tool_calls": [call]}
    conversation = talk("q", calling, {"role": "tool", "content": "7"}, "one", "q", "two")
    written = 'CALL {"name": "f", "arguments": {"x": 1}}<|im_end|>'
    assert answers(templates.THINKING, conversation)[:2] == [written, "one<|im_end|>"]


@pytest.mark.parametrize(
    "earlier",
    [{"role": "assistant", "content": "one", "reasoning_content": "hm"}, "<think>hm</think>one"],
)
def test_thoughts_dropped_from_earlier_turns_are_refused_by_name(earlier):
    conversation = talk("q", earlier, "q", "two")
    with pytest.raises(UnusableRowError, match=re.escape(REWRITES)):
        answers(templates.THINKING, conversation)
    assert answers(templates.THINKING, conversation, [3]) == ["<think>\n\n</think>\n\ntwo<|im_end|>"]


def test_reasoning_of_the_last_answer_is_a_target():
    last = {"role": "assistant", "content": "two", "reasoning_content": "hm"}
    assert answers(templates.THINKING, talk("q", last)) == ["<think>\nhm\n</think>\n\ntwo<|im_end|>"]


def test_conversation_that_opens_with_an_answer():
    conversation = Conversation(({"role": "assistant", "content": "a"},), (True,))
    with pytest.raises(UnusableRowError, match=NO_QUESTION):
        answers(CHATML, conversation)
    assert answers(templates.MARKED, conversation) == ["a<|im_end|>"]


def test_marks_that_miss_answers():
    conversation = talk("q", "one", "q", "two")
    with pytest.raises(UnusableRowError, match=r"marks 1 generated parts for 2 assistant turns.*--turns all"):
        answers(templates.MARKED_ONCE, conversation, [1])
    assert answers(templates.MARKED_ONCE, conversation) == ["two<|im_end|>"]


def test_template_that_writes_an_answer_twice():
    twice = templates.OPENS_THINKING.replace("m['content']", "m['content'] + m['content']")
    with pytest.raises(UnusableRowError, match="changes an answer's text, so that its place cannot be told"):
        answers(twice, talk("q", "one"))
