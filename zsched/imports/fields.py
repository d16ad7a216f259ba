"""
Translate the five time fields of a crontab(5) line, as Debian's cron reads them, into zsched's cron expression.

A field is a list of values, ranges and ``*``; a range or ``*`` may have a step. Months and days of the week have names.
Additions of other crons (``L``, ``#``, ``?``, ``H``, ``5/15``, ranges that wrap round) are refused. Debian's cron
(3.0pl1-162) refuses them too, or does not read them as their writer meant: ``5#2`` as 5, ``22-4`` as never.

Fields stay as they were written, so that people recognise them. A ``*`` at the start of a field means more than all its
values: see ``core.triggers.cron``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from zsched.core.triggers.cron import LONGEST

_ITEM: Final = re.compile(r"(?:(\*)|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/([0-9]+))?", re.IGNORECASE | re.ASCII)


class _Field(NamedTuple):
    """One of the five fields: its name, its least and largest value, and names of the values from the least on."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Return its valid values, for a message."""
        return f"{self.low}-{self.high}" + (f" or {self.names[0]}-{self.names[-1]}" if self.names else "")


_WEEKDAY: Final = _Field("day of week", 0, 7, tuple("sun mon tue wed thu fri sat".split()))
_DAY: Final = _Field("day of month", 1, 31)
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DAY,
    _Field("month", 1, 12, tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())),
    _WEEKDAY,
)
# The remedy for the least value of a day field that starts with *, which makes both day fields count.
_ALONE: Final = {_WEEKDAY: "*/7", _DAY: "1 if the day of week is *, else let the command look at the date"}


def cron_of_fields(texts: Sequence[str]) -> str:
    """
    Return the expression with which zsched fires at the times of the five fields *texts*.

    Raises:
        ValueError: Debian's cron does not accept them; the message has the field, the reason and the remedy.
    """
    if len(" ".join(texts)) > LONGEST:
        raise ValueError(f"the time fields are longer than {LONGEST} characters; use ranges and steps")
    return " ".join(_written(field, text) for field, text in zip(_FIELDS, texts, strict=True))


def _written(field: _Field, text: str) -> str:
    try:
        return ",".join(_item(field, item) for item in text.split(","))
    except ValueError as error:
        raise ValueError(f"{field.name} {text!r}: {error}") from None


def _item(field: _Field, item: str) -> str:
    """Return one item of a field's list in zsched's form. Raises ValueError."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError(f"{item!r} is not in the syntax of crontab(5); write {field.allowed}, *, a-b, a-b/n or */n")
    star, first, last, step = match.groups()
    if step is not None and not (star or last):
        remedy = f"write {first}-{field.high}/{step}, or {first} alone"
        raise ValueError(f"a step needs a range or *, and Debian's cron refuses this one; {remedy}")
    low = field.low if star else _value(field, first)
    high = field.high if star else low if last is None else _value(field, last)
    if low > high:
        until_sunday = f"write {first}-7" + (f"/{step}" if step else "")
        remedy = until_sunday if field is _WEEKDAY and high == 0 else "write two ranges, with a comma between"
        raise ValueError(f"the range {item!r} ends before it begins; {remedy}")
    if step is not None and int(step) == 0:
        raise ValueError("a step of 0 is not valid; write 1 or more")
    if star and step is not None and int(step) > high - low:
        raise ValueError(f"a step of {step} selects only {low}; write {_ALONE.get(field, low)}")
    return item


def _value(field: _Field, text: str) -> int:
    """Return the number of *text*, which may be a name. Raises ValueError."""
    if text.isdecimal() and field.low <= int(text) <= field.high:
        return int(text)
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    raise ValueError(f"{text!r} is not a valid {field.name}; write {field.allowed}")
