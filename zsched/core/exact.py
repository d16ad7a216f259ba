"""Equality that tells apart what Python's ``==`` does not, but a task would: 1, 1.0 and True; [1] and (1,)."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any


def is_same(one: Any, other: Any) -> bool:
    """
    Return True if two values are equal in type and content, all through dicts, lists and tuples. The order of a dict's
    keys does not count; NaN is the same as NaN, 0.0 is not -0.0.

    Values of other types are compared with their own ``==``.
    """
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if len(left) != len(right) or not all(key in right for key in left):
                return False
            waiting.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list | tuple):
            if len(left) != len(right):
                return False
            waiting.extend(zip(left, right, strict=True))
        elif isinstance(left, float):
            if repr(left) != repr(right):
                return False
        elif isinstance(left, datetime | time):
            if (left, left.tzinfo, left.fold) != (right, right.tzinfo, right.fold):
                return False
        elif not _is_equal(left, right):
            return False
    return True


def _is_equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except Exception:  # the values' own code: an array of numpy has no truth, and a difference is the safe answer
        return False
