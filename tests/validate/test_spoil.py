"""Tests validate/spoil.py: each way to spoil an answer does what it says, and the same for the same seed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.validate import spoil
from gradscore.validate.script import script_of


@given(answer=st.text(min_size=2), seed=st.integers(0, 99))
def test_truncation_keeps_a_beginning_and_loses_an_end(answer: str, seed: int) -> None:
    cut = spoil.truncated(answer, Random(seed))
    assert answer.startswith(cut)
    assert 1 <= len(cut) < len(answer)


@given(answer=st.text(), seed=st.integers(0, 99))
def test_word_salad_has_foreign_words_only_and_as_many(answer: str, seed: int) -> None:
    salad = spoil.word_salad(answer, ["红", "蓝"], Random(seed))
    assert set(salad) <= {"红", "蓝", " "}
    assert len(spoil.words_of(salad)) == max(4, len(spoil.words_of(answer)))


def test_words_are_parted_by_spaces_or_are_single_characters() -> None:
    assert spoil.words_of("Say: 你好 now, ok?") == ["Say:", "你", "好", "now,", "ok?"]


def test_refusals_are_the_known_ones_and_in_the_script_of_the_row() -> None:
    assert {spoil.refusal(Random(seed)) for seed in range(50)} == set(spoil.REFUSALS)
    assert {spoil.refusal(Random(seed), "CJK") for seed in range(50)} == set(spoil.REFUSALS_CJK)


@pytest.mark.parametrize(
    ("answer", "shifted"),
    [
        ("It is 12.", {"It is 11.", "It is 13."}),
        ("0", {"1"}),
        ("about 3.14, surely", {"about 3.13, surely", "about 3.15, surely"}),
        ("$1,000 in all", {"$999 in all", "$1,001 in all"}),
        ("1. Take 5 eggs\n2. Beat them", {"1. Take 4 eggs\n2. Beat them", "1. Take 6 eggs\n2. Beat them"}),
        ("2 and 3", {"2 and 2", "2 and 4"}),
    ],
)
def test_the_last_number_moves_by_one(answer: str, shifted: set[str]) -> None:
    assert {spoil.off_by_one(answer, Random(seed)) for seed in range(20)} == shifted


@pytest.mark.parametrize("answer", ["none here", "H2O and x86_64", "1. First\n2. Second", ""])
def test_without_a_number_of_its_own_nothing_is_shifted(answer: str) -> None:
    assert spoil.off_by_one(answer, Random(0)) is None


@given(answer=st.text(), seed=st.integers(0, 99))
def test_a_shifted_number_is_the_only_change(answer: str, seed: int) -> None:
    shifted = spoil.off_by_one(answer, Random(seed))
    if shifted is not None:
        assert shifted != answer
        assert [c for c in shifted if c not in "0123456789,"] == [c for c in answer if c not in "0123456789,"]


@given(
    words=st.lists(st.sampled_from(["red", "blue", "green"]), min_size=1, max_size=40), seed=st.integers(0, 9)
)
def test_markup_keeps_the_words_in_order_and_adds_junk(words: list[str], seed: int) -> None:
    text = spoil.with_markup(" ".join(words), Random(seed))
    assert text is not None
    n_junk = sum(text.count(f" {junk} ") for junk in spoil.JUNK)
    assert n_junk >= max(2, len(words) // spoil.WORDS_PER_JUNK)
    for junk in spoil.JUNK:
        text = text.replace(f" {junk} ", " ")
    assert text.split() == words


def test_an_answer_without_words_gets_no_markup() -> None:
    assert spoil.with_markup(" \n", Random(0)) is None


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Hello", "LATIN"),
        ("你好", "CJK"),
        ("ひらがな漢字", "CJK"),
        ("Привет, world", "CYRILLIC"),
        ("Ｈｅｌｌｏ", "LATIN"),
        ("42!", "none"),
        ("", "none"),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script
