"""Small exercises on words: reversing, counting, casing, initials, acrostics."""

from collections.abc import Callable
from random import Random

from gradscore.demo.example import Example

WORDS = (
    "lantern", "harbour", "marble", "window", "cactus", "violin", "basket", "meadow", "pepper", "rocket", "saddle",
    "tunnel", "umbrella", "walnut", "zebra", "anchor", "blanket", "candle", "dolphin", "engine", "feather", "guitar",
)  # fmt: skip
PHRASES = (
    "the quiet river bends north",
    "bring warm clothes and water",
    "our train leaves before noon",
    "green tea helps me think",
    "every window faces the sea",
    "please close the garden gate",
    "old maps show lost roads",
)
COUNT_WORDS = ("zero", "one", "two", "three", "four", "five")


def write(rng: Random) -> Example:
    """Return an exercise on a word, a phrase or a list of words."""
    return rng.choice(EXERCISES)(rng)


def _reverse(rng: Random) -> Example:
    word = rng.choice(WORDS)
    task, given = rng.choice(
        (
            (f"Spell the word '{word}' backwards.", ""),
            ("Reverse the letters of this word.", word),
            (f"Write '{word}' from the last letter to the first.", ""),
        )
    )
    return Example(task, given, rng.choice((word[::-1], f"Backwards, '{word}' reads '{word[::-1]}'.")))


def _count_letter(rng: Random) -> Example:
    word = rng.choice(WORDS)
    letter = rng.choice(sorted(set(word)))
    count = word.count(letter)
    times = f"{COUNT_WORDS[count]} time{'s' if count != 1 else ''}"
    places = " and ".join(str(place) for place, found in enumerate(word, 1) if found == letter)
    answer = rng.choice(
        (
            f"The letter '{letter}' appears {times} in '{word}'.",
            f"{count}",
            f"Going through {'-'.join(word)}, '{letter}' turns up at position {places}, so {times}.",
        )
    )
    return Example(f"How often does the letter '{letter}' occur in the word '{word}'?", "", answer)


def _upper(rng: Random) -> Example:
    phrase = rng.choice(PHRASES)
    if rng.random() < 0.5:
        return Example("Rewrite the sentence in capital letters.", phrase, phrase.upper())
    return Example("Capitalise the first letter of every word.", phrase, phrase.title())


def _initials(rng: Random) -> Example:
    words = rng.sample(WORDS, rng.randint(3, 5))
    first = "".join(word[0] for word in words)
    task = rng.choice(
        (
            "Which string do the first letters of these words form?",
            "Join the initial letters of the listed words.",
        )
    )
    answer = rng.choice(
        (first, f"Taking the first letters, {', '.join(word[0] for word in words)}, gives '{first}'.")
    )
    return Example(task, ", ".join(words), answer)


def _count_words(rng: Random) -> Example:
    phrase = rng.choice(PHRASES)
    longest = max(phrase.split(), key=len)
    count = len(phrase.split())
    answer = f"There are {count} words in it, and the longest is '{longest}' with {len(longest)} letters."
    return Example("Count the words in this sentence and name the longest one.", phrase, answer)


def _replace(rng: Random) -> Example:
    word = rng.choice(WORDS)
    old = rng.choice([letter for letter in sorted(set(word)) if letter in "aeiou"])
    new = rng.choice([letter for letter in "aeiou" if letter != old])
    task = f"In the word '{word}', replace each '{old}' with '{new}'."
    return Example(
        task, "", rng.choice((word.replace(old, new), f"The result is '{word.replace(old, new)}'."))
    )


EXERCISES: tuple[Callable[[Random], Example], ...] = (
    _reverse,
    _count_letter,
    _upper,
    _initials,
    _count_words,
    _replace,
)
