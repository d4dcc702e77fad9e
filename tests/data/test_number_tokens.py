"""Tests data/number_tokens.py: digits of any script count, names that hold digits without writing them do not."""

from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from gradscore.data.number_tokens import number_ids
from tests.tiny_tokenizer import byte_tokenizer


def test_tokens_that_write_a_digit_count_and_special_ones_do_not() -> None:
    tokenizer = byte_tokenizer()
    digits = {tokenizer.convert_tokens_to_ids(digit) for digit in "0123456789"}
    assert number_ids(tokenizer) == digits
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end_2|>"]})
    tokenizer.add_tokens(["year 2000", "٣", "three", "三"])
    assert number_ids(tokenizer) == digits | {
        tokenizer.convert_tokens_to_ids(word) for word in ("year 2000", "٣")
    }


def test_a_name_with_a_digit_that_writes_none_does_not_count() -> None:
    """Byte tokens of sentencepiece are named by their number: <0x0A> is a line break."""
    tokenizer = Tokenizer(models.BPE(vocab={"<0x0A>": 0, "7": 1}, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.ByteFallback()
    assert number_ids(PreTrainedTokenizerFast(tokenizer_object=tokenizer)) == {1}
