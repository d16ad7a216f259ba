"""
Ids made of payloads: with ``"reminder-{event_id}"`` an event always has the same schedule, however often it is put.

Not guaranteed: different payloads may have the same id. ``"{a}-{b}"`` makes ``1-2-3`` of (1, 2-3) and of (1-2, 3). Use
a separator that is in no value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from string import Formatter
from typing import Any, Final

from zsched.core.options.arguments import check_id
from zsched.errors import InvalidSchedule, InvalidTask

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]*")  # a valid part of an id
_ALLOWED: Final = "A-Z, a-z, 0-9, _ and -"


class Template:
    """
    The id of the schedules of task *path*, with a ``{name}`` for each parameter in it.

    Raises:
        InvalidTask: not a text, an unknown parameter, a format or a conversion, or a character that ids cannot have.
    """

    def __init__(self, path: str, text: object, parameters: Container[str]) -> None:
        if not isinstance(text, str):
            raise InvalidTask(path, "id", text, "not a text", 'give id="reminder-{event_id}", for example')
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InvalidTask(path, "id", text, f"not a template ({error})", "give plain {name}s") from error
        for literal, name, form, conversion in parts:
            if not _PLAIN.fullmatch(literal):
                raise InvalidTask(path, "id", text, f"it has {literal!r} in it", f"give {_ALLOWED}, and {{name}}s")
            if name is None:
                continue
            if form or conversion or not name.isidentifier():
                raise InvalidTask(path, "id", text, "more than plain names in braces", "give plain {name}s")
            if name not in parameters:
                raise InvalidTask(path, "id", text, f"it names {name}, which is not a parameter", "name a parameter")
        self._path, self.text = path, text
        self._parts = [(literal, name) for literal, name, _, _ in parts]
        self.names = tuple(dict.fromkeys(name for _, name in self._parts if name is not None))
        if not self.names:
            try:
                check_id(text)
            except InvalidSchedule as error:
                raise InvalidTask(path, "id", text, error.problem, error.remedy) from error

    def fill(self, payload: Mapping[str, Any]) -> str:
        """
        Return the id for *payload*, which has all of ``names``.

        Raises:
            InvalidSchedule: the id would be invalid; ``field`` is the parameter with the bad value.
        """
        texts = {name: self._text(name, payload[name]) for name in self.names}
        id = "".join(literal + (texts[name] if name is not None else "") for literal, name in self._parts)
        try:
            return check_id(id)
        except InvalidSchedule as error:  # too long, or empty
            name = max(texts, key=lambda one: len(texts[one]))
            problem = f"with it the id of task {self._path} has {len(id)} characters"
            raise InvalidSchedule(name, payload[name], problem, "ids have 1 to 128; give id= itself") from error

    def _text(self, name: str, value: object) -> str:
        text = str(value)
        if value is None or not _PLAIN.fullmatch(text):
            problem = f"it cannot be part of an id, which task {self._path} makes of {self.text!r}"
            raise InvalidSchedule(name, value, problem, f"give {_ALLOWED}, or id= itself")
        return text
