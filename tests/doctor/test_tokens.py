"""Tests doctor/tokens.py: doubled and missing beginnings, masked and missing stop tokens."""

from pathlib import Path
from typing import Any

import pytest

from gradscore.data.encode import Encoder
from gradscore.data.stop_tokens import stop_ids
from gradscore.doctor.tokens import beginning_check, stop_check, token_findings
from gradscore.records import EncodedRow, Row
from tests.doctor.cases import encoder_of, row
from tests.pipeline.runs import alpaca_rows
from tests.tiny_tokenizer import CHATML, byte_tokenizer

BOS, STOP, OTHER = 1, 2, 50
DOUBLING = "{{ bos_token + bos_token }}" + CHATML
WITHOUT_STOP = CHATML.replace("<|im_end|>", "")


def encoded(encoder: Encoder, count: int = 4) -> list[EncodedRow]:
    """Return rows as the encoder makes them."""
    return [
        e for i, content in enumerate(alpaca_rows(count)) for e in encoder.encode(Row(i, "0" * 32, content))
    ]


def with_template(path: Path, template: str, **tokenizer: Any) -> Encoder:
    """Return an encoder under another chat template."""
    (path / "template.jinja").write_text(template)
    return encoder_of(byte_tokenizer(**tokenizer), chat_template=str(path / "template.jinja"))


def test_rows_of_a_right_template_pass(tmp_path: Path) -> None:
    encoder = with_template(tmp_path, "{{ bos_token }}" + CHATML)
    first, last = token_findings(encoded(encoder), encoder, "right")
    assert (first.verdict, first.finding) == ("pass", "rows begin with one <|bos|>")
    assert (last.verdict, last.finding) == (
        "pass",
        "every answer that was not cut ends with <|im_end|>, which is a target",
    )


def test_a_template_that_doubles_the_beginning_fails(tmp_path: Path) -> None:
    encoder = with_template(tmp_path, DOUBLING)
    first, _ = token_findings(encoded(encoder), encoder, "right")
    assert (first.verdict, first.finding) == ("fail", "4 of 4 rows (100.0 %) begin with <|bos|> twice")
    assert "Take <|bos|> out of the chat template" in first.advice


def test_a_few_doubled_rows_are_a_warning() -> None:
    rows = [row([BOS, BOS, OTHER], [2]), *[row([BOS, OTHER, OTHER], [2])] * 3]
    assert beginning_check(rows, encoder_of(byte_tokenizer())).verdict == "warn"


def test_a_template_that_forgets_what_the_tokenizer_adds_is_a_warning() -> None:
    encoder = encoder_of(byte_tokenizer())
    first, _ = token_findings(encoded(encoder), encoder, "right")
    assert first.verdict == "warn"
    assert "begin without <|bos|>, which the tokenizer puts before plain text" in first.finding


def test_where_the_tokenizer_adds_none_none_is_missed() -> None:
    encoder = encoder_of(byte_tokenizer(adds_bos=False))
    first, _ = token_findings(encoded(encoder), encoder, "right")
    assert (first.verdict, first.finding) == ("pass", "the tokenizer adds no <|bos|>, and none is doubled")


def test_a_row_cut_on_the_left_has_lost_its_beginning_and_not_its_end() -> None:
    cut = row([OTHER, OTHER, OTHER], [2], truncated=True)
    first, last = token_findings([row([BOS, OTHER, STOP], [2]), cut], encoder_of(byte_tokenizer()), "left")
    assert first.verdict == "pass"
    assert last.verdict == "warn"
    first, last = token_findings([row([BOS, OTHER, STOP], [2]), cut], encoder_of(byte_tokenizer()), "right")
    assert first.verdict == "warn"
    assert last.verdict == "pass"


def test_a_stop_token_that_is_no_target_fails() -> None:
    masked = row([BOS, OTHER, OTHER, 220, STOP], [1, 2])
    line = stop_check([masked], byte_tokenizer())
    assert line.verdict == "fail"
    assert line.finding == "in 1 of 1 rows (100.0 %) a stop token follows the answer and is no target"
    assert "--chat-template" in line.advice


def test_a_template_without_stop_token_is_a_warning(tmp_path: Path) -> None:
    encoder = with_template(tmp_path, WITHOUT_STOP)
    _, last = token_findings(encoded(encoder), encoder, "right")
    assert (last.verdict, last.finding) == (
        "warn",
        "in 4 of 4 rows (100.0 %) the last target is no stop token",
    )


def test_a_tokenizer_without_end_token_is_a_warning(tmp_path: Path) -> None:
    encoder = with_template(tmp_path, WITHOUT_STOP, has_eos=False)
    assert token_findings(encoded(encoder), encoder, "right")[1].verdict == "warn"


def test_rows_without_their_end_say_nothing() -> None:
    line = stop_check([], byte_tokenizer())
    assert (line.verdict, line.finding) == ("warn", "all rows seen are cut off before their end")


def test_without_a_row_nothing_is_said_of_cut_ends() -> None:
    """Rows whose answers are all empty were said to be cut off, with the advice to raise --max-length."""
    lines = token_findings([], encoder_of(byte_tokenizer()), "right")
    assert {(line.verdict, line.finding, line.advice) for line in lines} == {
        ("warn", "not seen: no row can be scored", "")
    }


@pytest.mark.parametrize("has_eos", [True, False])
def test_special_tokens_can_end_an_answer_but_not_the_beginning(has_eos: bool) -> None:
    stops = stop_ids(byte_tokenizer(has_eos=has_eos))
    assert {STOP, 3} <= stops
    assert BOS not in stops
