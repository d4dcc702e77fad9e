"""Choosing the template, choosing the target turns, and what is said about both."""

import pytest

from gradscore.config import DataConfig
from gradscore.data.conversation import Conversation
from gradscore.data.render import Renderer
from gradscore.errors import DatasetError
from tests.data import templates
from tests.tiny_tokenizer import byte_tokenizer

TALK = Conversation(
    (
        {"role": "user", "content": "q0"},
        {"role": "assistant", "content": "a0"},
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "q2"},
    ),
    (False, True, False, True, False),
)


def renderer(tokenizer=None, **options):
    return Renderer(tokenizer or byte_tokenizer(), DataConfig(**options))


def targets(rendered):
    return [rendered.text[start:end] for start, end in rendered.spans]


def test_all_turns_or_the_last():
    assert targets(renderer().render(TALK)) == ["a0<|im_end|>", "a1<|im_end|>"]
    assert targets(renderer(turns="last").render(TALK)) == ["a1<|im_end|>"]


def test_text_ends_with_the_last_target():
    rendered = renderer().render(TALK)
    assert rendered.text.endswith("a1<|im_end|>\n")
    assert not rendered.needs_opening


def test_empty_last_answer_leaves_no_target_with_turns_last():
    messages = (*TALK.messages[:3], {"role": "assistant", "content": ""})
    conversation = Conversation(messages, (False, True, False, False))
    assert renderer(turns="last").render(conversation).spans == ()
    assert targets(renderer().render(conversation)) == ["a0<|im_end|>"]


def test_conversation_without_answers_is_rendered_whole():
    rendered = renderer().render(Conversation(TALK.messages[:1], (False,)))
    assert (rendered.text, rendered.spans) == ("<|im_start|>user\nq0<|im_end|>\n", ())


def test_plain_text_is_a_target_as_a_whole():
    rendered = renderer().render(Conversation(text="once upon"))
    assert (rendered.text, targets(rendered)) == ("once upon", ["once upon"])
    assert rendered.is_plain
    assert rendered.needs_opening
    assert renderer().render(Conversation(text=" \n")).spans == ()


def test_template_file_replaces_the_tokenizers_own(tmp_path):
    path = tmp_path / "strict.jinja"
    path.write_text(templates.STRICT)
    chosen = renderer(chat_template=str(path))
    assert chosen.render(TALK).text.startswith("[user] q0<|im_end|>\n[assistant] a0")
    assert f"template {path}" in chosen.description
    assert "system turns are put before the first user turn" in chosen.description


def test_alpaca_prompt_without_a_template():
    chosen = renderer(byte_tokenizer(chat_template=None))
    rendered = chosen.render(TALK)
    assert rendered.text == (
        "Below is an instruction that describes a task. Write a response that appropriately completes the request."
        "\n\n### Instruction:\nq0\n\n### Response:\na0<|im_end|>"
        "\n\n### Instruction:\nq1\n\n### Response:\na1<|im_end|>"
    )
    assert targets(rendered) == ["a0<|im_end|>", "a1<|im_end|>"]
    assert rendered.needs_opening
    assert "Alpaca prompt, since the tokenizer has no chat template" in chosen.description


def test_alpaca_prompt_with_system_turn_and_without_end_token():
    chosen = renderer(byte_tokenizer(chat_template=None, has_eos=False))
    system = {"role": "system", "content": "Be brief."}
    rendered = chosen.render(Conversation((system, *TALK.messages[:2]), (False, False, True)))
    assert rendered.text == "Be brief.\n\n### Instruction:\nq0\n\n### Response:\na0"
    assert targets(rendered) == ["a0"]


def test_description_names_marks_and_fixed_dates(tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text(templates.DATED)
    assert "fixed to 26 Jul 2024" in renderer(chat_template=str(path)).description
    path.write_text(templates.MARKED)
    assert "answers are found from its generation marks" in renderer(chat_template=str(path)).description
    own = renderer().description
    assert "the chat template of the tokenizer; answers are found from what each turn adds" in own


def test_named_templates_use_the_default():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = {"default": templates.STRICT, "tool_use": templates.THINKING}
    assert renderer(tokenizer).render(TALK).text.startswith("[user] q0")


def test_template_that_cannot_be_used(tmp_path):
    with pytest.raises(DatasetError, match=r"absent.jinja cannot be read.*Check --chat-template"):
        renderer(chat_template=str(tmp_path / "absent.jinja"))
    (tmp_path / "broken.jinja").write_text("{% for m in messages %}\n{{ m }")
    with pytest.raises(DatasetError, match="is no valid Jinja template: line 2"):
        renderer(chat_template=str(tmp_path / "broken.jinja"))
