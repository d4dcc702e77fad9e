"""Tests demo/tasks/strings.py: answers follow from the words in the question."""

import re
from random import Random

from gradscore.demo.example import Example
from gradscore.demo.tasks.strings import COUNT_WORDS, EXERCISES


def examples(place: int) -> list[Example]:
    return [EXERCISES[place](Random(seed)) for seed in range(40)]


def word_of(example: Example) -> str:
    return example.input or re.findall(r"'(\w+)'", example.instruction)[-1]


def test_reversed_words() -> None:
    for example in examples(0):
        assert word_of(example)[::-1] in example.output


def test_letter_counts() -> None:
    for example in examples(1):
        letter, word = re.findall(r"'(\w+)'", example.instruction)
        count = word.count(letter)
        assert example.output == str(count) or f"{COUNT_WORDS[count]} time" in example.output


def test_capitals_keep_the_words() -> None:
    for example in examples(2):
        assert example.output.lower() == example.input
        assert example.output != example.input


def test_initials() -> None:
    for example in examples(3):
        first = "".join(word[0] for word in example.input.split(", "))
        assert example.output.rstrip(".'").endswith(first)


def test_word_counts() -> None:
    for example in examples(4):
        words = example.input.split()
        longest = max(len(word) for word in words)
        assert f"There are {len(words)} words" in example.output
        assert f"with {longest} letters" in example.output


def test_replaced_letters() -> None:
    for example in examples(5):
        word, old, new = re.findall(r"'(\w+)'", example.instruction)
        assert word.replace(old, new) in example.output
