"""Questions on well-known facts, from a small built-in table."""

from collections.abc import Callable
from random import Random

from gradscore.demo.example import Example

# country, capital, continent, currency
COUNTRIES = (
    ("France", "Paris", "Europe", "euro"),
    ("Japan", "Tokyo", "Asia", "yen"),
    ("Kenya", "Nairobi", "Africa", "Kenyan shilling"),
    ("Canada", "Ottawa", "North America", "Canadian dollar"),
    ("Peru", "Lima", "South America", "sol"),
    ("Egypt", "Cairo", "Africa", "Egyptian pound"),
    ("India", "New Delhi", "Asia", "Indian rupee"),
    ("Norway", "Oslo", "Europe", "Norwegian krone"),
    ("Chile", "Santiago", "South America", "Chilean peso"),
    ("Thailand", "Bangkok", "Asia", "baht"),
    ("Poland", "Warsaw", "Europe", "zloty"),
)
# element, symbol, atomic number
ELEMENTS = (
    ("hydrogen", "H", 1), ("helium", "He", 2), ("carbon", "C", 6), ("nitrogen", "N", 7), ("oxygen", "O", 8),
    ("sodium", "Na", 11), ("iron", "Fe", 26), ("copper", "Cu", 29), ("silver", "Ag", 47), ("gold", "Au", 79),
)  # fmt: skip
ANIMALS = (
    ("frog", "amphibian", "It lives both in water and on land and breathes partly through its moist skin."),
    ("whale", "mammal", "It breathes air and feeds its young with milk."),
    ("eagle", "bird", "It has feathers and lays eggs."),
    ("salmon", "fish", "It breathes with gills and swims with fins."),
    ("lizard", "reptile", "Its skin is covered with dry scales."),
    ("bat", "mammal", "It flies, but it has fur and feeds its young with milk."),
    ("beetle", "insect", "It has six legs and a body in three parts."),
)
WHYS = (
    ("Why does the Moon shine?", "The Moon has no light of its own. It reflects the light of the Sun."),
    (
        "Why does ice float on water?",
        "Ice is less dense than liquid water, because water expands when it freezes.",
    ),
    (
        "Why do we see lightning before we hear thunder?",
        "Light travels far faster than sound, so the flash reaches us first.",
    ),
    (
        "What causes day and night?",
        "The Earth turns around its axis once a day, so each place faces the Sun and then turns away from it.",
    ),
    (
        "What do plants need for photosynthesis?",
        "Plants need light, water and carbon dioxide. From these they make sugar and release oxygen.",
    ),
    (
        "What is the use of a compass?",
        "A compass shows where north is, so that people can find their direction.",
    ),
    (
        "Why do leaves look green?",
        "Leaves contain chlorophyll, which absorbs red and blue light and reflects green.",
    ),
    (
        "How does a vaccine protect people?",
        "It shows the immune system a harmless form or part of a germ, so that the body can fight the real one quickly.",
    ),
)


def write(rng: Random) -> Example:
    """Return a question on general knowledge and its answer."""
    return rng.choice(QUESTIONS)(rng)


def _country(rng: Random) -> Example:
    country, capital, continent, currency = rng.choice(COUNTRIES)
    options = (
        (f"What is the capital of {country}?", (capital, f"The capital of {country} is {capital}.")),
        (
            f"Which country has {capital} as its capital?",
            (country, f"{capital} is the capital of {country}."),
        ),
        (f"On which continent is {country}?", (continent, f"{country} lies in {continent}.")),
        (f"How do people pay in {country}? Name the currency.", (f"The currency is the {currency}.",)),
        (
            f"Tell me three facts about {country}.",
            (
                f"{country} lies in {continent}. Its capital is {capital}, and its currency is the {currency}.",
            ),
        ),
    )
    task, answers = rng.choice(options)
    return Example(task, "", rng.choice(answers))


def _element(rng: Random) -> Example:
    element, symbol, number = rng.choice(ELEMENTS)
    options = (
        (f"What is the chemical symbol for {element}?", f"The symbol for {element} is {symbol}."),
        (f"Which element has the symbol {symbol}?", f"{symbol} stands for {element}."),
        (
            f"How many protons does an atom of {element} have?",
            f"An atom of {element} has {number} proton{'s' if number > 1 else ''}.",
        ),
    )
    task, answer = rng.choice(options)
    return Example(task, "", answer)


def _animal(rng: Random) -> Example:
    animal, kind, reason = rng.choice(ANIMALS)
    article = "an" if kind[0] in "ai" else "a"
    task = rng.choice(
        (
            f"Which class of animals does the {animal} belong to, and why?",
            "Classify the animal and give one reason.",
        )
    )
    given = "" if animal in task else animal
    return Example(task, given, f"The {animal} is {article} {kind}. {reason}")


def _why(rng: Random) -> Example:
    question, answer = rng.choice(WHYS)
    lead = rng.choice(("", "Answer briefly: ", "Explain to a child: "))
    return Example(f"{lead}{question}", "", answer)


QUESTIONS: tuple[Callable[[Random], Example], ...] = (_country, _element, _animal, _why)
