"""Short grammar and rewriting exercises: tense, negation, questions, plurals, politeness, correction."""

from collections.abc import Callable
from random import Random

from gradscore.demo.example import Example

SUBJECTS = (
    "The gardener",
    "My sister",
    "A tall stranger",
    "The young doctor",
    "Our neighbour",
    "The new teacher",
)
# base form, present, past, what follows
ACTIONS = (
    ("open", "opens", "opened", "the shop at eight"),
    ("write", "writes", "wrote", "a letter to the council"),
    ("carry", "carries", "carried", "two heavy boxes upstairs"),
    ("teach", "teaches", "taught", "chess on Fridays"),
    ("buy", "buys", "bought", "fresh bread every morning"),
    ("take", "takes", "took", "the early ferry"),
    ("keep", "keeps", "kept", "the keys in a blue bowl"),
    ("draw", "draws", "drew", "small maps of the village"),
    ("repair", "repairs", "repaired", "old radios in the shed"),
)
PLURALS = (
    ("child", "children"), ("knife", "knives"), ("mouse", "mice"), ("box", "boxes"), ("city", "cities"),
    ("leaf", "leaves"), ("tooth", "teeth"), ("hero", "heroes"), ("man", "men"), ("bus", "buses"),
)  # fmt: skip
ERRORS = (
    ("She don't like coffee.", "She doesn't like coffee.", "the third person singular takes 'doesn't'"),
    ("Me and him went home.", "He and I went home.", "the subject needs 'he' and 'I'"),
    ("There is many reasons for this.", "There are many reasons for this.", "'reasons' is plural"),
    ("He runned to the station.", "He ran to the station.", "the past of 'run' is irregular"),
    ("I have saw that film.", "I have seen that film.", "'have' is followed by the participle 'seen'"),
    ("Its a lovely morning.", "It's a lovely morning.", "'it's' stands for 'it is'"),
    ("The dogs is barking.", "The dogs are barking.", "a plural subject takes 'are'"),
    ("This soup is more better.", "This soup is better.", "'better' is already a comparative"),
)
REQUESTS = (
    ("Send me the report.", "Could you please send me the report?"),
    ("Move your car.", "Would you mind moving your car, please?"),
    ("Be quiet.", "Could you please keep your voice down?"),
    ("Give me an answer today.", "I would be grateful for an answer today."),
    ("Fix the printer.", "Could you have a look at the printer when you have a moment, please?"),
)


def write(rng: Random) -> Example:
    """Return a rewriting exercise and its solution."""
    return rng.choice(EXERCISES)(rng)


def _past(rng: Random) -> Example:
    subject, (_, present, past, rest) = rng.choice(SUBJECTS), rng.choice(ACTIONS)
    task = rng.choice(
        (
            "Put this sentence into the past tense.",
            "Rewrite the sentence so that it happened yesterday, in the simple past.",
        )
    )
    return Example(task, f"{subject} {present} {rest}.", f"{subject} {past} {rest}.")


def _negate(rng: Random) -> Example:
    subject, (base, present, _, rest) = rng.choice(SUBJECTS), rng.choice(ACTIONS)
    return Example(
        "Make the sentence negative.", f"{subject} {present} {rest}.", f"{subject} does not {base} {rest}."
    )


def _question(rng: Random) -> Example:
    subject, (base, present, _, rest) = rng.choice(SUBJECTS), rng.choice(ACTIONS)
    task = rng.choice(("Turn the statement into a yes/no question.", "Ask whether this is true."))
    return Example(
        task, f"{subject} {present} {rest}.", f"Does {subject[0].lower()}{subject[1:]} {base} {rest}?"
    )


def _plural(rng: Random) -> Example:
    pairs = rng.sample(PLURALS, rng.randint(1, 3))
    if len(pairs) == 1:
        one, many = pairs[0]
        return Example(
            f"What is the plural of '{one}'?", "", rng.choice((many, f"The plural of '{one}' is '{many}'."))
        )
    given = ", ".join(one for one, _ in pairs)
    return Example("Give the plural of each noun.", given, ", ".join(many for _, many in pairs))


def _correct(rng: Random) -> Example:
    wrong, right, why = rng.choice(ERRORS)
    task, explained = rng.choice(
        (("Correct the mistake.", False), ("Correct the sentence and explain the mistake.", True))
    )
    return Example(task, wrong, f"{right} The mistake: {why}." if explained else right)


def _polite(rng: Random) -> Example:
    blunt, polite = rng.choice(REQUESTS)
    return Example(rng.choice(("Make this request more polite.", "Rephrase it courteously.")), blunt, polite)


EXERCISES: tuple[Callable[[Random], Example], ...] = (_past, _negate, _question, _plural, _correct, _polite)
