"""Tests gradscore.data.alone: the row without its instruction has the same target tokens, in the template's frame."""

import dataclasses

import numpy as np

from gradscore.config import DataConfig
from gradscore.data.alone import AnswerFrame
from gradscore.data.encode import Encoder
from gradscore.data.schemas import recognise
from gradscore.records import Row
from tests import cases
from tests.data import templates
from tests.tiny_tokenizer import byte_tokenizer

FRAME = AnswerFrame(opening=(1, 5), between=(6,), max_tokens=14)


def encoder(columns: tuple[str, ...], tokenizer: object, **options: object) -> Encoder:
    config = DataConfig(**options)
    return Encoder(tokenizer, config, 200, recognise(list(columns), config))


def alone(content: dict[str, object], template: str | None, **options: object) -> tuple[str, str]:
    """Return the text of a row without its instruction, and that of its targets."""
    tokenizer = byte_tokenizer(chat_template=template) if template else byte_tokenizer(chat_template=None)
    made = encoder(tuple(content), tokenizer, **options)
    (row,) = made.encode(Row(0, "key", content))
    bare = made.answer_frame().alone(row)
    return tokenizer.decode(bare.input_ids), tokenizer.decode(bare.input_ids[bare.target_mask])


def test_targets_are_the_same_tokens_behind_an_empty_user_turn() -> None:
    text, targets = alone({"question": "how much?", "answer": "two"}, templates.MARKED)
    assert text == "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>"
    assert targets == "two<|im_end|>"


def test_each_answer_of_a_conversation_has_its_own_empty_turn() -> None:
    messages = [
        {"role": role, "content": content}
        for role, content in (("user", "a?"), ("assistant", "b"), ("user", "c?"), ("assistant", "d"))
    ]
    text, targets = alone({"messages": messages}, templates.MARKED)
    turn = "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
    assert text == f"{turn}b<|im_end|>\n{turn}d<|im_end|>"
    assert targets == "b<|im_end|>d<|im_end|>"
    assert alone({"messages": messages}, templates.MARKED, turns="last")[0] == f"{turn}d<|im_end|>"


def test_without_a_chat_template_the_frame_is_the_alpaca_prompt() -> None:
    text, targets = alone({"instruction": "Add", "output": "two"}, None)
    assert text.endswith("### Instruction:\n\n\n### Response:\n" + targets)
    assert "Add" not in text


def test_what_has_no_instruction_has_no_frame() -> None:
    assert encoder(("text",), byte_tokenizer()).answer_frame() is None
    refusing = byte_tokenizer(
        chat_template="{% for m in messages %}{% if not m['content'] %}{{ raise_exception('empty') }}{% endif %}"
        "{{ m['role'] + m['content'] + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}"
    )
    assert encoder(("question", "answer"), refusing).answer_frame() is None


def test_runs_of_targets_keep_their_order_and_everything_else_of_the_row() -> None:
    row = cases.rows((9,))[0]  # targets 3, 5..8: the one at 4 is masked
    bare = FRAME.alone(row)
    assert bare.input_ids.tolist() == [1, 5, row.input_ids[3], 6, *row.input_ids[5:]]
    assert np.flatnonzero(bare.target_mask).tolist() == [2, 4, 5, 6, 7]
    assert (bare.n_tokens, bare.n_target_tokens) == (8, row.n_target_tokens)
    same = dataclasses.replace(bare, input_ids=None, target_mask=None, n_tokens=9)
    assert same == dataclasses.replace(row, input_ids=None, target_mask=None)


def test_a_row_without_prompt_or_longer_than_the_limit_has_none() -> None:
    row = cases.rows((3,))[0]
    whole = dataclasses.replace(row, target_mask=np.array([False, True, True]))
    assert FRAME.alone(whole) is None
    for n_answer, is_too_long in ((12, False), (13, True)):
        n = 4 + n_answer
        long = dataclasses.replace(row, input_ids=np.arange(n), target_mask=np.arange(n) >= 4, n_tokens=n)
        assert (FRAME.alone(long) is None) == is_too_long
