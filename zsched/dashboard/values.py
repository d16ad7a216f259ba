"""
Values that stand in RQ's jobs, read without running anything, whichever serializer wrote them.

An object of a class that is not plain is shown by its class's name (``storage.unpickling``). That also shows results of
a product whose code is not installed here.
"""

from __future__ import annotations

import json
from typing import Any

from zsched.storage.unpickling import excess, read_shown

_PICKLE = b"\x80"  # the first byte of every pickle that RQ writes, and of no JSON


class Readable:
    """A serializer, as RQ has them, that reads pickle and JSON and writes nothing."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Raises TypeError: what this package shows it must never write back."""
        raise TypeError(f"the dashboard writes nothing into Redis, so no {type(value).__name__} either")

    @staticmethod
    def loads(data: bytes) -> Any:
        """What *data* holds; a text that says so when it cannot be read. Raises nothing."""
        try:
            return read_shown(data) if data.startswith(_PICKLE) else json.loads(data)
        except Exception:  # of broken JSON that is deep, or no text, more than one kind may come
            return f"({len(data)} bytes that cannot be read)"


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
