"""Tests demo/tasks/code.py: every function in an answer runs and does what the request says."""

import re
from random import Random

import pytest

from gradscore.demo.tasks.code import FUNCTIONS, ORDINALS, write

NUMBERS = [7, 12, 3, 30, 18, 5]
TEXT = "several quick foxes jump over a wall"
# What each function returns for n, written in another way than the answers.
EXPECTED = {
    "largest": lambda n: [30, 18, 12, 7, 5, 3][:n],
    "shift": lambda n: [7 + n, 12 + n, 3 + n, 30 + n, 18 + n, 5 + n],
    "multiples": lambda n: list(filter(lambda number: not number % n, NUMBERS)),
    "sum_of_squares": lambda n: sum([49, 144, 9, 900, 324, 25][:n]),
    "every_nth": lambda n: "".join(letter for place, letter in enumerate(TEXT) if place % n == 0),
    "repeat": lambda n: (n - 1) * f"{TEXT}-" + TEXT,
    "shorten": lambda n: "".join(letter for place, letter in enumerate(TEXT) if place < n),
    "is_long": lambda n: True,
    "count_long_words": lambda n: len(list(filter(lambda word: len(word) >= n, TEXT.split(" ")))),
    "average": lambda n: round(75 / 6, n),
}


@pytest.mark.parametrize("seed", range(80))
def test_the_function_does_what_it_says(seed: int) -> None:
    example = write(Random(seed))
    code = example.output
    if code.startswith("```python\n"):
        code = code.split("```")[1].removeprefix("python\n")
    namespace: dict[str, object] = {}
    exec(code, namespace)
    name, argument = re.findall(r"def (\w+)\((\w+)\)", code)[0]
    digits = re.findall(r"\d", example.instruction)
    words = [word for word in example.instruction.split() if word in ORDINALS]
    n = int(digits[0]) if digits else ORDINALS.index(words[0])
    result = namespace[name](NUMBERS if argument == "numbers" else TEXT)  # type: ignore[operator]
    assert result == EXPECTED[name](n)


def test_every_function_is_checked_above() -> None:
    assert {name for _, name, _, _, _ in FUNCTIONS} == set(EXPECTED)
    written = {re.findall(r"def (\w+)", write(Random(seed)).output)[0] for seed in range(80)}
    assert written == set(EXPECTED)
