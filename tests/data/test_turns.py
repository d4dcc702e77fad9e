"""Turns, roles, parts and tool calls in the spellings that datasets use."""

import pytest

from gradscore.data.conversation import UnusableRowError
from gradscore.data.turns import ROLES, TurnList, parse_tools


def turns_of(*turns):
    made = TurnList()
    for number, turn in enumerate(turns):
        made.add_turn(turn, f"t[{number}]")
    return made


def test_sharegpt_and_openai_spelling_give_the_same():
    sharegpt = turns_of(
        {"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}
    )
    openai = turns_of(
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    )
    assert sharegpt == openai
    assert openai.messages[2] == {"role": "assistant", "content": "a"}
    assert openai.is_learned == [False, False, True]


@pytest.mark.parametrize("role", ROLES)
def test_every_role_in_any_case(role):
    content = '{"name": "f"}' if ROLES[role] == "function_call" else "x"
    (message,) = turns_of({"from": role.upper(), "value": content}).messages
    assert message["role"] in ("system", "user", "assistant", "tool")


def test_parts_are_joined_and_reasoning_is_kept_apart():
    parts = [
        {"type": "reasoning", "value": "hm"},
        {"type": "text", "value": "a"},
        {"type": "text", "text": "b"},
    ]
    made = turns_of({"role": "assistant", "content": parts})
    assert made.messages == [{"role": "assistant", "content": "ab", "reasoning_content": "hm"}]


def test_reasoning_key_of_a_message():
    made = turns_of({"role": "assistant", "content": "a", "reasoning_content": "hm"})
    assert made.messages[0]["reasoning_content"] == "hm"


def test_function_call_of_sharegpt_and_its_result():
    made = turns_of(
        {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"from": "observation", "value": "7"},
    )
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    assert made.messages == [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "7", "name": "f", "tool_call_id": "call00001"},
    ]
    assert made.is_learned == [True, False]


def test_openai_calls_keep_their_ids_and_parse_their_arguments():
    call = {"id": "call_abc", "function": {"name": "f", "arguments": '{"x": null}'}}
    made = turns_of({"role": "assistant", "content": None, "tool_calls": [call]})
    assert made.messages[0]["tool_calls"] == [
        {"id": "call_abc", "type": "function", "function": {"name": "f", "arguments": {"x": None}}}
    ]


def test_nulls_that_arrow_put_into_arguments_are_taken_out():
    call = {"function": {"name": "f", "arguments": {"x": 1, "y": None}}, "id": None}
    made = turns_of({"role": "assistant", "content": "", "tool_calls": [call], "name": None})
    assert made.messages[0]["tool_calls"][0]["function"]["arguments"] == {"x": 1}


def test_several_calls_in_one_turn_are_answered_in_order():
    made = turns_of(
        {
            "from": "function_call",
            "value": '[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]',
        },
        {"from": "observation", "value": "1"},
        {"from": "observation", "value": "2"},
    )
    assert [message["name"] for message in made.messages[1:]] == ["f", "g"]


def test_tool_call_part():
    part = {"type": "tool_call", "value": '{"name": "f", "arguments": {}}'}
    made = turns_of({"role": "assistant", "content": [part]})
    assert made.messages[0]["tool_calls"][0]["function"]["name"] == "f"


def test_loss_weight_zero_and_empty_answers_are_not_learned():
    made = turns_of(
        {"role": "assistant", "content": "a", "loss_weight": 0.0},
        {"role": "assistant", "content": "a", "loss_weight": 1.0},
        {"role": "assistant", "content": " \n"},
        {"role": "assistant", "content": "a", "loss_weight": None},
    )
    assert made.is_learned == [False, True, False, True]


def test_numbers_become_text():
    assert turns_of({"role": "user", "content": 3.5}).messages[0]["content"] == "3.5"


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("hello", r"t\[0\] is a str, not a turn with a role and content"),
        ({"content": "x"}, r"t\[0\] has the role None; known roles are: system"),
        ({"role": "narrator", "content": "x"}, "has the role 'narrator'"),
        ({"role": "user", "content": None}, r"t\[0\] has no content \(null\)"),
        ({"role": "assistant", "content": None}, r"t\[0\] has no content \(null\)"),
        ({"role": "user"}, r"t\[0\] has no content \(null\)"),
        ({"role": "user", "content": [{"type": "image", "value": "x.png"}]}, "a part of type 'image'"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, "a part of type 'text'"),
        ({"from": "function_call", "value": "{broken"}, "is a function call, but not valid JSON"),
        ({"from": "function_call", "value": '{"arguments": {}}'}, "a function call without a name"),
    ],
)
def test_what_is_no_turn_says_why(turn, problem):
    with pytest.raises(UnusableRowError, match=problem):
        turns_of(turn)


def test_tools_from_text_or_data_wrapped_or_bare():
    bare = {"name": "f", "parameters": {"type": "object"}}
    wrapped = {"type": "function", "function": bare}
    for given in ('[{"name": "f", "parameters": {"type": "object"}}]', [bare], [wrapped], bare, wrapped):
        assert parse_tools(given) == (wrapped,)
    for given in (None, "", [], float("nan"), "[]"):
        assert parse_tools(given) == ()


@pytest.mark.parametrize(
    ("given", "problem"),
    [("{broken", "not valid JSON"), ([1], "list of function descriptions"), (3, "list of")],
)
def test_what_is_no_tool_says_why(given, problem):
    with pytest.raises(UnusableRowError, match=problem):
        parse_tools(given)
