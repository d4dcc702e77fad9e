"""Tests demo/tasks/tables.py: answers follow from the table in the question."""

import re
from random import Random

from gradscore.demo.example import Example
from gradscore.demo.tasks.tables import QUESTIONS


def examples(place: int) -> list[Example]:
    return [QUESTIONS[place](Random(seed)) for seed in range(40)]


def rows_of(example: Example) -> dict[str, int]:
    return {
        name.strip(): int(number)
        for name, number in re.findall(r"(?m)^\|? ?([\w ]+?) ?[|,] ?(\d+)", example.input)
    }


def test_extremes() -> None:
    for example in examples(0):
        rows = rows_of(example)
        choose = max if "highest" in example.instruction else min
        assert choose(rows, key=rows.__getitem__) in example.output


def test_sorted_entries() -> None:
    for example in examples(1):
        rows = rows_of(example)
        found = re.findall(r"(?m)^\d\. ([\w ]+) \(", example.output)
        assert found == sorted(rows, key=rows.__getitem__, reverse=True)


def test_sums() -> None:
    for example in examples(2):
        assert int(re.findall(r"\d+", example.output)[-1]) == sum(rows_of(example).values())


def test_differences() -> None:
    for example in examples(3):
        rows = rows_of(example)
        more, less, gap = (int(number) for number in re.findall(r"\d+", example.output))
        assert more - less == gap > 0
        assert {more, less} <= set(rows.values())


def test_sorted_numbers() -> None:
    for example in examples(4):
        found = [int(number) for number in re.findall(r"\d+", example.output)]
        given = [int(number) for number in example.input.split(", ")]
        assert found == sorted(given, reverse="largest to smallest" in example.instruction)
