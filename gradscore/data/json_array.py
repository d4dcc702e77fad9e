"""Read a JSON array of objects, and tell one from JSON Lines whatever the file is called.

An array is parsed whole and stays in memory (about five times the file's size); JSON Lines is the format
for data that should not.
"""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from gradscore.data.raw_row import RawRow
from gradscore.data.text_files import open_bytes
from gradscore.errors import DatasetError


def json_layout(path: Path) -> Literal["json", "jsonl"]:
    """Return how a JSON file is laid out, from its first two lines that are not blank.

    An array starts with `[`, unless its first line is complete and others follow. Anything that starts
    with a complete object is JSON Lines; so is a file called .jsonl unless its first line is a lone `{`.
    """
    with open_bytes(path) as stream:
        lines = list(islice((line.strip() for line in stream if line.strip()), 2))
    if not lines:
        return "jsonl"
    if lines[0].startswith(b"["):
        return "jsonl" if len(lines) > 1 and _is_complete(lines[0]) else "json"
    if _is_complete(lines[0]) or (len(lines) > 1 and lines[1].startswith(b"{")):
        return "jsonl"
    is_called_lines = any(suffix in (".jsonl", ".ndjson") for suffix in path.suffixes)
    return "jsonl" if is_called_lines and lines[0] != b"{" else "json"


def _is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def load_json_array(path: Path) -> list[Any]:
    """Return the array that the file holds.

    Raises:
        DatasetError: the file is broken, or holds something else than an array.
    """
    with open_bytes(path) as stream:
        content = stream.read()
    try:
        value = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path} is not UTF-8: byte {error.start} cannot be decoded ({error.reason}). "
            "Convert it with iconv, for instance: iconv -f LATIN1 -t UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{path} is broken JSON at line {error.lineno} column {error.colno}: {error.msg}. Repair it there; "
            "a broken array cannot be read past the break, JSON Lines can (--skip-bad-rows)."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path} holds JSON that cannot be read: {error}. Repair the file.") from error
    if isinstance(value, list):
        return value
    found = (
        f"an object with the keys {', '.join(map(str, value))}" if isinstance(value, dict) else repr(value)
    )
    raise DatasetError(
        f"{path} must hold a JSON array of rows, but it holds {found[:300]}. "
        "Write the rows as [{...}, {...}] or as one object per line."
    )


def read_json_array(values: list[Any]) -> Iterator[RawRow]:
    """Yield the rows of a parsed array; an element that is no object is a row with a problem."""
    for number, value in enumerate(values, start=1):
        if isinstance(value, dict):
            yield RawRow(value)
        else:
            kind = type(value).__name__
            yield RawRow(
                None,
                f"element {number} of the array: a row must be a JSON object, this is a {kind}",
                json.dumps(value).encode(),
            )
