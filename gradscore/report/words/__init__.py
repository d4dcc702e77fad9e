"""The sentences of the page, by language. Both languages have the same keys and placeholders; a test holds it."""

from collections.abc import Mapping
from typing import Literal

from gradscore.report.words import en, zh

Language = Literal["en", "zh"]
TEXTS: Mapping[str, Mapping[str, str]] = {"en": en.TEXTS, "zh": zh.TEXTS}


class Words:
    """The sentences of one language, with their values filled in."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._texts = TEXTS[language]

    def __call__(self, key: str, **values: object) -> str:
        """Return the sentence under a key."""
        return self._texts[key].format(**values)

    def or_else(self, key: str, default: str) -> str:
        """Return the sentence under a key, or `default`: columns that are added later have no sentence here."""
        return self._texts.get(key, default)
