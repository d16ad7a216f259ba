"""
Values as TOML text, each on one line.

Written by hand, not by tomli-w: that puts every dict into a table of its own below the entry and every list over
several lines, and cannot write comments; one line per option reads like the example and makes a diff of one line.
Every text is read back before it is given out, so what TOML or this module cannot say is an error, never another value.
"""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date, datetime, time
from typing import Any, Final

from zsched.core.exact import is_same

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def key_text(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _string(name)


def toml_text(value: Any) -> str:
    """
    *value* in TOML.

    Raises:
        ValueError: TOML cannot say it; the message names what.
    """
    try:
        text = _text(value)
        text.encode()
        read = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"TOML cannot say it: {error}") from None
    if not is_same(read, value):
        raise ValueError(f"TOML would make {read!r} of it"[:200])
    return text


def json_text(value: Any) -> str:
    """
    *value* as a TOML string of JSON.

    Raises:
        ValueError: JSON cannot say it either; the message names what.
    """
    try:
        text = json.dumps(value, allow_nan=False)
        read = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"JSON cannot say it: {error}") from None
    if not is_same(read, value):
        raise ValueError(f"JSON would make {read!r} of it"[:200])
    return toml_text(text) if "'" in text else f"'{text}'"  # ASCII without control characters, as json writes it


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = ", ".join(f"{key_text(key)} = {_text(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ValueError(f"it has no {type(value).__name__}")


def _string(text: str) -> str:
    """A basic string: its escapes are JSON's, and DEL, which JSON leaves alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
