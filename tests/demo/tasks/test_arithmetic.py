"""Tests demo/tasks/arithmetic.py: every equation in an answer holds, and the answer ends with its result."""

import re
from random import Random

import pytest

from gradscore.demo.tasks.arithmetic import PROBLEMS

EQUATION = re.compile(r"\$?(\d+) ([×÷−]) \$?(\d+) = \$?(\d+)")
APPLY = {"×": lambda a, b: a * b, "−": lambda a, b: a - b, "÷": lambda a, b: a / b}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_equations_hold(problem: object) -> None:
    answers = [problem(Random(seed)).output for seed in range(60)]  # type: ignore[operator]
    equations = [match for answer in answers for match in EQUATION.findall(answer)]
    for a, sign, b, result in equations:
        assert APPLY[sign](int(a), int(b)) == int(result)


def test_there_are_equations_to_check() -> None:
    answers = [problem(Random(seed)).output for problem in PROBLEMS for seed in range(60)]
    assert sum(bool(EQUATION.search(answer)) for answer in answers) > 100


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def answers_of(problem: object) -> list[tuple[list[float], list[float], str]]:
    examples = [problem(Random(seed)) for seed in range(60)]  # type: ignore[operator]
    return [(numbers(e.instruction), numbers(e.output), e.instruction) for e in examples]


def test_change_is_the_note_less_the_cost() -> None:
    for given, found, text in answers_of(PROBLEMS[0]):
        note = max(given)
        count, price = (n for n in given if n != note)
        assert found[-1] == note - count * price, text


def test_a_journey_is_speed_times_hours() -> None:
    for given, found, text in answers_of(PROBLEMS[1]):
        expected = given[0] * given[1] if "far" in text else given[0] / given[1]
        assert found[-1] == expected, text


def test_shares_and_remainder() -> None:
    for given, found, _ in answers_of(PROBLEMS[2]):
        people, total = sorted(given)
        assert found[-2:] == [total // people, total % people]


def test_savings() -> None:
    for (start, weekly, weeks), found, _ in answers_of(PROBLEMS[3]):
        assert found[-1] == start + weekly * weeks


def test_fence_and_area() -> None:
    for (length, width), found, text in answers_of(PROBLEMS[4]):
        assert found[-1] == (2 * (length + width) if "fence" in text else length * width)


def test_discount() -> None:
    for (price, percent), found, _ in answers_of(PROBLEMS[5]):
        assert found[-1] == price - price * percent / 100
