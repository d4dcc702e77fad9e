"""Word problems with whole numbers, with short and worked answers."""

from collections.abc import Callable
from random import Random

from gradscore.demo.example import Example

NAMES = ("Maya", "Jonas", "Aisha", "Pedro", "Lena", "Tom", "Yuki", "Samir", "Clara", "Ivan", "Nora", "Felix")
GOODS = (
    ("notebook", "notebooks"),
    ("ticket", "tickets"),
    ("plant pot", "plant pots"),
    ("sandwich", "sandwiches"),
    ("paint brush", "paint brushes"),
    ("light bulb", "light bulbs"),
)


def write(rng: Random) -> Example:
    """Return a word problem and its solution."""
    return rng.choice(PROBLEMS)(rng)


def _change(rng: Random) -> Example:
    name, (_, goods) = rng.choice(NAMES), rng.choice(GOODS)
    count, price = rng.randint(2, 9), rng.randint(2, 12)
    cost = count * price
    note = next(note for note in (20, 50, 100, 200) if note > cost)
    question = rng.choice(
        (
            f"{name} buys {count} {goods} at ${price} each and pays with a ${note} bill. How much change is due?",
            f"At ${price} apiece, {name} takes {count} {goods} to the till and hands over ${note}. What comes back?",
            f"How much money does {name} get back from ${note} after paying for {count} {goods} that cost ${price} each?",
        )
    )
    answer = rng.choice(
        (
            f"The {goods} cost {count} × ${price} = ${cost}. From ${note} that leaves ${note - cost} in change.",
            f"${note - cost}",
            f"{name} spends ${cost} in total, because {count} times {price} is {cost}. The change is ${note} − ${cost} = ${note - cost}.",
        )
    )
    return Example(question, "", answer)


def _journey(rng: Random) -> Example:
    speed, hours = rng.choice((40, 45, 60, 70, 80, 90, 110)), rng.randint(2, 7)
    vehicle = rng.choice(("train", "bus", "delivery van", "motorcyclist"))
    if rng.random() < 0.5:
        question = f"A {vehicle} travels at a steady {speed} km/h for {hours} hours. How far does it get?"
        answer = rng.choice(
            (
                f"It covers {speed * hours} km.",
                f"Distance is speed times time: {speed} km/h × {hours} h = {speed * hours} km.",
            )
        )
    else:
        question = f"How long does a {vehicle} need for {speed * hours} kilometres at an average of {speed} kilometres per hour?"
        answer = rng.choice(
            (
                f"{hours} hours.",
                f"Divide the distance by the speed: {speed * hours} ÷ {speed} = {hours}. The trip takes {hours} hours.",
            )
        )
    return Example(question, "", answer)


def _sharing(rng: Random) -> Example:
    people, each = rng.randint(3, 9), rng.randint(3, 14)
    left = rng.randint(1, people - 1)
    total = people * each + left
    thing = rng.choice(("marbles", "stickers", "apples", "trading cards", "cookies"))
    question = rng.choice(
        (
            f"{total} {thing} are shared equally among {people} children. How many does each child get, and how many are left over?",
            f"Work out how {people} friends can split {total} {thing} fairly, and say what remains.",
        )
    )
    answer = rng.choice(
        (
            f"Each gets {each} {thing}, and {left} {'is' if left == 1 else 'are'} left over.",
            f"{people} × {each} = {people * each}, and {total} − {people * each} = {left}. So everyone receives {each} {thing} with {left} remaining.",
        )
    )
    return Example(question, "", answer)


def _saving(rng: Random) -> Example:
    name, start, weekly, weeks = rng.choice(NAMES), rng.randint(5, 60), rng.randint(3, 20), rng.randint(4, 12)
    total = start + weekly * weeks
    question = rng.choice(
        (
            f"{name} has ${start} and puts aside ${weekly} every week. How much is there after {weeks} weeks?",
            f"Starting from ${start}, {name} saves ${weekly} a week. Calculate the total after {weeks} weeks.",
        )
    )
    answer = rng.choice(
        (
            f"After {weeks} weeks {name} has ${total}.",
            f"In {weeks} weeks the savings grow by {weeks} × ${weekly} = ${weekly * weeks}. Together with the first ${start} that makes ${total}.",
        )
    )
    return Example(question, "", answer)


def _garden(rng: Random) -> Example:
    length, width = rng.randint(6, 25), rng.randint(3, 12)
    place = rng.choice(("garden", "playground", "vegetable bed", "courtyard"))
    if rng.random() < 0.5:
        question = f"A rectangular {place} is {length} m long and {width} m wide. How many metres of fence go around it?"
        answer = f"The perimeter is 2 × ({length} + {width}) = {2 * (length + width)} m, so {2 * (length + width)} metres of fence are needed."
    else:
        question = f"What area does a rectangular {place} of {length} m by {width} m cover?"
        answer = rng.choice(
            (
                f"{length * width} square metres.",
                f"Length times width gives {length} × {width} = {length * width} m².",
            )
        )
    return Example(question, "", answer)


def _discount(rng: Random) -> Example:
    price, percent = rng.choice((40, 60, 80, 120, 150, 200, 250)), rng.choice((10, 20, 25, 30, 50))
    saved = price * percent / 100
    item = rng.choice(("jacket", "pair of headphones", "lamp", "suitcase", "rain coat"))
    question = f"A {item} normally costs ${price} and is reduced by {percent} %. What is the new price?"
    answer = rng.choice(
        (
            f"${price - saved:g}",
            f"{percent} % of ${price} is ${saved:g}, so the reduced price is ${price - saved:g}.",
        )
    )
    return Example(question, "", answer)


PROBLEMS: tuple[Callable[[Random], Example], ...] = (
    _change,
    _journey,
    _sharing,
    _saving,
    _garden,
    _discount,
)
