"""Read JSON Lines: one object per line, one line in memory at a time."""

import json
from collections.abc import Iterator
from pathlib import Path

from gradscore.data.raw_row import RawRow
from gradscore.data.text_files import open_bytes


def read_json_lines(path: Path) -> Iterator[RawRow]:
    """Yield the rows of a JSON Lines file in order; blank lines are no rows.

    A line that is broken, or that is no object, is a row with a problem, so that the rows after it keep
    their index. Messages name lines as an editor counts them, blank ones too.
    """
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield parse_line(line.rstrip(b"\r\n"), number)


def count_json_lines(path: Path) -> int:
    """Return the number of rows of a JSON Lines file, without parsing them."""
    with open_bytes(path) as stream:
        return sum(1 for line in stream if line.strip())


def parse_line(raw: bytes, number: int) -> RawRow:
    """Return the row that one line holds."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        problem = f"line {number} column {error.start + 1}: not UTF-8 ({error.reason})"
        return RawRow(None, problem, raw)
    except json.JSONDecodeError as error:
        return RawRow(None, f"line {number} column {error.colno}: broken JSON ({error.msg})", raw)
    except (ValueError, RecursionError) as error:  # a number of too many digits; nesting without end
        return RawRow(None, f"line {number}: JSON that cannot be read ({error})", raw)
    if not isinstance(value, dict):
        kind = type(value).__name__
        return RawRow(None, f"line {number}: a row must be a JSON object, this line is a {kind}", raw)
    return RawRow(value, None, raw)
