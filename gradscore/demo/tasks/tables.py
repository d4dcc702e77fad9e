"""Questions on short lists and small tables: sorting, extremes, sums, differences."""

from collections.abc import Callable
from random import Random

from gradscore.demo.example import Example

TOPICS = (
    ("City", "Sunny days", ("Arlen", "Brook", "Cadis", "Dunmore", "Elford"), (90, 240)),
    ("Player", "Points", ("Rosa", "Kenji", "Olu", "Marta", "Piet"), (8, 60)),
    ("Book", "Pages", ("Tides", "Embers", "The Ferry", "Northlight", "Salt"), (110, 620)),
    ("Fruit", "Price in cents", ("Pear", "Mango", "Plum", "Kiwi", "Fig"), (20, 180)),
    ("Trail", "Length in km", ("Ridge", "Lakeside", "Quarry", "Old Mill", "Summit"), (3, 28)),
)


def write(rng: Random) -> Example:
    """Return a question on a list of numbers or a table of a few rows."""
    return rng.choice(QUESTIONS)(rng)


def _table(rng: Random) -> tuple[str, str, dict[str, int], str]:
    """Return the two headings, the rows with distinct values, and the table as text."""
    key, value, names, (low, high) = rng.choice(TOPICS)
    chosen = rng.sample(names, rng.randint(3, 4))
    rows = dict(zip(chosen, rng.sample(range(low, high), len(chosen)), strict=True))
    if rng.random() < 0.5:
        text = "\n".join([f"| {key} | {value} |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())])
    else:
        text = "\n".join([f"{key},{value}", *(f"{k},{v}" for k, v in rows.items())])
    return key, value, rows, text


def _extreme(rng: Random) -> Example:
    key, value, rows, text = _table(rng)
    word, best = rng.choice(
        (("highest", max(rows, key=rows.__getitem__)), ("lowest", min(rows, key=rows.__getitem__)))
    )
    task = f"Which {key.lower()} has the {word} value in the column '{value}'?"
    answer = rng.choice(
        (best, f"{best}, with {rows[best]}.", f"The {word} value is {rows[best]}, and it belongs to {best}.")
    )
    return Example(task, text, answer)


def _sort_table(rng: Random) -> Example:
    _, value, rows, text = _table(rng)
    ordered = sorted(rows, key=rows.__getitem__, reverse=True)
    task = f"List the entries by '{value}', largest first."
    return Example(
        task, text, "\n".join(f"{place}. {name} ({rows[name]})" for place, name in enumerate(ordered, 1))
    )


def _total(rng: Random) -> Example:
    _, value, rows, text = _table(rng)
    total = sum(rows.values())
    added = " + ".join(str(number) for number in rows.values())
    task = rng.choice((f"Add up the column '{value}'.", f"What is the sum of all values under '{value}'?"))
    return Example(task, text, rng.choice((f"The sum is {total}.", f"{added} = {total}")))


def _difference(rng: Random) -> Example:
    _, value, rows, text = _table(rng)
    first, second = rng.sample(sorted(rows), 2)
    more, less = sorted((first, second), key=rows.__getitem__, reverse=True)
    gap = rows[more] - rows[less]
    task = f"By how much do {first} and {second} differ in '{value}'?"
    answer = f"{more} has {rows[more]} and {less} has {rows[less]}, a difference of {gap}."
    return Example(task, text, answer)


def _sort_list(rng: Random) -> Example:
    numbers = rng.sample(range(1, 99), rng.randint(4, 6))
    falling = rng.random() < 0.5
    order = "from largest to smallest" if falling else "in ascending order"
    result = ", ".join(str(number) for number in sorted(numbers, reverse=falling))
    task = rng.choice((f"Sort the numbers {order}.", f"Put these numbers {order}."))
    return Example(task, ", ".join(map(str, numbers)), rng.choice((result, f"Sorted {order}: {result}")))


QUESTIONS: tuple[Callable[[Random], Example], ...] = (_extreme, _sort_table, _total, _difference, _sort_list)
