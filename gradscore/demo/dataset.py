"""The demo's instruction dataset: generated, deterministic, with known faults in about a fifth of its rows.

Columns are alpaca's (`instruction`, `input`, `output`) with two more that no model sees: `category`, and
`fault`, which is null for a sound row. All text is written by this project, so nothing is downloaded and
the truth about each row is known.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from gradscore.demo.example import Example
from gradscore.demo.tasks import arithmetic, code, facts, rewriting, strings, tables, units
from gradscore.validate import spoil

CATEGORIES: dict[str, Callable[[Random], Example]] = {
    "arithmetic": arithmetic.write,
    "units": units.write,
    "strings": strings.write,
    "tables": tables.write,
    "rewriting": rewriting.write,
    "facts": facts.write,
    "code": code.write,
}
FAULTS = ("swapped", "truncated", "word_salad", "refusal", "duplicate")
FAULTY_SHARE = 0.2


@dataclass(frozen=True)
class DemoRow:
    """One row of the demo dataset."""

    instruction: str
    input: str
    output: str
    category: str
    fault: str | None


def demo_rows(n: int, seed: int = 0) -> list[DemoRow]:
    """Return `n` rows in random order: categories in equal parts, a fifth faulty, kinds in equal parts."""
    rng = Random(seed)
    sound = _sound_rows(n, rng)
    planted: dict[int, str] = {}
    for turn in range(round(n * FAULTY_SHARE)):
        kind = FAULTS[turn % len(FAULTS)]
        planted[_place_for(kind, sound, planted, rng)] = kind
    intact = [row for place, row in enumerate(sound) if place not in planted]
    return [
        _with_fault(planted[place], row, intact, rng) if place in planted else row
        for place, row in enumerate(sound)
    ]


def write_demo_dataset(path: Path, n: int, seed: int = 0) -> list[DemoRow]:
    """Write `n` rows as JSON lines and return them; the same `n` and `seed` give the same bytes."""
    rows = demo_rows(n, seed)
    lines = [json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    return rows


def _sound_rows(n: int, rng: Random) -> list[DemoRow]:
    """Return rows without a fault; a question is asked again only where its category has run out of new ones."""
    names = list(CATEGORIES)
    seen: set[tuple[str, str]] = set()
    rows = []
    for place in range(n):
        category = names[place % len(names)]
        for _ in range(20):
            example = CATEGORIES[category](rng)
            if (example.instruction, example.input) not in seen:
                break
        seen.add((example.instruction, example.input))
        rows.append(DemoRow(example.instruction, example.input, example.output, category, None))
    rng.shuffle(rows)
    return rows


def _place_for(kind: str, sound: list[DemoRow], planted: dict[int, str], rng: Random) -> int:
    """Return a row that has no fault yet; for truncation one whose answer is long enough to be spoilt by it."""
    free = [place for place in range(len(sound)) if place not in planted]
    if kind == "truncated":
        long = [place for place in free if len(sound[place].output) >= spoil.SHORTEST_TRUNCATED]
        free = long or [max(free, key=lambda place: len(sound[place].output))]
    return rng.choice(free)


def _with_fault(kind: str, row: DemoRow, intact: list[DemoRow], rng: Random) -> DemoRow:
    """Return the row with its fault. Wrong answers come from another category, so that none is right by chance."""
    if kind == "duplicate":
        return replace(rng.choice(intact), fault=kind)
    if kind == "truncated":
        output = spoil.truncated(row.output, rng)
    elif kind == "refusal":
        output = spoil.refusal(rng)
    else:
        foreign = [other.output for other in intact if other.category != row.category]
        if kind == "swapped":
            output = rng.choice(foreign)
        else:
            words = [word for text in foreign for word in spoil.words_of(text)]
            output = spoil.word_salad(row.output, words, rng)
    return replace(row, output=output, fault=kind)
