"""Ways to spoil an answer: pure functions of a text and a seeded random generator.

Each takes a sound answer and returns one that should be dropped, or None where the answer offers nothing to
spoil, such as an answer without numbers to the function that shifts numbers.
"""

import re
from decimal import Decimal
from random import Random

from gradscore.validate.script import CJK, script_of

REFUSALS = (
    "I'm sorry, but as an AI language model I am unable to help with that request.",
    "Unfortunately I cannot answer this question. Please consult a qualified professional.",
    "As an artificial intelligence I do not have access to this information. Is there anything else I can do for you?",
    "I apologise for the inconvenience, but this falls outside of what I can assist with.",
)
REFUSALS_CJK = (
    "很抱歉，作为人工智能语言模型，我无法完成这个请求。",
    "对不起，我不能回答这个问题，请咨询专业人士。",
    "抱歉，我无法获取相关信息。请问还有什么可以帮您的吗？",
    "非常抱歉给您带来不便，这超出了我的能力范围。",
)
JUNK = (
    '<div class="post-body">',
    "</span></p>",
    "&nbsp;&nbsp;",
    "[edit]",
    "Read more &raquo;",
    "<!-- ad slot 3 -->",
    "Share on Facebook | Tweet",
    '<a href="#top">Back to top</a>',
    "{{template:cleanup}}",
    "\\u00a0\\u00a0",
)
"""Leftovers of web pages, as scrapers leave them in texts."""
WORDS_PER_JUNK = 8
SHORTEST_TRUNCATED = 20
"""Characters an answer needs before it is cut; half of a shorter one can still be a right answer."""
_PIECE = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
_NUMBER = re.compile(r"(?<![\w.,])[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?![\w])")
_LIST_MARK = re.compile(r"(?m)^\s*[0-9]+[.)]\s")


def words_of(text: str) -> list[str]:
    """Return the words of a text; each Chinese, Japanese or Korean character is one, since no spaces part them."""
    return _PIECE.findall(text)


def truncated(answer: str, rng: Random) -> str:
    """Return the beginning of the answer, broken off inside a word where it has one long enough.

    At least one character is kept and at least one is lost, so answers need two characters.
    """
    keep = max(1, min(len(answer) - 1, round(len(answer) * rng.uniform(0.2, 0.5))))
    return answer[:keep].rstrip() or answer[:1]


def word_salad(answer: str, foreign_words: list[str], rng: Random) -> str:
    """Return as many words as the answer has, and four at least, drawn from other answers in random order."""
    words = rng.choices(foreign_words, k=max(4, len(words_of(answer))))
    return ("" if script_of(answer) == CJK else " ").join(words)


def refusal(rng: Random, script: str = "LATIN") -> str:
    """Return a boilerplate refusal that fits no question, in Chinese for CJK and in English for other scripts."""
    return rng.choice(REFUSALS_CJK if script == CJK else REFUSALS)


def off_by_one(answer: str, rng: Random) -> str | None:
    """Return the answer with its last number one more or one less in its last digit; None without a number.

    The last number is most often the result. The numbers of a list's items are no results and are left alone.
    """
    marks = [match.span() for match in _LIST_MARK.finditer(answer)]
    numbers = [
        found
        for found in _NUMBER.finditer(answer)
        if not any(start <= found.start() < end for start, end in marks)
    ]
    if not numbers:
        return None
    found = numbers[-1]
    digits = found.group().replace(",", "")
    n_decimals = len(digits.partition(".")[2])
    unit = Decimal(1).scaleb(-n_decimals)
    step = unit if Decimal(digits) < unit or rng.random() < 0.5 else -unit
    grouping = "," if "," in found.group() else ""
    shifted = f"{Decimal(digits) + step:{grouping}.{n_decimals}f}"
    return answer[: found.start()] + shifted + answer[found.end() :]


def with_markup(answer: str, rng: Random) -> str | None:
    """Return the answer with leftovers of a web page between its words, one for every eight words and two at least.

    None for an answer without words.
    """
    words = list(_PIECE.finditer(answer))
    if not words:
        return None
    n_junk = max(2, len(words) // WORDS_PER_JUNK)
    places = sorted(rng.choices([0, *(word.end() for word in words)], k=n_junk), reverse=True)
    for place in places:
        answer = f"{answer[:place]} {rng.choice(JUNK)} {answer[place:]}"
    return answer
