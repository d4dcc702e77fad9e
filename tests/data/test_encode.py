"""Rows to tokens: target masks, truncation, and a status for every row that cannot be used."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.config import DataConfig
from gradscore.data.encode import Encoder, target_mask
from gradscore.data.schemas import recognise
from gradscore.errors import UnsupportedError
from gradscore.records import Row
from tests.data import templates
from tests.tiny_tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()
QA = {"question": "wie?", "answer": "sö\n"}
PROMPT = "<|im_start|>user\nwie?<|im_end|>\n<|im_start|>assistant\n"


def encoder(columns=("question", "answer"), *, max_length=200, tokenizer=TOKENIZER, **options):
    config = DataConfig(**options)
    return Encoder(tokenizer, config, max_length, recognise(list(columns), config))


def encode(content, *, tokenizer=TOKENIZER, **options):
    (encoded,) = encoder(list(content), tokenizer=tokenizer, **options).encode(Row(3, "key", content, "cat"))
    return encoded


def decoded(encoded, tokenizer=TOKENIZER):
    return tokenizer.decode(encoded.input_ids), tokenizer.decode(encoded.input_ids[encoded.target_mask])


def test_answer_and_stop_token_are_targets():
    encoded = encode(QA)
    assert decoded(encoded) == (PROMPT + "sö\n<|im_end|>\n", "sö\n<|im_end|>")
    assert (encoded.row_index, encoded.row_key, encoded.category) == (3, "key", "cat")
    assert (encoded.status, encoded.truncated, encoded.side) == ("ok", False, None)
    assert encoded.n_tokens == len(encoded.input_ids) == len(encoded.target_mask)
    assert encoded.n_target_tokens == encoded.target_mask.sum() == 5
    assert (encoded.input_ids.dtype, encoded.target_mask.dtype) == (np.int64, np.bool_)


@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_targets_decode_to_the_answer(question, answer):
    encoded = encode({"question": question, "answer": answer})
    if not answer.strip():
        assert (encoded.status, encoded.n_target_tokens) == ("no_target_tokens", 0)
    else:
        assert decoded(encoded)[1] == answer + "<|im_end|>"


def test_template_text_gets_no_second_beginning():
    with_bos = byte_tokenizer(chat_template="{{ bos_token }}" + templates.STRICT)
    encoded = encode(QA, tokenizer=with_bos)
    assert list(encoded.input_ids).count(with_bos.bos_token_id) == 1
    assert encoded.input_ids[0] == with_bos.bos_token_id
    assert encode(QA).input_ids[0] != TOKENIZER.bos_token_id


def test_alpaca_prompt_gets_the_tokenizers_beginning():
    plain = byte_tokenizer(chat_template=None)
    text, target = decoded(encode(QA, max_length=400, tokenizer=plain), plain)
    assert text.startswith("<|bos|>Below is")
    assert not text.startswith("<|bos|><|bos|>")
    assert target == "sö\n<|im_end|>"


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("has_eos", [True, False])
def test_plain_text_has_every_token_but_the_first_as_target(adds_bos, has_eos):
    tokenizer = byte_tokenizer(adds_bos=adds_bos, has_eos=has_eos)
    encoded = encode({"text": "abc"}, tokenizer=tokenizer)
    assert tokenizer.decode(encoded.input_ids) == "<|bos|>" * adds_bos + "abc" + "<|im_end|>" * has_eos
    assert encoded.target_mask.tolist() == [False] + [True] * (len(encoded.input_ids) - 1)


def test_plain_text_that_brings_its_own_ends_gets_no_second():
    encoded = encode({"text": "<|bos|>abc<|im_end|>"})
    assert decoded(encoded)[0] == "<|bos|>abc<|im_end|>"


def test_one_token_of_text_has_no_target():
    tokenizer = byte_tokenizer(adds_bos=False, has_eos=False)
    assert encode({"text": "a"}, tokenizer=tokenizer).status == "no_target_tokens"
    assert encode({"text": ""}).status == "no_target_tokens"


@given(st.integers(2, 60), st.sampled_from(["right", "left"]))
def test_truncation_keeps_one_end_of_the_whole(max_length, truncate):
    whole = encode(QA)
    cut = encode(QA, max_length=max_length, truncate=truncate)
    kept = slice(0, max_length) if truncate == "right" else slice(max(0, whole.n_tokens - max_length), None)
    assert cut.input_ids.tolist() == whole.input_ids[kept].tolist()
    assert cut.truncated == (whole.n_tokens > max_length)
    assert not cut.target_mask[0]
    assert cut.target_mask[1:].tolist() == whole.target_mask[kept][1:].tolist()
    assert cut.status == ("ok" if cut.target_mask.any() else "no_target_tokens")
    assert (cut.n_tokens, cut.n_target_tokens) == (len(cut.input_ids), cut.target_mask.sum())


def test_all_targets_cut_away():
    cut = encode(QA, max_length=10)
    assert (cut.status, cut.n_tokens, cut.n_target_tokens, cut.truncated) == ("no_target_tokens", 10, 0, True)


def test_too_long_rows_may_be_left_out_but_their_length_is_known():
    whole = encode(QA)
    long = encode(QA, max_length=10, truncate="drop")
    assert (long.status, long.truncated, len(long.input_ids)) == ("too_long", False, 0)
    assert (long.n_tokens, long.n_target_tokens) == (whole.n_tokens, whole.n_target_tokens)
    text = encode({"text": "abcdef"}, max_length=3, truncate="drop")
    assert (text.n_tokens, text.n_target_tokens) == (8, 7)
    exact = encode(QA, max_length=whole.n_tokens, truncate="drop")
    assert exact.status == "ok"


def test_a_huge_row():
    row = {"question": "wie?", "answer": "word " * 6000}
    assert encode(row, max_length=64).n_tokens == 64
    # All but the first token, which nothing predicts, and the line end after the stop token.
    assert encode(row, max_length=64, truncate="left").n_target_tokens == 62


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"question": "q", "answer": None}, "invalid: column 'answer' is null"),
        ({"question": "q", "answer": ["x"]}, "invalid: answer[0] is a str, not a turn"),
        ({"question": "q", "answer": "\ud800"}, "invalid: the text cannot be tokenised"),
        ({"question": "q", "answer": ""}, "no_target_tokens"),
        ({"question": "q", "answer": 42}, "ok"),
        ({"question": "q\0", "answer": "a\0b"}, "ok"),
    ],
)
def test_status_of_odd_rows(content, status):
    encoded = encode(content)
    assert encoded.status.startswith(status)
    if status.startswith("invalid"):
        assert (len(encoded.input_ids), encoded.n_tokens, encoded.category) == (0, 0, "cat")


def test_row_that_could_not_be_read_keeps_its_reason():
    (encoded,) = encoder().encode(Row(0, "key", {}, problem="line 3: broken JSON"))
    assert encoded.status == "invalid: line 3: broken JSON"


def test_both_sides_of_a_pair_give_two_records_each_with_its_own_status():
    columns = ["prompt", "chosen", "rejected"]
    both = encoder(columns, side="both")
    row = Row(0, "key", {"prompt": "q", "chosen": "a", "rejected": None})
    chosen, rejected = both.encode(row)
    assert (chosen.side, chosen.status) == ("chosen", "ok")
    assert (rejected.side, rejected.status) == ("rejected", "invalid: column 'rejected' is null")
    assert len(both.encode(Row(0, "key", {}, problem="broken"))) == 2
    (only,) = encoder(columns, side="rejected").encode(Row(0, "k", {**row.content, "rejected": "b"}))
    assert decoded(only)[1] == "b<|im_end|>"


def test_a_row_depends_on_nothing_but_itself():
    shared = encoder()
    rows = [Row(i, str(i), {"question": f"q{i}", "answer": "a" * i}) for i in range(5)]
    forward = [shared.encode(row)[0] for row in rows]
    backward = [shared.encode(row)[0] for row in rows[::-1]][::-1]
    assert [e.input_ids.tolist() for e in forward] == [e.input_ids.tolist() for e in backward]


def test_slow_tokenizers_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="SimpleNamespace is a slow one, without character offsets"):
        encoder(tokenizer=SimpleNamespace(is_fast=False))


@pytest.mark.parametrize(
    ("offsets", "mask"),
    [
        ([(0, 2), (2, 4), (4, 6), (6, 8)], [False, True, True, False]),
        ([(0, 3), (3, 5), (5, 8)], [True, True, True]),  # tokens that straddle an edge
        ([(0, 2), (2, 2), (3, 3), (6, 6), (7, 7)], [False, False, True, True, False]),  # trimmed to nothing
        ([(2, 3), (2, 3), (2, 3)], [True, True, True]),  # bytes of one character
        ([], []),
    ],
)
def test_tokens_with_a_character_in_the_span_are_targets(offsets, mask):
    assert target_mask(np.array(offsets, dtype=np.int64), ((2, 6),)).tolist() == mask


def test_spans_add_up():
    offsets = np.array([(i, i + 1) for i in range(6)])
    assert target_mask(offsets, ((0, 1), (4, 6))).tolist() == [True, False, False, False, True, True]
    assert not target_mask(offsets, ()).any()
