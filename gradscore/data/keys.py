"""A row's key: a hash of what the row says, the same whichever file format it was read from.

Two things that formats change are taken out first. Arrow formats fill an absent field with null, so
fields that are null are left out; and they may turn the whole numbers of a column into floats, so 3.0
counts as 3. Null inside a list stays, since its place has a meaning.
"""

import datetime
import decimal
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradscore.errors import UnsupportedError

_escaped = json.encoder.encode_basestring_ascii
_encoder = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def row_key(content: Mapping[str, Any]) -> str:
    """Return the 128-bit BLAKE2b hash of the row's canonical JSON, as 32 hex digits.

    Raises:
        UnsupportedError: the row holds something that is not data, such as a decoded image.
    """
    try:
        text = _text_of_texts(content)
    except TypeError:
        # Escaping to ASCII keeps a lone surrogate, which UTF-8 cannot carry, hashable.
        text = _encoder.encode(canonical(content))
    return bytes_key(text.encode("ascii"))


def _text_of_texts(content: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a row that holds text alone, as most do, in a third of the general way's time.

    Raises:
        TypeError: some value is not text.
    """
    pairs = [f"{_escaped(name)}:{_escaped(content[name])}" for name in sorted(content)]
    return "{" + ",".join(pairs) + "}"


def bytes_key(raw: bytes) -> str:
    """Return the key of a row that could not be read: the 128-bit BLAKE2b hash of its bytes."""
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def canonical(value: Any) -> Any:
    """Return `value` as plain JSON data, without null fields, equal for equal content.

    Raises:
        UnsupportedError: the value has no JSON form.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(k): canonical(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return _canonical_rare(value)


def _canonical_rare(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return canonical(value.tolist())
    if isinstance(value, np.generic):
        return canonical(value.item())
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    raise UnsupportedError(
        f"A column holds values of type {type(value).__name__}, which have no text form. "
        "Text, numbers, dates, bytes, lists and structs can be read. Remove that column from the dataset."
    )
