"""
Values that stand in RQ's jobs, read without running anything, whichever serializer wrote them.

An object of a class that is not plain is shown by its class's name (``storage.unpickling``). That also shows results of
a product whose code is not installed here. What is too much to be shown says so, as it may be made up.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import Any, Final

from zsched.storage.unpickling import MOST_BYTES, NotPlain, excess, inflated, read_shown

_LONGEST_TRACEBACK: Final = 100_000  # characters; a page may have two hundred
_PICKLE = b"\x80"  # the first byte of every pickle that RQ writes, and of no JSON


class Readable:
    """A serializer, as RQ has them, that reads pickle and JSON and writes nothing."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Raises TypeError: what this package shows it must never write back."""
        raise TypeError(f"the dashboard writes nothing into Redis, so no {type(value).__name__} either")

    @staticmethod
    def loads(data: bytes) -> Any:
        """Open *data*; return a text that says why if it cannot be shown. Raises nothing."""
        try:
            return read_shown(data) if data.startswith(_PICKLE) else _json(data)
        except NotPlain as error:
            reason = str(error)
        except Exception as error:  # of broken JSON that is deep, or no text, more than one kind may come
            reason = f"neither pickle nor JSON ({type(error).__name__})"
        return f"({len(data):,} bytes that cannot be shown: {reason})"


def presentable(value: Any) -> Any:
    """*value*, or as text what JSON has no form for, or what is too large or too deep. Raises nothing."""
    if problem := excess(value):
        return f"({type(value).__name__} with {problem})"
    try:
        try:
            json.dumps(value, default=str)
        except (TypeError, ValueError):  # keys that are no texts, a value inside of itself
            return str(value)
    except Exception as error:  # a number of more digits than Python writes
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"
    return value


def traceback(packed: bytes) -> str:
    """A traceback as RQ's results keep it, its end if it is long; a text that says why it cannot be shown."""
    try:
        told = inflated(b64decode(packed)).decode(errors="replace")
    except (NotPlain, binascii.Error) as error:
        return f"(a traceback that cannot be shown: {error})"
    cut = len(told) - _LONGEST_TRACEBACK
    return told if cut <= 0 else f"({cut:,} characters are left out)\n{told[-_LONGEST_TRACEBACK:]}"


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise NotPlain(f"more than {MOST_BYTES:,} are not opened")
    return json.loads(data)
