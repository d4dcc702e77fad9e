"""What a template cannot say is folded into turns that it can."""

import dataclasses

import pytest

from gradscore.data.conversation import Conversation
from gradscore.data.fold import Abilities, fold, probe
from gradscore.data.template import ChatTemplate
from tests.data import templates
from tests.tiny_tokenizer import CHATML

ABLE = Abilities(system=True, tools=True, tool_calls=True, tool_results=True, reasoning=True)
UNABLE = Abilities(system=False, tools=False, tool_calls=False, tool_results=False, reasoning=False)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CALL = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"x": "ä"}}}
FULL = Conversation(
    messages=(
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "hm"},
        {"role": "tool", "content": "7", "name": "f", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "a"},
    ),
    is_learned=(False, False, True, False, True),
    tools=(TOOL,),
    side="chosen",
)


@pytest.mark.parametrize(
    ("source", "abilities"),
    [
        (templates.THINKING, ABLE),
        (templates.STRICT, UNABLE),
        (CHATML, dataclasses.replace(UNABLE, system=True, tool_results=True)),
    ],
)
def test_abilities_are_found_by_trying(source, abilities):
    assert probe(ChatTemplate(source, {}, [])) == abilities


def test_nothing_is_folded_for_an_able_template():
    assert fold(FULL, ABLE) == FULL
    assert ABLE.folds() == []


def test_everything_is_folded_for_a_template_of_two_roles():
    folded = fold(FULL, UNABLE)
    assert folded.messages == (
        {
            "role": "user",
            "content": 's\n\nYou may call these functions, described as JSON:\n{"name": "f", "parameters": {}}\n\nq',
        },
        {"role": "assistant", "content": '<think>\nhm\n</think>\n\n{"name": "f", "arguments": {"x": "ä"}}'},
        {"role": "user", "content": "7"},
        {"role": "assistant", "content": "a"},
    )
    assert folded.is_learned == (False, True, False, True)
    assert (folded.tools, folded.side) == ((), "chosen")
    assert len(UNABLE.folds()) == 5


@pytest.mark.parametrize("abilities", [ABLE, UNABLE])
def test_folding_twice_is_folding_once(abilities):
    once = fold(FULL, abilities)
    assert fold(once, abilities) == once


def test_tools_without_a_system_turn_make_one():
    folded = fold(dataclasses.replace(FULL, messages=FULL.messages[1:], is_learned=FULL.is_learned[1:]),
                  dataclasses.replace(ABLE, tools=False))  # fmt: skip
    assert folded.messages[0]["role"] == "system"
    assert '"name": "f"' in folded.messages[0]["content"]
    assert folded.is_learned[0] is False


def test_system_turn_that_no_user_follows_keeps_its_place():
    talk = Conversation(
        ({"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}), (False, True)
    )
    assert fold(talk, UNABLE).messages == (
        {"role": "user", "content": "s"},
        {"role": "assistant", "content": "a"},
    )
    alone = Conversation(({"role": "system", "content": "s"},), (False,))
    assert fold(alone, UNABLE).messages == ({"role": "user", "content": "s"},)
