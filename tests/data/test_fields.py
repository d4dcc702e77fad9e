"""Dotted paths into rows, nulls, and values as text."""

import pytest

from gradscore.data.fields import MISSING, is_null, is_scalar, look_up, to_text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", 1),
        ("m.source", "web"),
        ("l.1.x", 5),
        ("l.0.x", 4),
        ("dotted.name", "taken first"),
        ("n", None),
        ("absent", MISSING),
        ("m.absent", MISSING),
        ("a.b", MISSING),
        ("l.2.x", MISSING),
        ("l.x", MISSING),
        ("text.0", MISSING),
    ],
)
def test_look_up(path, value):
    row = {
        "a": 1,
        "m": {"source": "web"},
        "l": [{"x": 4}, {"x": 5}],
        "dotted.name": "taken first",
        "dotted": {"name": "not this"},
        "n": None,
        "text": "abc",
    }
    assert look_up(row, path) == value


def test_null_is_none_or_nan():
    assert is_null(None)
    assert is_null(float("nan"))
    assert not any(is_null(value) for value in (0, 0.0, "", False, [], "nan"))


def test_text_of_values_is_what_json_writes():
    assert [to_text(v) for v in ("ä", 3, 2.5, True, {"k": ["ä"]})] == [
        "ä",
        "3",
        "2.5",
        "true",
        '{"k": ["ä"]}',
    ]


def test_scalars():
    assert all(is_scalar(v) for v in ("a", 1, 1.5, False))
    assert not any(is_scalar(v) for v in (None, [], {}))
