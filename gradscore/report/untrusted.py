"""Text of rows made fit to be shown: what steers a display becomes a visible name, and length is bounded.

Escaping for HTML is the template's work (autoescape) and is not done here.
"""

import re

MAX_CHARACTERS = 3_000
# Controls but tab and line feed, marks that turn the reading direction or hide, and halves of surrogate pairs, which
# UTF-8 cannot carry.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return the text with steering characters named, as in ⟨U+202E⟩, cut after `limit` characters with a mark."""
    shown = _STEERING.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text[:limit].replace("\r\n", "\n"))
    return shown if len(text) <= limit else f"{shown} … ⟨+{len(text) - limit}⟩"
