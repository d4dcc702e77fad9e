"""The faults planted in the demo dataset. Each takes a sound answer and returns one that should be dropped.

Duplicates are planted by the dataset itself, since they copy a whole row.
"""

from random import Random

REFUSALS = (
    "I'm sorry, but as an AI language model I am unable to help with that request.",
    "Unfortunately I cannot answer this question. Please consult a qualified professional.",
    "As an artificial intelligence I do not have access to this information. Is there anything else I can do for you?",
    "I apologise for the inconvenience, but this falls outside of what I can assist with.",
)


def truncated(answer: str, rng: Random) -> str:
    """Return the beginning of the answer, broken off inside a word where it has one long enough.

    At least one character is kept and at least one is lost, so answers need two characters.
    """
    keep = max(1, min(len(answer) - 1, round(len(answer) * rng.uniform(0.2, 0.5))))
    return answer[:keep].rstrip() or answer[:1]


def word_salad(answer: str, foreign_words: list[str], rng: Random) -> str:
    """Return as many words as the answer has, and four at least, drawn from other answers in random order."""
    return " ".join(rng.choices(foreign_words, k=max(4, len(answer.split()))))


def refusal(rng: Random) -> str:
    """Return a boilerplate refusal that fits no question of the dataset."""
    return rng.choice(REFUSALS)
