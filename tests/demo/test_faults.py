"""Tests demo/faults.py: each fault spoils an answer in its own way."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gradscore.demo.faults import REFUSALS, refusal, truncated, word_salad


@given(answer=st.text(min_size=2), seed=st.integers(0, 99))
def test_truncation_keeps_a_beginning_and_loses_an_end(answer: str, seed: int) -> None:
    cut = truncated(answer, Random(seed))
    assert answer.startswith(cut)
    assert 1 <= len(cut) < len(answer)


@given(answer=st.text(), seed=st.integers(0, 99))
def test_word_salad_has_foreign_words_only_and_as_many(answer: str, seed: int) -> None:
    words = word_salad(answer, ["red", "blue"], Random(seed)).split()
    assert len(words) == max(4, len(answer.split()))
    assert set(words) <= {"red", "blue"}


def test_refusals_are_the_known_ones() -> None:
    assert {refusal(Random(seed)) for seed in range(50)} == set(REFUSALS)
