"""Tests gradscore.report.untrusted: nothing in a text steers the display, and all of it is UTF-8."""

from hypothesis import given
from hypothesis import strategies as st

from gradscore.report.untrusted import visible


def test_steering_characters_are_named_and_plain_text_is_left_alone() -> None:
    assert visible("a\u202eb\u200fc\x1bd\ud800e") == "a⟨U+202E⟩b⟨U+200F⟩c⟨U+001B⟩d⟨U+D800⟩e"
    assert visible("tab\tline\r\nümläut 中文 🙂") == "tab\tline\nümläut 中文 🙂"


def test_long_text_is_cut_and_says_so() -> None:
    assert visible("x" * 12, limit=10) == "x" * 10 + " … ⟨+2⟩"


@given(st.text(alphabet=st.characters()) | st.text(alphabet=st.characters(categories=["Cs", "Cf", "Cc"])))
def test_what_is_shown_can_be_written_and_hides_nothing(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not any(ord(c) < 32 and c not in "\t\n" for c in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u2028\u2029"
    )
