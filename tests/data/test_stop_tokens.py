"""Tests data/stop_tokens.py: turn ends count, beginnings do not unless they are the end token too."""

from gradscore.data.stop_tokens import stop_ids
from tests.tiny_tokenizer import byte_tokenizer


def test_the_end_token_and_other_special_tokens_stop() -> None:
    assert stop_ids(byte_tokenizer()) == {0, 2, 3}


def test_a_beginning_that_is_the_end_token_too_stops() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.bos_token = tokenizer.eos_token
    assert 2 in stop_ids(tokenizer)
