"""
The functions that a job names, read without importing or running anything of it.

RQ's worker imports the function of a job's call, and its callbacks, by their dotted paths. The path of the function is
in the payload: a pickle, which is read with placeholders for objects, or JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zsched.core.entry import text
from zsched.core.runs.job import CALLBACKS
from zsched.storage.unpickling import NotPlain, inflated, is_pickle, read_shown

_PARTS: Final = 4  # of a payload: function, instance, args, kwargs


class Called(NamedTuple):
    """The dotted ``paths`` of the functions that a job names, its call's first; and its queue."""

    paths: list[str]
    queue: str


def called(fields: Mapping[str, Any]) -> Called:
    """
    Return the functions in the *fields* of a job, bytes or texts.

    Raises:
        NotPlain: the payload is not a call of a function by its path, for example of a method of an object.
    """
    data = fields.get("data") or b""
    try:
        raw = inflated(data)
        call = read_shown(raw) if is_pickle(raw) else json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, NotPlain) else NotPlain("it is neither a pickle nor JSON") from error
    if not isinstance(call, tuple | list) or len(call) != _PARTS or type(call[0]) is not str or call[1] is not None:
        raise NotPlain("it is not the call of a function by its dotted path")
    callbacks = (_text(fields.get(name)) for name in CALLBACKS.values())
    return Called([call[0], *filter(None, callbacks)], _text(fields.get("origin")))


def _text(value: Any) -> str:
    return text(value) if isinstance(value, bytes) else value or ""
