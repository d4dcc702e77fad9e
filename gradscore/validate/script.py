"""Which writing system a text is in, from the names that Unicode gives its letters.

Scripts are told apart, languages are not: English and French are both LATIN. Of a dataset in one script
nothing can be said about wrong languages without a language model, so nothing is.
"""

import unicodedata
from collections import Counter

CJK = "CJK"
NONE = "none"
"""Of a text without letters."""
_SAME = {"HIRAGANA": CJK, "KATAKANA": CJK, "BOPOMOFO": CJK, "FULLWIDTH": "LATIN"}
LETTERS_READ = 400
"""Letters at the beginning that decide; the rest of a long text seldom says otherwise."""


def script_of(text: str) -> str:
    """Return the script of most letters of a text, such as `LATIN`, `CJK` or `CYRILLIC`; `none` without letters.

    Japanese kana count as CJK, so that a text which mixes both is in one script.
    """
    letters = [character for character in text if character.isalpha()][:LETTERS_READ]
    names = Counter(unicodedata.name(letter, "").split(" ")[0] for letter in letters)
    scripts: Counter[str] = Counter()
    for name, count in names.items():
        scripts[_SAME.get(name, name)] += count
    return scripts.most_common(1)[0][0] if scripts else NONE
