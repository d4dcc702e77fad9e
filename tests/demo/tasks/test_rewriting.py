"""Tests demo/tasks/rewriting.py: a rewritten sentence keeps what it must keep and changes what it must change."""

from random import Random

import pytest

from gradscore.demo.example import Example
from gradscore.demo.tasks.rewriting import ACTIONS, ERRORS, EXERCISES, PLURALS


def examples(place: int) -> list[Example]:
    return [EXERCISES[place](Random(seed)) for seed in range(40)]


@pytest.mark.parametrize("place", range(3))
def test_the_verb_changes_and_the_rest_stays(place: int) -> None:
    for example in examples(place):
        action = next(action for action in ACTIONS if f" {action[1]} {action[3]}" in example.input)
        base, present, past, rest = action
        assert rest in example.output
        assert f" {present} " not in example.output
        assert (past if place == 0 else base) in example.output.split()
        assert example.output.endswith("?" if place == 2 else ".")


def test_plurals() -> None:
    plural = dict(PLURALS)
    for example in examples(3):
        if example.input:
            assert example.output.split(", ") == [plural[word] for word in example.input.split(", ")]
        else:
            word = example.instruction.split("'")[1]
            assert plural[word] in example.output


def test_corrections() -> None:
    right = {wrong: (better, why) for wrong, better, why in ERRORS}
    for example in examples(4):
        better, why = right[example.input]
        assert example.output.startswith(better)
        assert (why in example.output) == ("explain" in example.instruction)


def test_polite_requests_are_longer_and_another_sentence() -> None:
    for example in examples(5):
        assert len(example.output) > len(example.input)
        assert example.output[-1] in "?."
