"""Rows as text with their targets, counts, and the record from which anyone can recompute a row."""

import json

from gradscore.config import DataConfig
from gradscore.data.encode import Encoder
from gradscore.data.preview import preview, show, to_json
from gradscore.data.schemas import recognise
from gradscore.records import Row
from tests.tiny_tokenizer import byte_tokenizer


def encoder(columns, **options):
    config = DataConfig(**options)
    return Encoder(byte_tokenizer(), config, 60, recognise(columns, config))


ROWS = [
    Row(0, "k0", {"prompt": "q", "completion": "ä"}),
    Row(1, "k1", {"prompt": "q", "completion": ""}),
    Row(2, "k2", {"prompt": "q", "completion": None}),
    Row(3, "k3", {"prompt": "q", "completion": "long " * 20}),
    Row(4, "k4", {}, problem="line 5: broken"),
]


def test_pieces_are_the_text_split_at_the_targets():
    shown = preview(ROWS, encoder(["prompt", "completion"]), 1).rows
    assert len(shown) == 1
    assert shown[0].pieces == (
        ("<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n", False),
        ("ä<|im_end|>", True),
        ("\n", False),
    )
    assert (shown[0].row_index, shown[0].status, shown[0].n_target_tokens) == (0, "ok", 3)


def test_all_rows_are_counted_however_few_are_shown():
    counts = preview(ROWS, encoder(["prompt", "completion"]), 0).counts
    assert counts == {
        "rows": 5,
        "ok": 2,
        "truncated": 1,
        "too_long": 0,
        "no_target_tokens": 1,
        "empty": 1,
        "promptless": 0,
        "invalid": 2,
        "tokens": 24 + 60,
        "target_tokens": 3 + 40,
    }
    dropped = preview(ROWS, encoder(["prompt", "completion"], truncate="drop"), 0).counts
    assert (dropped["ok"], dropped["too_long"], dropped["truncated"]) == (1, 1, 0)


def test_rows_without_tokens_have_no_pieces():
    shown = preview(ROWS[2:3], encoder(["prompt", "completion"]), 5).rows
    assert shown[0].pieces == ()
    assert shown[0].status == "invalid: column 'completion' is null"
    assert preview([], encoder(["text"]), 3).counts["rows"] == 0


def test_json_record_holds_the_tokens_and_the_mask():
    (encoded,) = encoder(["prompt", "completion"]).encode(ROWS[0])
    record = json.loads(json.dumps(to_json(encoded)))
    assert list(record) == ["row_index", "row_key", "input_ids", "target_mask", "status"]
    targets = [
        i for i, is_target in zip(record["input_ids"], record["target_mask"], strict=True) if is_target
    ]
    assert byte_tokenizer().decode(targets) == "ä<|im_end|>"


def test_sides_of_a_pair_are_told_apart():
    both = encoder(["prompt", "chosen", "rejected"], side="both")
    encoded = both.encode(Row(0, "k", {"prompt": "q", "chosen": "a", "rejected": "b"}))
    assert [to_json(one)["side"] for one in encoded] == ["chosen", "rejected"]
    assert [show(one, both.tokenizer).pieces[1][0] for one in encoded] == ["a<|im_end|>", "b<|im_end|>"]


def test_empty_and_cut_away_are_told_apart():
    cut = Row(0, "k", {"prompt": "q" * 80, "completion": "a"})
    counts = preview([cut], encoder(["prompt", "completion"]), 0).counts
    assert (counts["no_target_tokens"], counts["truncated"], counts["empty"]) == (1, 1, 0)
