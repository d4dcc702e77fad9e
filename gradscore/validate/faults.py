"""The kinds of fault that can be planted: a small registry, open to kinds of your own.

A kind is a function of one row, the intact rows around it, and a seeded generator. It returns the row to start
from (nearly always the same one) and the answer that it gets, or None where it has nothing to work on. To add
one, register it before `validate_dataset` is called; it then has a name in `--kinds` and a column in the result:

    @fault_kind("shouting", "the answer in capitals")
    def shouting(row, others, rng):
        return Planted(row, row.answer.upper())
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from gradscore.errors import ConfigError
from gradscore.validate import spoil
from gradscore.validate.script import NONE, script_of


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row as the kinds of fault see it: what is asked and what is answered."""

    place: int
    """Position in the sample, from 0."""
    question: str
    answer: str
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Planted:
    """What stands in a row's place: all columns of `base`, with another answer."""

    base: Exchange
    answer: str


Plant: TypeAlias = Callable[[Exchange, Sequence[Exchange], Random], Planted | None]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault."""

    name: str
    meaning: str
    plant: Plant
    needs_question: bool
    """False for a fault that shows in the text alone, which plain text can have too."""
    is_in_row: bool
    """False where the row is sound by itself, such as a duplicate, so that no score of single rows can find it."""


FAULT_KINDS: dict[str, FaultKind] = {}
"""All kinds by name, in the order in which they were registered."""


def fault_kind(
    name: str,
    meaning: str,
    *,
    needs_question: bool = False,
    is_in_row: bool = True,
) -> Callable[[Plant], Plant]:
    """Return a decorator that registers a function as a kind of fault."""

    def register(plant: Plant) -> Plant:
        if name in FAULT_KINDS:
            raise ValueError(f"A kind of fault is named {name!r} already; kinds need names of their own.")
        FAULT_KINDS[name] = FaultKind(name, meaning, plant, needs_question, is_in_row)
        return plant

    return register


def choose_kinds(text: str | None) -> tuple[FaultKind, ...]:
    """Return the kinds that `--kinds` names, comma-separated; all of them where it is None.

    Raises:
        ConfigError: a name is unknown, or none is given.
    """
    if text is None:
        return tuple(FAULT_KINDS.values())
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in FAULT_KINDS]
    if unknown or not names:
        found = ", ".join(unknown) or repr(text)
        raise ConfigError(
            f"--kinds names no kind of fault: {found}. Kinds are: {', '.join(FAULT_KINDS)}; give some, comma-separated."
        )
    return tuple(FAULT_KINDS[name] for name in names)


@fault_kind("swapped", "the answer of another row", needs_question=True)
def swapped(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Give the row another row's answer, of another category where there is one, so that it seldom fits."""
    foreign = _foreign(row, others)
    return Planted(row, rng.choice(foreign).answer) if foreign else None


@fault_kind("truncated", "the answer breaks off in the middle")
def truncated(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Break the answer off; short answers are spared, since half of one can be right."""
    if len(row.answer) < spoil.SHORTEST_TRUNCATED:
        return None
    return Planted(row, spoil.truncated(row.answer, rng))


@fault_kind("word_salad", "words of other answers in random order")
def word_salad(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Put words of other answers in the place of the answer's own."""
    words = [word for other in _foreign(row, others) for word in spoil.words_of(other.answer)]
    return Planted(row, spoil.word_salad(row.answer, words, rng)) if words else None


@fault_kind("wrong_language", "the answer of a row in another script", needs_question=True)
def wrong_language(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Give the row an answer in another script than its own, from a row that is written in that script."""
    own = script_of(row.answer)
    foreign = [other for other in others if script_of(other.answer) not in (own, NONE)]
    return Planted(row, rng.choice(foreign).answer) if foreign and own != NONE else None


@fault_kind("refusal", "a boilerplate refusal", needs_question=True)
def refusal(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Refuse to answer, in the row's language as far as there is a text for it."""
    return Planted(row, spoil.refusal(rng, script_of(row.question)))


@fault_kind("duplicate", "a copy of another row", is_in_row=False)
def duplicate(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Put a copy of another row in the row's place."""
    other = rng.choice(others) if others else None
    return Planted(other, other.answer) if other else None


@fault_kind(
    "contradiction",
    "another row's question once more, with an answer that is not its own",
    needs_question=True,
)
def contradiction(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Ask another row's question again and answer it otherwise; the row that is contradicted stays."""
    base = rng.choice(others) if others else None
    foreign = _foreign(base, [other for other in others if other.place != base.place]) if base else []
    return Planted(base, rng.choice(foreign).answer) if base and foreign else None


@fault_kind("off_by_one", "the last number of the answer is one more or less")
def off_by_one(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Shift the last number of the answer; rows without numbers are spared."""
    answer = spoil.off_by_one(row.answer, rng)
    return None if answer is None else Planted(row, answer)


@fault_kind("markup", "leftovers of a web page between the words")
def markup(row: Exchange, others: Sequence[Exchange], rng: Random) -> Planted | None:
    """Put tags and leftovers of a web page between the answer's words."""
    answer = spoil.with_markup(row.answer, rng)
    return None if answer is None else Planted(row, answer)


def _foreign(row: Exchange, others: Sequence[Exchange]) -> list[Exchange]:
    """Return rows with another question and another answer, of another category where there are such.

    Plain text has no question; there another text is enough.
    """
    differing = [
        other
        for other in others
        if other.answer.strip() != row.answer.strip() and (not row.question or other.question != row.question)
    ]
    elsewhere = [other for other in differing if other.category != row.category]
    return elsewhere or differing
