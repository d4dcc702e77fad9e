"""Tests validate/answers.py: the answer of each schema is read and replaced where it stands, and nothing else is."""

import copy
from typing import Any

import pytest

from gradscore.config import DataConfig
from gradscore.data.converse import to_conversation
from gradscore.data.schemas import Schema, recognise
from gradscore.validate.answers import read_answer, read_question, with_answer

ROWS: dict[str, dict[str, Any]] = {
    "alpaca": {"instruction": "Add", "input": "1 and 2", "output": "3", "category": "sums"},
    "sharegpt": {
        "conversations": [
            {"from": "human", "value": "Hi"},
            {"from": "gpt", "value": "Hello"},
            {"from": "human", "value": "Add 1 and 2"},
            {"from": "gpt", "value": "3"},
        ]
    },
    "messages": {
        "messages": [
            {"role": "user", "content": "Add 1 and 2"},
            {"role": "assistant", "content": "3", "extra": 1},
            {"role": "user", "content": "Thanks"},
        ]
    },
    "messages_in_parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "value": "Add 1 and 2"}]},
            {"role": "assistant", "content": [{"type": "text", "value": "3"}]},
        ]
    },
    "prompt_completion": {"prompt": "Add 1 and 2", "completion": "3"},
    "prompt_completion_turns": {
        "prompt": [{"role": "user", "content": "Add 1 and 2"}],
        "completion": [{"role": "assistant", "content": "3"}],
    },
    "question_answer": {"question": "Add 1 and 2", "answer": "3"},
    "preference": {"prompt": "Add 1 and 2", "chosen": "3", "rejected": "4"},
    "text": {"text": "3"},
}


def schema_of(row: dict[str, Any]) -> Schema:
    return recognise(list(row), DataConfig())


@pytest.mark.parametrize("name", ROWS)
def test_the_answer_is_replaced_where_it_stands(name: str) -> None:
    row = ROWS[name]
    before = copy.deepcopy(row)
    schema = schema_of(row)
    assert read_answer(row, schema) == "3"
    changed = with_answer(row, schema, "four")
    assert row == before
    assert read_answer(changed, schema) == "four"
    assert with_answer(changed, schema, "3") == before


@pytest.mark.parametrize("name", [name for name in ROWS if name != "text"])
def test_the_question_does_not_depend_on_the_answer(name: str) -> None:
    row = ROWS[name]
    schema = schema_of(row)
    side = "chosen" if schema.name == "preference" else None
    question = read_question(row, schema, side)
    assert question is not None
    assert "1 and 2" in question
    if name != "messages":  # whose last turn is the user's
        assert read_question(with_answer(row, schema, "four"), schema, side) == question


@pytest.mark.parametrize("name", ROWS)
def test_what_is_rendered_changes_with_the_answer(name: str) -> None:
    row = ROWS[name]
    schema = schema_of(row)
    side = "chosen" if schema.name == "preference" else None
    changed = to_conversation(with_answer(row, schema, "four"), schema, side)
    assert "four" in repr(changed)
    assert changed != to_conversation(row, schema, side)


def test_a_dotted_column_is_reached() -> None:
    row = {"question": "Add", "meta": {"solution": "3", "source": "x"}}
    schema = recognise(list(row), DataConfig(columns="answer=meta.solution"))
    assert with_answer(row, schema, "4") == {"question": "Add", "meta": {"solution": "4", "source": "x"}}
    assert row["meta"] == {"solution": "3", "source": "x"}


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "Add", "output": None},
        {"instruction": "Add", "output": " "},
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}]},
        {"messages": 3.5j},
    ],
)
def test_a_row_without_an_answer_has_none(row: dict[str, Any]) -> None:
    assert read_answer(row, schema_of(row)) is None


def test_a_row_that_is_no_conversation_has_no_question() -> None:
    row = {"messages": [{"role": "alien", "content": "Hi"}]}
    assert read_question(row, schema_of(row)) is None
