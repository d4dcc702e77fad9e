"""Rows of every schema to conversations, and the rows that cannot become one."""

import pytest

from gradscore.config import DataConfig
from gradscore.data.conversation import UnusableRowError
from gradscore.data.converse import sides_of, to_conversation
from gradscore.data.schemas import recognise


def converse(row, side=None, **options):
    return to_conversation(row, recognise(list(row), DataConfig(**options)), side)


def said(conversation):
    return [(message["role"], message["content"]) for message in conversation.messages]


QA = [("user", "q"), ("assistant", "a")]


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "q", "output": "a"},
        {"instruction": "q", "input": "", "output": "a", "system": None, "history": None},
        {"instruction": "", "input": "q", "output": "a", "history": []},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
        {"messages": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "tools": "[]"},
        {"prompt": "q", "completion": "a"},
        {"prompt": "q", "response": "a"},
        {"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]},
        {"question": "q", "answer": "a"},
    ],
)
def test_the_same_talk_in_every_schema(row):
    conversation = converse(row)
    assert said(conversation) == QA
    assert conversation.is_learned == (False, True)
    assert (conversation.tools, conversation.text, conversation.side) == ((), None, None)


def test_alpaca_with_everything():
    row = {"instruction": "q", "input": "i", "output": 5, "system": "s", "history": [["q0", "a0"], ["q1", 1]]}
    assert said(converse(row)) == [
        ("system", "s"),
        ("user", "q0"),
        ("assistant", "a0"),
        ("user", "q1"),
        ("assistant", "1"),
        ("user", "q\ni"),
        ("assistant", "5"),
    ]


def test_system_and_tools_columns():
    row = {
        "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}],
        "system": "s",
        "tools": '[{"name": "f"}]',
    }
    conversation = converse(row)
    assert said(conversation)[0] == ("system", "s")
    assert conversation.tools == ({"type": "function", "function": {"name": "f"}},)


def test_plain_text():
    conversation = converse({"text": "once"})
    assert (conversation.text, conversation.messages) == ("once", ())


ANSWERS = [
    {"chosen": "a", "rejected": "b"},
    {"chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}},
    {"chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]},
]
PROMPTS = [
    {"prompt": "q"},
    {"instruction": "q", "input": ""},
    {"question": "q"},
    {"conversations": [{"from": "human", "value": "q"}]},
    {"messages": [{"role": "user", "content": "q"}]},
]


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_preference_pairs(prompt, answers):
    row = {**prompt, **answers}
    chosen, rejected = (converse(row, side) for side in ("chosen", "rejected"))
    assert said(chosen) == QA
    assert said(rejected) == [("user", "q"), ("assistant", "b")]
    assert (chosen.side, rejected.side, chosen.is_learned) == ("chosen", "rejected", (False, True))


def test_preference_that_repeats_the_whole_talk_learns_the_last_answer_only():
    talk = [("user", "q0"), ("assistant", "a0"), *QA]
    turns = [{"role": role, "content": content} for role, content in talk]
    conversation = converse({"prompt": "q0", "chosen": turns, "rejected": turns}, "chosen")
    assert said(conversation) == talk
    assert conversation.is_learned == (False, False, False, True)


def test_earlier_answers_in_the_prompt_of_a_pair_are_context():
    before = [
        {"role": "user", "content": "q0"},
        {"role": "assistant", "content": "a0"},
        {"role": "user", "content": "q"},
    ]
    conversation = converse({"messages": before, "chosen": "a", "rejected": "b"}, "chosen")
    assert conversation.is_learned == (False, False, False, True)


def test_sides():
    pair = recognise(["chosen", "rejected", "prompt"], DataConfig())
    assert sides_of(pair, DataConfig()) == ("chosen",)
    assert sides_of(pair, DataConfig(side="rejected")) == ("rejected",)
    assert sides_of(pair, DataConfig(side="both")) == ("chosen", "rejected")
    assert sides_of(recognise(["text"], DataConfig()), DataConfig(side="both")) == (None,)


def test_optional_columns_that_the_first_row_lacks_are_still_read():
    schema = recognise(["instruction", "output"], DataConfig())
    row = {"instruction": "q", "output": "a", "input": "i"}
    assert said(to_conversation(row, schema))[0] == ("user", "q\ni")


def test_dotted_columns():
    row = {"instruction": "q", "instances": [{"input": "i", "output": "a"}]}
    conversation = converse(row, columns="input=instances.0.input,output=instances.0.output")
    assert said(conversation) == [("user", "q\ni"), ("assistant", "a")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"instruction": "q", "output": None}, "column 'output' is null"),
        ({"instruction": "q", "output": float("nan")}, "column 'output' is null"),
        ({"instruction": None, "output": "a"}, "column 'instruction' is null"),
        ({"instruction": "q", "output": ["a"]}, "column 'output' holds a list, not text"),
        ({"instruction": "q", "output": "a", "history": "x"}, r"history column is not a list"),
        ({"instruction": "q", "output": "a", "history": [["q", None]]}, r"history\[0\]\[1\] has no content"),
        ({"messages": None}, "column 'messages' is null"),
        ({"messages": "hello"}, "messages column holds a single value"),
        ({"messages": []}, "the conversation has no turns"),
        ({"question": "q", "answer": None}, "column 'answer' is null"),
        ({"text": None}, "column 'text' is null"),
        ({"text": {"a": 1}}, "column 'text' holds a dict, not text"),
        ({"instruction": "q", "output": "a", "tools": "x"}, "tools column is not valid JSON"),
    ],
)
def test_rows_that_cannot_be_used_say_why(row, problem):
    with pytest.raises(UnusableRowError, match=problem):
        converse(row)


def test_missing_column_of_one_row():
    schema = recognise(["instruction", "output"], DataConfig())
    with pytest.raises(UnusableRowError, match="column 'output' is missing"):
        to_conversation({"instruction": "q"}, schema)
