"""Tests demo/dataset.py: the same seed gives the same bytes, and every planted fault is a fault."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.demo.dataset import CATEGORIES, FAULTS, demo_rows, write_demo_dataset


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 120), seed=st.integers(0, 2**31))
def test_any_size_has_its_rows_and_a_fifth_of_faults(n: int, seed: int) -> None:
    rows = demo_rows(n, seed)
    assert len(rows) == n
    counts = Counter(row.fault for row in rows if row.fault is not None)
    assert sum(counts.values()) == round(n * 0.2)
    assert not counts or max(counts.values()) - min(counts.get(kind, 0) for kind in FAULTS) <= 1
    assert all(row.instruction and row.output for row in rows)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_demo_dataset(tmp_path / name, 50, seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_what_is_written_is_what_is_returned(tmp_path: Path) -> None:
    rows = write_demo_dataset(tmp_path / "d.jsonl", 40)
    read = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(read[0]) == ["instruction", "input", "output", "category", "fault"]
    assert [line["output"] for line in read] == [row.output for row in rows]
    assert {line["fault"] for line in read} == {None, *FAULTS}


def test_categories_come_in_equal_parts_before_faults() -> None:
    counts = Counter(row.category for row in demo_rows(700, seed=1))
    assert set(counts) == set(CATEGORIES)
    assert max(counts.values()) - min(counts.values()) < 20  # only duplicates move a row's category


def test_questions_and_answers_vary() -> None:
    sound = [row for row in demo_rows(500, seed=2) if row.fault is None]
    assert len({(row.instruction, row.input) for row in sound}) > 0.9 * len(sound)
    lengths = [len(row.output) for row in sound]
    assert min(lengths) < 5
    assert max(lengths) > 150


@pytest.mark.parametrize("seed", range(3))
def test_each_fault_is_what_it_says(seed: int) -> None:
    rows = demo_rows(300, seed)
    sound = {(row.instruction, row.input): row.output for row in rows if row.fault is None}
    categories = {row.output: row.category for row in rows if row.fault is None}
    for row in rows:
        if row.fault == "duplicate":
            assert sound[(row.instruction, row.input)] == row.output
        elif row.fault == "swapped":
            assert categories[row.output] != row.category
        elif row.fault == "refusal":
            assert "demo" not in row.output
            assert len(row.output) > 60
        elif row.fault == "word_salad":
            assert len(row.output.split()) >= 4
