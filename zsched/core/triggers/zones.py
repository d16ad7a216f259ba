"""
Time zones: accepted names, changes of a zone's offset, and the instants of a local time, also of a client's argument.

Names are IANA names that ``zoneinfo.available_timezones()`` lists, without those that are not
places: abbreviations (EST is not New York: it has no summer time), ``localtime`` and ``Factory``.
``right/*`` counts leap seconds and is some 27 s off POSIX time; ``posix/*`` and ``posixrules`` are
copies. zoneinfo would load all of them.

A stored schedule may have a zone that this machine's data lacks: the data of a slim image, or older data. It cannot be
planned here. Its times are shown in UTC.

Seconds here are whole epoch seconds (``…_s``). zoneinfo does not publish its transitions, so they are
found by probing every ``_STEP_S`` and bisecting to the second. Two changes that cancel out within one step
would be missed. The closest pair in tzdata is 3.98 days apart (Freetown, 1939); a test checks that.
"""

import re
from bisect import bisect_left
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from zsched.core.clock import LAST_MS, from_ms, to_ms
from zsched.core.triggers.spec import Fold, Gap
from zsched.core.wording import alternatives, nearest
from zsched.errors import InvalidSchedule, UnknownZone
from zsched.zone_rules import installed

DAY_S: Final = 86_400
FLOOR_S: Final = -62_135_424_000  # 0001-01-03T00:00Z: earlier, local times leave datetime's range
HORIZON_S: Final = 253_402_128_000  # 9999-12-30T00:00Z: no occurrence at or after it, for the same reason

_OF_A_ZONE = ("at", "starts", "ends")  # options beside ``tz``
_STEP_S: Final = 2 * DAY_S
_EPOCH: Final = datetime(1970, 1, 1)
_LONGEST_NAME: Final = 64  # characters; a longer text is not compared with every zone's name

# Refused names in upper case, and the zones that may be meant by them, the likeliest first.
_OF_ABBREVIATIONS: Final = {
    "EST": "America/New_York America/Toronto America/Panama",
    "EDT": "America/New_York America/Toronto",
    "EST5EDT POSIXRULES": "America/New_York",
    "CST": "America/Chicago America/Mexico_City Asia/Shanghai Asia/Taipei",
    "CDT": "America/Chicago America/Winnipeg",
    "CST6CDT": "America/Chicago",
    "MST": "America/Denver America/Phoenix",
    "MDT": "America/Denver America/Edmonton",
    "MST7MDT": "America/Denver",
    "PST": "America/Los_Angeles America/Vancouver Asia/Manila",
    "PDT": "America/Los_Angeles America/Vancouver",
    "PST8PDT": "America/Los_Angeles",
    "AKST AKDT": "America/Anchorage",
    "HST": "Pacific/Honolulu",
    "AST": "America/Halifax America/Puerto_Rico Asia/Riyadh",
    "ADT": "America/Halifax",
    "NST": "America/St_Johns",
    "BRT": "America/Sao_Paulo",
    "ART": "America/Argentina/Buenos_Aires",
    "WET WEST": "Europe/Lisbon",
    "BST": "Europe/London Asia/Dhaka",
    "CET CEST": "Europe/Berlin Europe/Paris Europe/Madrid",
    "MET": "Europe/Berlin",
    "EET": "Europe/Helsinki Europe/Athens Africa/Cairo",
    "EEST": "Europe/Helsinki Europe/Athens",
    "MSK": "Europe/Moscow",
    "TRT": "Europe/Istanbul",
    "SAST": "Africa/Johannesburg",
    "WAT": "Africa/Lagos",
    "CAT": "Africa/Harare",
    "EAT": "Africa/Nairobi",
    "IST": "Asia/Kolkata Asia/Jerusalem Europe/Dublin",
    "IDT": "Asia/Jerusalem",
    "GST": "Asia/Dubai",
    "PKT": "Asia/Karachi",
    "ICT": "Asia/Bangkok Asia/Ho_Chi_Minh",
    "WIB": "Asia/Jakarta",
    "HKT": "Asia/Hong_Kong",
    "SGT": "Asia/Singapore",
    "KST": "Asia/Seoul",
    "JST": "Asia/Tokyo",
    "AWST": "Australia/Perth",
    "ACST": "Australia/Adelaide Australia/Darwin",
    "AEST": "Australia/Sydney Australia/Brisbane",
    "AEDT": "Australia/Sydney",
    "NZST NZDT": "Pacific/Auckland",
    "Z LOCALTIME FACTORY": "UTC",
}
_MEANT: Final = {name: zones for names, zones in _OF_ABBREVIATIONS.items() for name in names.split()}

# Names of Windows and Outlook, without "Standard Time", in lower case: CLDR's windowsZones, territory 001.
_OF_WINDOWS: Final = {
    "America/Anchorage": "alaskan", "America/Argentina/Buenos_Aires": "argentina", "America/Bogota": "sa pacific",
    "America/Caracas": "venezuela", "America/Chicago": "central", "America/Denver": "mountain",
    "America/Halifax": "atlantic", "America/Los_Angeles": "pacific", "America/Mexico_City": "central (mexico)",
    "America/New_York": "eastern", "America/Phoenix": "us mountain", "America/Regina": "canada central",
    "America/Santiago": "pacific sa", "America/Sao_Paulo": "e. south america", "America/St_Johns": "newfoundland",
    "Africa/Cairo": "egypt", "Africa/Casablanca": "morocco", "Africa/Johannesburg": "south africa",
    "Africa/Lagos": "w. central africa", "Africa/Nairobi": "e. africa", "Asia/Baghdad": "arabic",
    "Asia/Bangkok": "se asia", "Asia/Colombo": "sri lanka", "Asia/Dhaka": "bangladesh", "Asia/Dubai": "arabian",
    "Asia/Hong_Kong": "hong kong", "Asia/Jerusalem": "israel",
    "Asia/Karachi": "pakistan", "Asia/Kathmandu": "nepal", "Asia/Kolkata": "india", "Asia/Riyadh": "arab",
    "Asia/Seoul": "korea", "Asia/Shanghai": "china", "Asia/Singapore": "singapore", "Asia/Taipei": "taipei",
    "Asia/Tehran": "iran", "Asia/Tokyo": "tokyo", "Atlantic/Azores": "azores", "Atlantic/Reykjavik": "greenwich",
    "Australia/Adelaide": "cen. australia", "Australia/Brisbane": "e. australia", "Australia/Darwin": "aus central",
    "Australia/Hobart": "tasmania", "Australia/Perth": "w. australia", "Australia/Sydney": "aus eastern",
    "Europe/Athens": "gtb", "Europe/Berlin": "w. europe", "Europe/Budapest": "central europe",
    "Europe/Helsinki": "fle", "Europe/Istanbul": "turkey", "Europe/Kaliningrad": "kaliningrad",
    "Europe/London": "gmt", "Europe/Moscow": "russian", "Europe/Paris": "romance",
    "Europe/Warsaw": "central european", "Pacific/Auckland": "new zealand", "Pacific/Fiji": "fiji",
    "Pacific/Honolulu": "hawaiian",
}  # fmt: skip
_WINDOWS: Final = {name: zone for zone, name in _OF_WINDOWS.items()}

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)+", re.ASCII)  # such as a zone has
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII | re.IGNORECASE)  # east is +
_POSIX: Final = re.compile(r"([A-Z]{3,5})([+-]?)(\d{1,2})([A-Z]{3,5}.*)?", re.ASCII | re.IGNORECASE)  # west is +


class OffsetChange(NamedTuple):
    """At ``at_s`` a zone's offset from UTC changes from ``before_s`` to ``after_s`` (seconds, east positive)."""

    at_s: int
    before_s: int
    after_s: int


def zone(name: object, field: str = "tz") -> ZoneInfo:
    """
    Return the zone called *name*; ``field`` is the option that an error names.

    Raises:
        UnknownZone: the machine's data lacks it. InvalidSchedule: not an IANA name as described above. The remedy
        suggests one.
    """
    if has_zone(name):
        return ZoneInfo(str(name))
    error = UnknownZone if isinstance(name, str) and _is_a_name(name) else InvalidSchedule
    raise error(field, name, *_refusal(name))


def has_zone(name: object) -> bool:
    """Return True if *name* is an accepted zone of this machine."""
    return isinstance(name, str) and name in _accepted()


def shown_zone(name: str) -> ZoneInfo:
    """Return the zone in which times of a stored schedule are shown: UTC if this machine lacks the zone *name*."""
    return ZoneInfo(name if has_zone(name) else "UTC")


def local_time(ms: int, place: ZoneInfo) -> datetime:
    """Return an instant as local time in *place*; in UTC if it is beyond the year 9999 there."""
    at = from_ms(ms)
    with suppress(OverflowError):
        return at.astimezone(place)
    return at


def lack_of(name: str) -> str:
    """Return the sentence about a zone that this machine lacks."""
    return f"this machine's time zone data ({installed().version or 'of an unknown version'}) lacks {name}"


def offset_s(tz: ZoneInfo, at_s: int) -> int:
    """The offset of *tz* from UTC at the instant *at_s*, in seconds, east positive."""
    return _seconds(tz.fromutc((_EPOCH + timedelta(seconds=at_s)).replace(tzinfo=tz)).utcoffset())


def offset_changes(tz: ZoneInfo, start_s: int, end_s: int) -> list[OffsetChange]:
    """Every change of the offset of *tz* at an instant in (start_s, end_s], in order, exact to the second."""
    found = []
    here, offset = start_s, offset_s(tz, start_s)
    while here < end_s:
        there = min(here + _STEP_S, end_s)
        if offset_s(tz, there) == offset:
            here = there
            continue
        here = _first_difference(tz, here, there, offset)
        found.append(OffsetChange(here, offset, offset_s(tz, here)))
        offset = found[-1].after_s
    return found


def resolve_local(local: datetime, tz: ZoneInfo, gap: Gap, fold: Fold) -> list[int]:
    """
    Return the instants of the naive *local* time in *tz*, in epoch ms, ascending.

    There is one instant; two for a repeated time with ``Fold.BOTH``, none for a skipped one with ``Gap.SKIP``.
    ``Gap.SHIFT`` uses the offset before the gap for a skipped time, so it moves on by the gap's length
    (RFC 5545 section 3.3.5). ``local.fold`` is ignored. Fractions of a millisecond are cut off.
    """
    wall_ms = (local.replace(tzinfo=None) - _EPOCH) // timedelta(milliseconds=1)
    first_s, second_s = (_seconds(local.replace(tzinfo=tz, fold=n).utcoffset()) for n in (0, 1))
    passes = [wall_ms - first_s * 1000, wall_ms - second_s * 1000]
    if first_s == second_s:
        return passes[:1]
    if first_s > second_s:  # repeated: fold=0 has the offset before the change, which is the greater (PEP 495)
        return {Fold.FIRST: passes[:1], Fold.SECOND: passes[1:], Fold.BOTH: passes}[fold]
    if gap is Gap.SKIP:
        return []
    if gap is Gap.SHIFT:
        return passes[:1]
    return [_first_difference(tz, passes[1] // 1000 - 1, passes[0] // 1000 + 1, first_s) * 1000]


def _first_difference(tz: ZoneInfo, same_s: int, other_s: int, offset: int) -> int:
    """The first instant in (same_s, other_s] where the offset is not *offset*, as it is at same_s."""
    later_s = range(same_s + 1, other_s)
    return same_s + 1 + bisect_left(later_s, True, key=lambda at_s: offset_s(tz, at_s) != offset)


def _seconds(offset: timedelta | None) -> int:
    if offset is None:
        raise TypeError("a zone without an offset")  # zoneinfo has no such zone
    return offset.days * DAY_S + offset.seconds


@lru_cache(maxsize=1)
def _accepted() -> frozenset[str]:
    return frozenset(name for name in available_timezones() if name.upper() not in _MEANT)


def _refusal(name: object) -> tuple[str, str]:
    """Problem and remedy for a name that is not accepted."""
    if not isinstance(name, str):
        return "not a text", 'give the zone as an IANA name such as "Europe/London"'
    bare = name.strip()
    for prefix in ("right/", "posix/"):
        if bare.startswith(prefix):
            return f"{prefix}* is a variant of the zone data, not a zone", _suggest(bare.removeprefix(prefix))
    if bare.upper() in _MEANT:
        return "an abbreviation or a placeholder, not an IANA zone", f"{_say(bare.upper())} if that is meant"
    offset, posix = _OFFSET.fullmatch(bare), _POSIX.fullmatch(bare)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        fixed = _fixed("-" if sign == "+" else "+", int(hours)) if int(minutes or 0) == 0 else ""
        return "an offset, which has no daylight saving time", f'name the place, such as "Europe/London"{fixed}'
    if posix is not None and posix[1].upper() in _MEANT:
        fixed = "" if posix[4] else _fixed(posix[2] or "+", int(posix[3]))
        return "a POSIX zone, not an IANA zone", f"{_say(posix[1].upper())} if that is meant{fixed}"
    windows = bare.casefold().removesuffix(" time").removesuffix(" standard").removesuffix(" daylight")
    if windows in _WINDOWS:
        return "a zone of Windows, not an IANA zone", f'say "{_WINDOWS[windows]}" if that is meant'
    if _is_a_name(name):
        near = _suggest(bare, "")
        return lack_of(name), f"{near} If {name} is right, install tzdata" if near else "install tzdata"
    return "not an IANA time zone", _suggest(bare)


def _is_a_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _say(name: str) -> str:
    return "say " + alternatives([f'"{meant}"' for meant in _MEANT[name].split()])


def _fixed(sign: str, hours: int) -> str:
    """Return the end of a remedy: the zone with a fixed offset (west is +), if there is one."""
    name = f"Etc/GMT{sign}{hours}"
    return f', or "{name}" for this offset all year' if name in _accepted() else ""


def _suggest(name: str, otherwise: str = 'use an IANA name such as "Europe/London" or "UTC"') -> str:
    """Return a remedy that names the nearest zone, if one is near."""
    folded = {known.casefold(): known for known in _accepted()}
    last_part = {key.rpartition("/")[2]: known for key, known in folded.items()}
    wanted = name[:_LONGEST_NAME].casefold().replace(" ", "_")
    for names in (folded, last_part):
        if near := nearest(wanted, names, 0.75):
            return f'did you mean "{names[near]}"?'
    return otherwise


def instant_ms(field: str, value: object, tz: str | None, gap: Gap = Gap.SHIFT, fold: Fold = Fold.FIRST) -> int:
    """
    Return the epoch milliseconds of a datetime, rounded up; a naive one is local time in *tz*. If it has ``fold=1``, it
    is the second pass of a repeated time (PEP 495), whatever *fold* says.

    Raises:
        InvalidSchedule: not a datetime, naive without a zone, before 1970 or after 9999, or a local
            time that *gap* skips; or its tzinfo has no offset for it.
    """
    if not isinstance(value, datetime):
        raise InvalidSchedule(field, value, "not a datetime", _datetime_instead(value))
    try:
        is_aware = value.utcoffset() is not None
    except Exception as error:  # of any tzinfo, or of pandas' NaT
        problem = f"it has no offset from UTC ({type(error).__name__}: {error})"
        raise InvalidSchedule(field, value, problem, 'give one with tzinfo=ZoneInfo("Area/City")') from error
    if is_aware:
        ms = to_ms(value)
    elif tz is None:
        remedy = "give an aware one, such as datetime(2026, 12, 24, 18, tzinfo=UTC)"
        if field in _OF_A_ZONE:
            remedy = 'give tz="Area/City" or an aware one'
        raise InvalidSchedule(field, value, "a naive datetime is ambiguous", remedy)
    else:
        if fold is Fold.BOTH:
            raise InvalidSchedule("fold", "both", "a single time cannot have two instants", "give first or second")
        times = resolve_local(value, zone(tz), gap, Fold.SECOND if value.fold else fold)
        if not times:
            raise InvalidSchedule(
                field, value, f"this local time does not exist in {tz}", "give gap=shift or another time"
            )
        ms = times[0] + (value.microsecond % 1000 > 0)  # resolve_local cuts off what is below a millisecond
    if not 0 <= ms <= LAST_MS:
        raise InvalidSchedule(field, value, "outside of the supported range", "give a time from 1970 to 9999")
    return ms


def local_offset_s(value: datetime, tz: str | None, ms: int) -> int | None:
    """Return the offset at *ms*, if the datetime *value* was local time in the zone *tz*; None for an aware one."""
    return None if tz is None or value.utcoffset() is not None else offset_s(zone(tz), ms // 1000)


def _datetime_instead(value: object) -> str:
    """Return the remedy for a *value* that is not a datetime."""
    if isinstance(value, date):
        return "give a datetime: a date alone has no time of day"
    with suppress(ValueError, TypeError):
        return f"give a datetime: datetime.fromisoformat({datetime.fromisoformat(value).isoformat()!r})"  # type: ignore[arg-type]  # a text, or TypeError
    return "give a datetime"
