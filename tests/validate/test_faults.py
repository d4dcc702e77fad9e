"""Tests validate/faults.py: the registry, and what each kind makes of a row."""

from collections.abc import Iterator
from random import Random

import pytest

from gradscore.errors import ConfigError
from gradscore.validate.faults import (
    FAULT_KINDS,
    Exchange,
    Planted,
    choose_kinds,
    fault_kind,
)

ROW = Exchange(0, "How many?", "There are 12 of them in the box, I think.", "count")
OTHERS = (
    Exchange(1, "Which colour?", "It is red as far as one can see.", "colour"),
    Exchange(2, "How much?", "It weighs 3 kg when it is dry.", "count"),
    Exchange(3, "何时？", "明天早上八点钟。", "colour"),
)


def plant(
    kind: str, row: Exchange = ROW, others: tuple[Exchange, ...] = OTHERS, seed: int = 0
) -> Planted | None:
    return FAULT_KINDS[kind].plant(row, others, Random(seed))


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_the_same_seed_plants_the_same(kind: str) -> None:
    assert plant(kind, seed=3) == plant(kind, seed=3)


@pytest.mark.parametrize("kind", [name for name in FAULT_KINDS if name not in ("duplicate", "contradiction")])
def test_most_kinds_keep_the_question_and_change_the_answer(kind: str) -> None:
    planted = plant(kind)
    assert planted is not None
    assert planted.base == ROW
    assert planted.answer != ROW.answer


def test_a_swapped_answer_comes_from_another_category() -> None:
    answers = {planted.answer for seed in range(20) if (planted := plant("swapped", seed=seed))}
    assert answers == {OTHERS[0].answer, OTHERS[2].answer}


def test_with_one_category_a_swapped_answer_comes_from_any_other_row() -> None:
    others = (Exchange(1, "Other?", "Yes.", "count"), Exchange(2, "How many?", "None.", "count"))
    assert {p.answer for seed in range(9) if (p := plant("swapped", others=others, seed=seed))} == {"Yes."}


def test_a_wrong_language_is_another_script() -> None:
    planted = plant("wrong_language")
    assert planted == Planted(ROW, OTHERS[2].answer)
    assert plant("wrong_language", others=OTHERS[:2]) is None


def test_a_duplicate_is_a_row_and_a_contradiction_is_one_with_a_foreign_answer() -> None:
    copied = plant("duplicate")
    assert copied is not None
    assert copied.base in OTHERS
    assert copied.answer == copied.base.answer
    for seed in range(20):
        contradicted = plant("contradiction", seed=seed)
        assert contradicted is not None
        assert contradicted.base in OTHERS
        assert contradicted.answer != contradicted.base.answer


def test_short_answers_are_not_truncated_and_lone_rows_not_swapped() -> None:
    assert plant("truncated", Exchange(0, "q", "Yes.")) is None
    for kind in ("swapped", "word_salad", "wrong_language", "duplicate", "contradiction"):
        assert plant(kind, others=()) is None


@pytest.fixture
def shouting() -> Iterator[str]:
    @fault_kind("shouting", "the answer in capitals")
    def shout(row: Exchange, others: object, rng: Random) -> Planted:
        return Planted(row, row.answer.upper())

    yield "shouting"
    del FAULT_KINDS["shouting"]


def test_a_kind_of_ones_own_has_a_name(shouting: str) -> None:
    assert [kind.name for kind in choose_kinds(shouting)] == ["shouting"]
    assert plant(shouting) == Planted(ROW, ROW.answer.upper())
    with pytest.raises(ValueError, match="named 'shouting' already"):
        fault_kind("shouting", "again")(lambda row, others, rng: None)


def test_kinds_are_chosen_by_name_and_once() -> None:
    assert [kind.name for kind in choose_kinds(" refusal, swapped,refusal")] == ["refusal", "swapped"]
    assert [kind.name for kind in choose_kinds(None)] == list(FAULT_KINDS)


@pytest.mark.parametrize(("text", "found"), [("swapped,spam", "spam"), (" ,", "' ,'")])
def test_unknown_kinds_are_named_with_those_that_exist(text: str, found: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"names no kind of fault: {found}\. Kinds are: swapped, truncated"
    ):
        choose_kinds(text)
