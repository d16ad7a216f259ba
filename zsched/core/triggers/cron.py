"""
Cron expressions: crontab(5) fields, Debian's cron(8) rules for summer time.

Five fields: minute, hour, day of month, month, day of week. Six fields: the **seconds come first** (as in
Quartz, Spring and BullMQ's cron-parser); five fields mean second 0. Days of the week are 0-7 or SUN-SAT,
0 and 7 both Sunday (not Quartz's 1-7). Also ``L`` (last day of the month), ``L5`` (last Friday), ``5#2`` or
``FRI#2`` (second Friday), ``?`` for ``*`` in the day fields, ranges that wrap round (``22-4``), and
@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. Everything that crontab(5) of Debian describes has
its meaning there; a test compares them.

croniter supplies the grammar: the values of a field's text. It is called once per distinct field, not per
expression. A range of one value (``5-5``, ``mon-1``) is written as this value for it: croniter would take all values.
Random and ambiguous forms are refused here: H, R, W; ``7-0``; ``22-4/3``, a wrapped range with a step.

Days, from crontab(5): if both day fields are restricted (do not start with ``*``), a day has to match one of
them; otherwise it has to match both. Summer time, from cron(8): a job with a ``*`` at the start of its minute
or hour runs by the local clock, in both passes of a repeated hour and not in a skipped one. Any other
job has fixed times: each runs once a day, and ``gap`` and ``fold`` decide if the zone changes at that time.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from zsched.core.triggers.projection import Projection
from zsched.core.triggers.spec import Anchor, BadRule, Fold, Gap, TriggerKind, TriggerSpec, refuse_foreign, refuse_stray
from zsched.core.triggers.wall_clock import Layer, Times, WallRule, Year, shape
from zsched.core.triggers.zones import zone
from zsched.errors import InvalidSchedule, show

LONGEST: Final = 512  # characters of an expression; bounds lists and numbers before anything is parsed

ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EXAMPLE: Final = 'write "minute hour day month weekday", for instance "0 9 * * 1-5"'
_BY_LOT: Final = re.compile(r"[hr](\(.*\))?(/\d*)?", re.IGNORECASE)
_NEAREST: Final = re.compile(r"\d+w|w\d+|lw|wl", re.IGNORECASE)
_LAST_AFTER: Final = re.compile(r"(\w+)l", re.IGNORECASE)
_YEAR: Final = re.compile(r"(?:19|20)\d\d(?:[-,/].*)?", re.ASCII)
_RANGE: Final = re.compile(r"(\d+|[a-z]{3})-(\d+|[a-z]{3})(?:/(\d+))?(#\d+)?", re.ASCII | re.IGNORECASE)


class _Place(NamedTuple):
    """A field: its name, its allowed values, and croniter's expression for this field alone."""

    name: str
    allowed: str
    low: int
    high: int
    question: str


_SECOND: Final = _Place("second", "0-59", 0, 59, "* * * * * {}")
_MINUTE: Final = _Place("minute", "0-59", 0, 59, "{} * * * *")
_HOUR: Final = _Place("hour", "0-23", 0, 23, "* {} * * *")
_DAY: Final = _Place("day of month", "1-31 or L", 1, 31, "* * {} * *")
_MONTH: Final = _Place("month", "1-12 or JAN-DEC", 1, 12, "* * * {} *")
_WEEKDAY: Final = _Place("day of week", "0-7 or SUN-SAT, L5 (last Friday), 5#2 (second Friday)", 0, 6, "* * * * {}")


class CronDays(NamedTuple):
    """
    The three day fields. ``month_days`` has bit n for day n + 1; weekdays are 0 = Monday.

    ``nth`` holds (n, weekday), n = -1 for the last. ``either``: one of the two day fields is enough.
    """

    months: tuple[int, ...]
    month_days: int
    last_day: bool
    weekdays: tuple[int, ...]
    nth: tuple[tuple[int, int], ...]
    either: bool


@dataclass(frozen=True, slots=True)
class CronRule(WallRule):
    """A parsed expression. ``wildcard``: its minute or hour starts with ``*``, so gap and fold do not apply."""

    days: CronDays
    times: Times
    wildcard: bool

    def layers(self, year: Year) -> tuple[Layer, ...]:
        """One layer."""
        return ((_matching_days(self.days, year.number), self.times),)


_times: Final = lru_cache(maxsize=4096)(Times)


@lru_cache(maxsize=65_536)
def cron_rule(expr: str) -> CronRule:
    """Return the rule of an expression that its kind accepted. Equal expressions share one rule."""
    parts = _split(expr)
    second = _values(_SECOND, parts.pop(0)) if len(parts) == 6 else (0,)
    minute, hour, day, month, weekday = parts
    month_days, last_day = _month_days(day)
    weekdays, nth = _weekdays(weekday)
    either = not day.startswith(("*", "?")) and not weekday.startswith(("*", "?"))
    days = CronDays(_values(_MONTH, month), month_days, last_day, weekdays, nth, either)
    times = _times(_values(_HOUR, hour), _values(_MINUTE, minute), second)
    return CronRule(days, times, minute.startswith("*") or hour.startswith("*"))


def _split(expr: str) -> list[str]:
    """Return the five or six fields of *expr*, with aliases resolved."""
    if expr.startswith("@"):
        if expr.lower() == "@reboot":
            raise BadRule("not a time", "enqueue the job when your process starts")
        if expr.lower() not in ALIASES:
            raise BadRule("not a known alias", f"use one of {', '.join(ALIASES)}")
        expr = ALIASES[expr.lower()]
    if expr.upper().startswith(("TZ=", "CRON_TZ=")):
        raise BadRule("a zone does not belong in the expression", "give it as tz=")
    joined = re.sub(r" ?([,/-]) ?(?=\w)", r"\1", expr)  # without blanks in a field, if 5 or 6 fields are left
    refuse_stray(expr, re.sub("(?<![^ ]),+|,+(?=[, ]|$)", "", joined if joined.count(" ") in (4, 5) else expr))
    parts = expr.split(" ")
    if len(parts) == 7 or (len(parts) > 4 and _YEAR.fullmatch(parts[-1])):
        problem = f"its last field {show(parts[-1])} is a year, not supported: six fields begin with the seconds"
        remedy = f"write {show(' '.join(parts[:-1]))} with starts= and ends=, or give at= for a single time"
        raise BadRule(problem, remedy)
    if len(parts) not in (5, 6):
        raise BadRule(f"{len(parts)} field{'s' * (len(parts) > 1)}, not 5 (or 6, seconds first)", _EXAMPLE)
    return parts


def _month_days(text: str) -> tuple[int, bool]:
    """Return the day-of-month field: a mask of days, and True if it includes the last day of each month."""
    if any(_NEAREST.fullmatch(item) for item in text.split(",")):
        raise BadRule(f"{text!r}: W (nearest working day) is not supported", "use rrule= with BYSETPOS")
    return sum(1 << number - 1 for number in _values(_DAY, text)), "l" in _expand(_DAY, text)[0]


def _weekdays(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return the day-of-week field: whole weekdays (0 = Monday), or (n, weekday) pairs."""
    items = text.split(",")
    for item in items:
        if after := _LAST_AFTER.fullmatch(item):
            raise BadRule(f"{item!r} is another day in other crons", f"write L{after[1]} for the last one of a month")
    if len({"#" in item or item[:1] in "lL" for item in items}) > 1:
        raise BadRule(f"{text!r} mixes whole weekdays and single ones (# or L)", "use two schedules")
    if nth := _expand(_WEEKDAY, text)[1]:
        pairs = ((-1 if n == "l" else int(n), (day - 1) % 7) for day, ns in nth.items() for n in ns)
        return (), tuple(sorted(pairs))
    return tuple(sorted((number - 1) % 7 for number in _values(_WEEKDAY, text))), ()


def _values(place: _Place, text: str) -> tuple[int, ...]:
    """Return the numbers among the values of a field, ascending."""
    values, _ = _expand(place, text)
    if "*" in values:
        return tuple(range(place.low, place.high + 1))
    return tuple(sorted(value for value in values if isinstance(value, int)))


@lru_cache(maxsize=4096)
def _expand(place: _Place, text: str) -> tuple[tuple[int | str, ...], dict[int, set[int | str]]]:
    """Expand one field by croniter: its values, and for the day of week their positions in the month."""
    from croniter import croniter  # imported late: with dateutil it takes half as long as redis

    for item in text.split(","):
        if _BY_LOT.fullmatch(item):
            raise BadRule(f"{item!r} would be random", f"write a number ({place.allowed}); jitter= spreads load")
    plain = ",".join(_without_range_of_one(place, item) for item in text.split(","))
    try:
        expanded, nth = croniter.expand(place.question.format(plain))
    except ValueError as exc:  # croniter raises nothing else; a test with arbitrary texts checks that
        raise BadRule(f"{text[:40]!r} is not a valid {place.name}", f"allowed are {place.allowed}") from exc
    return tuple(expanded[place.question.split().index("{}")]), {day: set(ns) for day, ns in nth.items()}


def _without_range_of_one(place: _Place, item: str) -> str:
    """Return *item*; for a range of one value, this value. Raises BadRule for an ambiguous range."""
    if (ends := _RANGE.fullmatch(item)) is None:
        return item
    low, high = _number(place, ends[1]), _number(place, ends[2])
    if low == high and ends[3] is not None and int(ends[3]) == 0:
        raise BadRule(f"{item!r} has steps of 0", f"write {ends[1]}")
    if low == high:
        return f"{ends[1]}{ends[4] or ''}"
    if place is _WEEKDAY and (low, high) == (7, 0):
        raise BadRule(f"{item!r} is Sunday, or the whole week: crons differ", "write 7, or *")
    if ends[3] and low > high and not (place is _WEEKDAY and high == 0):  # a range that ends on Sunday ends on 7
        raise BadRule(f"{item!r} takes steps across the end of its range", "list the values")
    return item


def _number(place: _Place, text: str) -> int:
    """Return the number of one end of a range; Sunday is 0, or 7 if it is written so. Raises BadRule."""
    ((value, *_), _) = _expand(place, text)
    assert isinstance(value, int)  # a number or a name, by the form of a range
    return 7 if place is _WEEKDAY and text.isdigit() and int(text) == 7 else value


@lru_cache(maxsize=8192)
def _matching_days(days: CronDays, number: int) -> int:
    """Return the days of the year *number* that the three day fields allow."""
    year = shape(number)
    by_month_day = by_weekday = allowed = 0
    for month in days.months:
        start, length = year.months[month - 1]
        whole = (1 << length) - 1
        allowed |= whole << start
        by_month_day |= (days.month_days & whole) << start
        if days.last_day:
            by_month_day |= 1 << start + length - 1
        for n, weekday in days.nth:
            by_weekday |= year.nth(n, weekday, start, length)
    for weekday in days.weekdays:
        by_weekday |= year.on(weekday)
    return allowed & (by_month_day | by_weekday if days.either else by_month_day & by_weekday)


class _CronKind(TriggerKind):
    name = "cron"
    metavar = "EXPR"
    help = "Five fields, or six with seconds first; @daily and the like."
    example = "0 9 * * 1-5"
    cause = "no date matches the expression (30 February?)"
    anchor = Anchor.NOTHING
    elsewhere = "cron_string crontab"
    is_of_zone = True
    gap = Gap.FIRST_VALID

    def parse(self, value: object, tz: str = "UTC") -> tuple[str, int | None]:
        """
        Return the expression *value* with its fields separated by single spaces, otherwise unchanged.

        ``check`` finds out whether the expression ever fires.

        Raises:
            InvalidSchedule: not an expression as described in this module, or longer than ``LONGEST``.
        """
        if not isinstance(value, str):
            raise InvalidSchedule(self.name, value, "not a text", _EXAMPLE)
        if len(value) > LONGEST:
            raise InvalidSchedule(self.name, value, f"longer than {LONGEST} characters", "use ranges and steps")
        if not value.strip():
            raise InvalidSchedule(self.name, value, "empty", _EXAMPLE)
        try:
            refuse_foreign(value.replace("\t", " "))
            expr = " ".join(value.split())
            cron_rule(expr)
        except BadRule as refusal:
            raise InvalidSchedule(self.name, value, refusal.problem, refusal.remedy) from refusal.__cause__
        return expr, None

    def rule(self, spec: TriggerSpec, anchor_ms: int) -> Projection:
        tz, cron = zone(spec.tz), cron_rule(spec.expr)
        gap, fold = (Gap.SKIP, Fold.BOTH) if cron.wildcard else (spec.gap, spec.fold)
        return Projection(cron, tz, gap, fold)


CRON: Final = _CronKind()
