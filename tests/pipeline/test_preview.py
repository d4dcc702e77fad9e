"""Tests previewing end to end: what a person sees, and what anyone needs to recompute the scores."""

import json
from pathlib import Path

import pandas as pd
import pytest

from gradscore.cli.main import main
from tests.tiny_tokenizer import load_tokenizer


def test_a_person_sees_the_targets_marked_and_all_rows_counted(
    model: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "--model", str(model), "--dataset", str(dataset), "--rows", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "Say the number 0\nfrom 0<|im_end|>" in shown
    assert "⟦It is 0<|im_end|>⟧" in shown
    assert "20 rows" in shown
    assert "0 truncated" in shown


def test_json_has_the_tokens_that_were_scored(
    model: Path, dataset: Path, capsys: pytest.CaptureFixture[str], expected: pd.DataFrame
) -> None:
    words = ["preview", "--model", str(model), "--dataset", str(dataset), "--json", "--quiet"]
    assert main(words) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["row_key"] for record in records] == expected["row_key"].tolist()
    assert [len(record["input_ids"]) for record in records] == expected["n_tokens"].tolist()
    assert [sum(record["target_mask"]) for record in records] == expected["n_target_tokens"].tolist()
    targets = [
        i
        for i, is_target in zip(records[1]["input_ids"], records[1]["target_mask"], strict=True)
        if is_target
    ]
    answer = load_tokenizer(model).decode(targets)
    assert answer == "It is 1" + " and more" * 7 + "<|im_end|>"
