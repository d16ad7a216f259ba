"""
Calendars: named sets of excluded times, which a namespace has once and its schedules name in ``exclude``.

A calendar is a mapping: ``dates``, each a day or days as in ``exclude`` with an optional word for people behind it;
``windows`` of the week or day; and ``events``: start, length, rule and word. ``owner`` is the file that puts it, if
any::

    {"dates": ["2026-09-24..2026-09-26 Chuseok", "12-25 Christmas"], "windows": ["Sat,Sun"],
     "events": ["2026-01-05/1d FREQ=MONTHLY;BYDAY=1MO Inventory",
                "2026-01-07T09:00:00/1h[Europe/Berlin] FREQ=WEEKLY;EXDATE=20260114 Maintenance"]}

All are on the clock of the schedule that names the calendar, but for events with a zone, which are instants.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from zsched.core.options.arguments import check_text, seconds_to_ms
from zsched.core.triggers.exclusions import closure_of, is_name
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Closure, Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import build
from zsched.core.triggers.zones import resolve_local, zone
from zsched.core.wording import alternatives
from zsched.errors import InvalidSchedule

SORT: Final = "calendar:"  # before the name of each among the named texts
MOST_DATES: Final = 5000  # of a part
LONGEST_WORD: Final = 100  # characters
MOST_BYTES: Final = 2**20  # of the stored text
PARTS: Final = ("dates", "windows", "events")
_EVENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d)?)/(\w+)(?:\[([^]]+)\])? (FREQ=\S+)(?: (.*))?", re.ASCII
)
_AN_EVENT: Final = "give start/length[zone] rule word: 2026-01-07T09:00:00/1h[Europe/Berlin] FREQ=WEEKLY Maintenance"


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    A calendar: *closures* with words that name it. ``text`` is canonical: equal calendars have equal texts.
    ``left_out``: parts of its .ics file that exclude nothing, for people.
    """

    name: str
    text: str
    closures: tuple[Closure, ...]
    owner: str | None = None
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it with all its parts, and its owner."""
        return {**{part: [] for part in PARTS}, "owner": None, **json.loads(self.text)}

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any], owner: str | None = None) -> Self:
        """
        Return the calendar *name* of a mapping as above, without its owner.

        Raises:
            InvalidSchedule: it has another form; the error names the part and the text.
        """
        if not is_name(name):
            raise InvalidSchedule("name", name, "not the name of a calendar", "give a to z, 0 to 9, - and _, no day")
        for part in given:
            if part not in PARTS:
                raise InvalidSchedule(part, given[part], "no part of a calendar", f"give {alternatives(PARTS)}")
        parts: dict[str, Any] = {}
        closures = []
        for part in PARTS:
            values = given.get(part, [])
            if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
                raise InvalidSchedule(part, values, "not a list of texts", "give a list")
            texts = sorted({" ".join(one.split()) for one in values})
            if len(texts) > MOST_DATES:
                raise InvalidSchedule(part, f"{len(texts)} texts", f"more than {MOST_DATES}", "make two calendars")
            parts |= {part: texts} if texts else {}
            closures += [_closure(part, one, f"calendar {name}: ") for one in texts]
        if owner is not None:
            parts["owner"] = check_text("owner", owner)
        text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
        if len(text.encode()) > MOST_BYTES:
            raise InvalidSchedule("name", name, f"larger than {MOST_BYTES:,} bytes", "make two calendars")
        return cls(name, text, tuple(closures), owner)

    @classmethod
    def of_text(cls, name: str, text: str) -> Self:
        """Return the calendar with the canonical *text*. Raises InvalidSchedule, ValueError, TypeError."""
        given = json.loads(text)
        return cls.of(name, given, given.pop("owner", None))


def _closure(part: str, text: str, lead: str) -> Closure:
    """Return what the *text* of a *part* excludes; *lead*: words before its own. Raises InvalidSchedule."""
    event = _EVENT.fullmatch(text) if part == "events" else None
    if part == "events" and event is None:
        raise InvalidSchedule(part, text, "not an event", _AN_EVENT)
    day, _, word = (text, "", "") if part == "windows" else (text, "", event[5] or "") if event else text.partition(" ")
    if len(word) > LONGEST_WORD:
        raise InvalidSchedule(part, text, f"its word has more than {LONGEST_WORD} characters", "give a shorter one")
    if text.encode(errors="ignore").decode() != text:
        raise InvalidSchedule(part, text, "it has half of a character", "give whole characters")
    if event is not None:
        return _event(part, event, f"{lead}{word or 'an event'}")
    return closure_of(part, day, f"{lead}{word or day}")


def _event(part: str, found: re.Match[str], word: str) -> Closure:
    """Return the event of a text that matched. Raises InvalidSchedule."""
    start, length, tz, rule = found.groups()[:4]
    place = zone(tz or "UTC")
    try:
        starts_ms = resolve_local(datetime.fromisoformat(start), place, Gap.SHIFT, Fold.FIRST)[0]
    except ValueError:
        raise InvalidSchedule(part, found[0], "no such day or time", _AN_EVENT) from None
    expr, count = RRULE.parse(rule, tz or "UTC")
    spec = TriggerSpec(RRULE, expr, tz or "UTC", starts_ms=starts_ms, count=count, gap=Gap.SHIFT)
    return Closure(word, build(spec, starts_ms), seconds_to_ms(part, length, 1000), tz is None)
