"""
Recurrence rules of iCalendar (RFC 5545 section 3.3.10), as text and as a value.

``FREQ`` is DAILY, WEEKLY, MONTHLY or YEARLY; all BY parts of RFC 5545 in the places where its table allows
them. Smaller units are refused, because a rule on the wall clock is wrong at every change of the zone; use
``every=`` or ``cron=``. The start is not part of the text (see ``starts=`` and ``tz=``). Forms that RFC 5545
leaves open are refused (BYWEEKNO without BYDAY). ``recurrence`` evaluates the value.

UNTIL is inclusive, and becomes an instant in UTC. By RFC 5545 it has the form of DTSTART, but calendars mix the forms:
a date (``20240219``) is its whole day, and a time without ``Z`` is local, both in the schedule's zone.

EXDATE and RDATE are parts of the text, too: lists of times in these forms. EXDATE removes occurrences, a date those of
its whole day; RDATE adds some, a date at the rule's times of day. A removed time is none, in RDATE neither. COUNT and
UNTIL are of the rule without them, as in RFC 5545. Their times stay local, and follow the schedule's zone.
"""

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from zsched.core.triggers.exclusions import Exclusions
from zsched.core.triggers.layers import Instants
from zsched.core.triggers.projection import Projection
from zsched.core.triggers.recurrence import LISTS, WEEKDAYS, Frequency, Parts, recurrence
from zsched.core.triggers.spec import (
    Anchor,
    BadRule,
    Closure,
    Fold,
    Gap,
    TriggerKind,
    TriggerSpec,
    refuse_foreign,
    refuse_stray,
)
from zsched.core.triggers.wall_clock import Times
from zsched.core.triggers.zones import DAY_S, offset_s, resolve_local, zone
from zsched.errors import InvalidSchedule

LONGEST: Final = 512  # characters of a rule without EXDATE and RDATE; bounds every other list in it
MOST_DATES: Final = 500  # times in EXDATE, and in RDATE
MOST_COUNT: Final = 10**9  # occurrences

_EXAMPLE: Final = 'write for instance "FREQ=WEEKLY;BYDAY=MO,WE"'
_TIME: Final = re.compile(r"\d{8}(T\d{6}Z?)?", re.ASCII)
_SINGLES: Final = re.compile(r"\b(?:EX|R)DATE=[\dTZ,]*", re.ASCII | re.IGNORECASE)
_LONGEST_SINGLES: Final = 2 * 17 * MOST_DATES  # characters
_ONE_RULE: Final = "write it in the rule, after a ;, as {}=20261224T090000 (a local time; with Z in UTC; or a day)"
_YEARS_MS: Final = (-62_135_596_800_000, 253_402_300_799_000)  # UTC's years 1 to 9999, which texts can have
_JOINED: Final = re.compile(r"(?<=\w) +(?=[A-Z]+=)")  # a blank in the place of a ;
_STRAY: Final = re.compile(r" |(?<==),+|,+(?= *(?:[,;]|$))|;(?= *(?:;|$))|^;")  # no part of a rule
_BYDAY: Final = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_ELSEWHERE: Final = {
    "DTSTART": "give the start as starts= (and its zone as tz=)",
    "TZID": "give the zone as tz=",
    "EXRULE": "leave it out; narrow the rule, or give EXDATE or exclude=",
    "DTEND": "give the end as ends=",
}


@lru_cache(maxsize=16_384)
def rrule_parts(expr: str) -> Parts:
    """Return the value of a rule that its kind accepted. Equal texts share one value."""
    return _parse(expr)[0]


def _parse(text: str, tz: str = "UTC") -> tuple[Parts, int | None]:
    """Return parts and COUNT of *text*, checked."""
    texts = _split(text)
    numbers = {name: _numbers(key, texts[key], *ends) for key, (name, *ends) in LISTS.items() if key in texts}
    freq = _frequency(texts)
    parts = Parts(
        freq=freq,
        interval=_one(texts, "INTERVAL", freq.most) or 1,
        until_ms=_until(texts["UNTIL"], tz) if "UNTIL" in texts else None,
        days=_days(texts["BYDAY"]) if "BYDAY" in texts else (),
        week_start=_days(texts["WKST"])[0][1] if "WKST" in texts else 0,
        removed=_singles("EXDATE", texts),
        added=_singles("RDATE", texts),
        **numbers,
    )
    if "WKST" in texts and texts["WKST"] not in WEEKDAYS:
        raise BadRule(f"WKST={texts['WKST']} is not one weekday", f"one of {', '.join(WEEKDAYS)}")
    if "COUNT" in texts and "UNTIL" in texts:
        raise BadRule("COUNT and UNTIL exclude each other", "leave one out (RFC 5545)")
    _refuse_combinations(parts)
    return parts, _one(texts, "COUNT", MOST_COUNT)


def _split(text: str) -> dict[str, str]:
    """Return the parts of a rule by name, in upper case."""
    if len(text) > LONGEST + _LONGEST_SINGLES or len(_SINGLES.sub("", text)) > LONGEST:
        raise BadRule(f"longer than {LONGEST} characters", "use a simpler rule, or two schedules")
    upper = text.strip().upper()
    if found := re.search(r"(?:^|[\s;])(EXDATE|RDATE)[;:]", upper):
        raise BadRule(f"{found[1]} is a line of its own", _ONE_RULE.format(found[1]))
    for name, remedy in _ELSEWHERE.items():
        if re.search(rf"(^|[\s;]){name}[;:=]", upper):
            raise BadRule(f"{name} does not belong in the rule", remedy)
    refuse_foreign(text.strip())
    if not (upper := upper.removesuffix(";").removeprefix("RRULE:").strip()):
        raise BadRule("empty", _EXAMPLE)
    refuse_stray(upper, _STRAY.sub("", _JOINED.sub(";", upper)) if "=" in upper else upper)
    texts: dict[str, str] = {}
    for part in upper.split(";"):
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise BadRule(f"{part[:40]!r} is not NAME=VALUE", _EXAMPLE)
        if key not in _KNOWN:
            raise BadRule(f"unknown part {key[:40]!r}", f"known are {', '.join(_KNOWN)}")
        if key in texts:
            raise BadRule(f"{key} is given twice", "give each part once")
        texts[key] = value
    return texts


_KNOWN: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", *LISTS, "WKST", "EXDATE", "RDATE")


def _frequency(texts: dict[str, str]) -> Frequency:
    if "FREQ" not in texts:
        raise BadRule("FREQ is missing", _EXAMPLE)
    name = texts["FREQ"]
    if name in ("SECONDLY", "MINUTELY", "HOURLY"):
        raise BadRule(f"FREQ={name} is ill-defined where a zone changes", "use every= for elapsed time, or cron=")
    if name not in Frequency.__members__:
        raise BadRule(f"FREQ={name[:40]} is not known", f"one of {', '.join(Frequency.__members__)}")
    return Frequency[name]


def _one(texts: dict[str, str], key: str, most: int) -> int | None:
    """Return the number of a part with a single number, 1 to *most*; None if it is absent."""
    if key not in texts:
        return None
    text = texts[key]
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise BadRule(f"{key}={text[:40]} is out of range", f"1 to {most}")
    return int(text)


def _numbers(key: str, text: str, least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of a list."""
    found = set()
    for item in text.split(","):
        if not _NUMBER.fullmatch(item) or not least <= int(item) <= most or (least < 0 and int(item) == 0):
            raise BadRule(
                f"{key}={item[:40]} is out of range", f"{least} to {most}" + (", without 0" if least < 0 else "")
            )
        found.add(int(item))
    return tuple(sorted(found))


def _days(text: str) -> tuple[tuple[int, int], ...]:
    """Return the (n, weekday) pairs of BYDAY or WKST; pairs without a number first, by weekday."""
    found = set()
    for item in text.split(","):
        match = _BYDAY.fullmatch(item)
        if not match or (match[1] and not 1 <= abs(int(match[1])) <= 53):
            raise BadRule(f"{item[:40]!r} is not a weekday", "MO to SU, if need be after a number (±1 to ±53)")
        found.add((int(match[1] or 0), WEEKDAYS.index(match[2])))
    return tuple(sorted(found, key=lambda pair: (pair[0] != 0, pair)))


def _until(text: str, tz: str) -> int:
    """Return UNTIL as epoch ms, inclusive; without Z it is local in *tz*, and a repeated time is the first one."""
    local = _local("UNTIL", text, "T235959")
    fold = Fold.FIRST if "T" in text else Fold.SECOND  # of a day that ends twice
    until_ms = resolve_local(local, zone("UTC" if text.endswith("Z") else tz), Gap.SHIFT, fold)[0]
    return sorted((*_YEARS_MS, until_ms))[1]


def _local(key: str, text: str, time_of_date: str = "T000000") -> datetime:
    """Return the time in a text of UNTIL, EXDATE or RDATE, as on its clock."""
    if not _TIME.fullmatch(text):
        remedy = "write 20301231, 20301231T180000, or 20301231T180000Z for UTC"
        raise BadRule(f"{key}={text[:40]} is neither a date nor a time", remedy)
    try:
        return datetime.strptime(f"{text}{time_of_date}"[:15], "%Y%m%dT%H%M%S")
    except ValueError:
        raise BadRule(f"{key}={text} is not a date of the calendar", "give another") from None


def _singles(key: str, texts: dict[str, str]) -> tuple[str, ...]:
    """Return the checked times of EXDATE or RDATE, each once."""
    found = tuple(sorted({*texts[key].split(",")})) if key in texts else ()
    if len(found) > MOST_DATES:
        raise BadRule(f"{key} has more than {MOST_DATES} times", "name a calendar in exclude=, or make two schedules")
    for text in found:
        _local(key, text)
    return found


def _refuse_combinations(parts: Parts) -> None:
    """Raise BadRule for parts that RFC 5545 forbids together, or leaves open."""
    has_numbered_day, is_yearly = any(n for n, _ in parts.days), parts.freq is Frequency.YEARLY
    lists = (parts.months, parts.week_numbers, parts.year_days, parts.month_days, parts.days)
    if parts.week_numbers and not is_yearly:
        raise BadRule("BYWEEKNO needs FREQ=YEARLY", "leave it out (RFC 5545)")
    if parts.week_numbers and not parts.days:
        raise BadRule("BYWEEKNO does not say which day of the week", "add BYDAY")
    if parts.year_days and not is_yearly:
        raise BadRule("BYYEARDAY needs FREQ=YEARLY", "use BYMONTH and BYMONTHDAY (RFC 5545)")
    if parts.month_days and parts.freq is Frequency.WEEKLY:
        raise BadRule("BYMONTHDAY does not go with FREQ=WEEKLY", "use FREQ=DAILY or FREQ=MONTHLY (RFC 5545)")
    if has_numbered_day and parts.freq in (Frequency.DAILY, Frequency.WEEKLY):
        remedy = "leave the number out, or change FREQ (RFC 5545)"
        raise BadRule("a numbered weekday needs FREQ=MONTHLY or FREQ=YEARLY", remedy)
    if has_numbered_day and parts.week_numbers:
        raise BadRule("a numbered weekday does not go with BYWEEKNO", "leave the number out (RFC 5545)")
    if parts.positions and not any((*lists, parts.hours, parts.minutes, parts.seconds)):
        raise BadRule("BYSETPOS chooses from nothing", "add another BY part, or leave it out (RFC 5545)")


class _RRuleKind(TriggerKind):
    name = "rrule"
    metavar = "RULE"
    is_everyday = False
    help = "An RFC 5545 rule, such as FREQ=WEEKLY;BYDAY=MO."
    example = "FREQ=WEEKLY;BYDAY=MO"
    cause = "no date matches the rule (BY parts that exclude each other?)"
    anchor = Anchor.DAY
    is_of_zone = True

    def parse(self, value: object, tz: str = "UTC") -> tuple[str, int | None]:
        """
        Return the canonical value of the rule *value*, without its COUNT, and the COUNT. *tz*: of an UNTIL without Z.

        The prefix ``RRULE:`` and lower case are tolerated. ``check`` finds out whether the rule ever fires.

        Raises:
            InvalidSchedule: not a rule as described in this module, or longer than ``LONGEST``.
        """
        if not isinstance(value, str):
            raise InvalidSchedule(self.name, value, "not a text", _EXAMPLE)
        try:
            parts, count = _parse(value, tz)
        except BadRule as refusal:
            raise InvalidSchedule(self.name, value, refusal.problem, refusal.remedy) from None
        return parts.to_text(), count

    def rule(self, spec: TriggerSpec, anchor_ms: int) -> Projection:
        tz, parts = zone(spec.tz), rrule_parts(spec.expr)._replace(removed=(), added=())
        return Projection(recurrence(parts, _start_wall_s(spec, anchor_ms, tz)), tz, spec.gap, spec.fold)

    def singles(self, spec: TriggerSpec, anchor_ms: int) -> tuple[Exclusions, Instants] | None:
        parts, tz = rrule_parts(spec.expr), zone(spec.tz)
        if not parts.removed and not parts.added:
            return None
        times = recurrence(parts._replace(removed=(), added=()), _start_wall_s(spec, anchor_ms, tz)).times
        return _instants(parts.removed, parts.added, times, tz, spec.gap, spec.fold)

    def until_ms(self, expr: str) -> int | None:
        return rrule_parts(expr).until_ms


@lru_cache(maxsize=4096)
def _instants(
    removed: tuple[str, ...], added: tuple[str, ...], times: Times, tz: ZoneInfo, gap: Gap, fold: Fold
) -> tuple[Exclusions, Instants]:
    """Return the removed and the added times in *tz* as instants; *times*: those of an added date."""

    def resolved(text: str, place: ZoneInfo = tz, second: int = 0) -> list[int]:
        local = _local("RDATE", text) + timedelta(seconds=second)
        return resolve_local(local, zone("UTC") if text.endswith("Z") else place, gap, fold)

    days = Instants(ms for text in removed if "T" not in text for ms in resolved(text, zone("UTC")))
    singles = Instants(sorted(ms for text in removed if "T" in text for ms in resolved(text)))
    exclusions = Exclusions([Closure("", days, DAY_S * 1000), Closure("", singles, 1, is_on_clock=False)], tz)
    of_day = [times.at(number) for number in range(times.count)]
    found = {ms for text in added for second in ([0] if "T" in text else of_day) for ms in resolved(text, tz, second)}
    return exclusions, Instants(ms for ms in sorted(found) if exclusions.at(ms) is None)


def _start_wall_s(spec: TriggerSpec, anchor_ms: int, tz: ZoneInfo) -> int:
    """Return DTSTART on the clock in *tz*: the first second from ``starts_ms``, or midnight of the anchor's day."""
    if spec.starts_ms is not None:
        start_s = -(-spec.starts_ms // 1000)
        return start_s + offset_s(tz, start_s)
    wall_s = anchor_ms // 1000 + offset_s(tz, anchor_ms // 1000)
    return wall_s - wall_s % DAY_S


RRULE: Final = _RRuleKind()
