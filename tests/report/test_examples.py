"""Tests gradscore.report.examples: which rows are shown, and their texts from the dataset."""

import json
from pathlib import Path

from gradscore.config import DataConfig, FilterConfig
from gradscore.data.read import open_source
from gradscore.filter.decide import decide
from gradscore.report.cut import find_cut
from gradscore.report.examples import choose_examples, read_texts
from gradscore.table.read import read_table
from tests.table.rows import scored, write_table


def test_best_worst_near_and_unscored_rows_are_chosen_once(tmp_path: Path) -> None:
    rows = [scored(i, gsnr=20.0 - i) for i in range(20)] + [scored(20, status="too_long")]
    table = read_table(write_table(tmp_path / "s.parquet", rows))
    config = FilterConfig(top_k="10")
    decisions = decide(table, config)
    chosen = choose_examples(decisions, find_cut(table, decisions, config), 4)
    groups = {name: [row for row, group in chosen.items() if group == name] for name in set(chosen.values())}
    assert groups == {"best": [0, 1, 2, 3], "worst": [19, 18, 17, 16], "near": [9, 10], "unscored": [20]}


def test_texts_are_those_of_the_table_and_a_changed_row_is_named(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "hi\u202e"}, {"from": "gpt", "value": "ho"}]
    lines = [{"conversations": turns, "empty": "", "n": 3}, {"conversations": []}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = open_source(DataConfig(dataset=str(path)))
    keys = {row.row_index: row.row_key for row in source.rows()}
    texts, changed = read_texts(source, {0: keys[0], 1: "0" * 32})
    assert texts == {0: (("conversations", "human: hi⟨U+202E⟩\ngpt: ho"), ("n", "3"))}
    assert changed == [1]
    assert read_texts(source, {}) == ({}, [])
