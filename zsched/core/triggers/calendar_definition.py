"""
Calendars: named sets of excluded times, which a namespace has once and its schedules name in ``exclude``.

A calendar is a mapping: ``dates``, each a day or days as in ``exclude`` with an optional word for people behind it, and
``windows`` of the week or day. Both are on the clock of the schedule that names it::

    {"dates": ["2026-09-24..2026-09-26 Chuseok", "12-25 Christmas"], "windows": ["Sat,Sun"]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zsched.core.triggers.calendars import Closure, ExcludedSpan
from zsched.core.triggers.exclusions import closure_of, is_name
from zsched.core.wording import alternatives
from zsched.errors import InvalidSchedule

MOST_DATES: Final = 5000  # of a calendar
LONGEST_WORD: Final = 100  # characters of a date's word
_PARTS: Final = ("dates", "windows")


@dataclass(frozen=True, slots=True)
class Calendar:
    """A calendar: *closures* with words that name it. ``text`` is canonical: equal calendars have equal texts."""

    name: str
    text: str
    closures: tuple[Closure, ...]

    def spans(self, start_s: int, end_s: int, offset_s: int) -> Iterator[ExcludedSpan]:
        """Yield the spans of all its closures, as ``Closure.spans``."""
        for closure in self.closures:
            yield from closure.spans(start_s, end_s, offset_s)

    def to_dict(self) -> dict[str, list[str]]:
        """Return it as ``of`` takes it, with all its parts."""
        given: dict[str, list[str]] = json.loads(self.text)
        return {part: given.get(part, []) for part in _PARTS}

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> Calendar:
        """
        Return the calendar *name* of a mapping as above.

        Raises:
            InvalidSchedule: it has another form; the error names the part and the text.
        """
        if not is_name(name):
            raise InvalidSchedule("name", name, "not the name of a calendar", "give a to z, 0 to 9, - and _, no day")
        unknown = [part for part in given if part not in _PARTS]
        if unknown:
            raise InvalidSchedule(
                f"calendars.{name}", ", ".join(unknown), "not a calendar", f"give {alternatives(_PARTS)}"
            )
        texts: dict[str, list[str]] = {}
        closures = []
        for part in _PARTS:
            field, values = f"calendars.{name}.{part}", given.get(part, [])
            if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
                raise InvalidSchedule(field, values, "not a list of texts", "give a list")
            if len(values) > MOST_DATES:
                raise InvalidSchedule(field, f"{len(values)} texts", f"more than {MOST_DATES}", "make two calendars")
            texts[part] = sorted({" ".join(one.split()) for one in values})
            closures += [_closure(field, one, name, part) for one in texts[part]]
        text = json.dumps({part: found for part, found in texts.items() if found}, ensure_ascii=False, sort_keys=True)
        return cls(name, text, tuple(closures))

    @classmethod
    def of_text(cls, name: str, text: str) -> Calendar:
        """Return the calendar with the canonical *text*. Raises InvalidSchedule, ValueError, TypeError."""
        return cls.of(name, json.loads(text))


def _closure(field: str, text: str, name: str, part: str) -> Closure:
    day, _, word = text.partition(" ") if part == "dates" else (text, "", "")
    if len(word) > LONGEST_WORD:
        raise InvalidSchedule(field, text, f"its word has more than {LONGEST_WORD} characters", "give a shorter one")
    return closure_of(field, day, f"calendar {name}: {word or day}")
