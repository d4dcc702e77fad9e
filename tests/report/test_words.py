"""Tests gradscore.report.words: both languages say the same things with the same values."""

import re
from string import Formatter

import pytest

from gradscore.report.profile import MEASURES, Profile
from gradscore.report.readings import readings_of
from gradscore.report.words import TEXTS, Words


def places(text: str) -> set[tuple[str, str]]:
    return {(name, spec or "") for _, name, spec, _ in Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys_and_places() -> None:
    assert TEXTS["en"].keys() == TEXTS["zh"].keys()
    assert [key for key in TEXTS["en"] if places(TEXTS["en"][key]) != places(TEXTS["zh"][key])] == []


def test_chinese_is_chinese() -> None:
    same = {"gsnr", "0.15", "0.7"}
    plain = [
        text for text in TEXTS["zh"].values() if text not in same and not re.search("[\u4e00-\u9fff]", text)
    ]
    assert plain == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_reading_and_measure_has_its_words(language: str) -> None:
    for reading in readings_of(Profile({}, {}), {}, None):
        for part in ("symptom", "cause", "check", "remedy"):
            assert Words(language)(f"reading.{reading.name}.{part}")
    for measure in MEASURES:
        assert Words(language)(f"measure.{measure.name}")
