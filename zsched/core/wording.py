"""
Texts for people: durations, numbers, lists of names, and texts of other programs.

This module also parses the durations of the client, the command line and files: ``90``, ``5m``, ``1h30m``, ``500ms``.

Every writer of RQ's keys can choose the texts in them: worker names, errors, statuses. ``in_a_line`` and ``truncated``
clean such a text before it is written to a log entry, an event or an archive. lua/lib/untrusted.lua does the same for
scripts.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from zsched.errors import InvalidSchedule

DURATION_REMEDY: Final = 'give seconds, or a text such as "90s", "5m" or "1h30m"'
_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(\.\d{1,9})?", re.ASCII)
_PARTS: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ms|[wdhms])", re.ASCII)
_SHOWN: Final = 4  # names; the number of further ones is shown
LONGEST_NAME: Final = 200  # characters of the name of a worker or a queue, and of a run id in RQ's hash
_LONGEST: Final = 2000  # characters of any other text


# -- durations ------------------------------------------------------------------------------------


def parse_duration(text: str) -> timedelta:
    """
    Parse seconds, or numbers with w, d, h, m, s, ms: ``90``, ``5m``, ``1h30m``, ``500ms``.

    Raises:
        ValueError: not a duration; the message has the text and the remedy.
    """
    try:
        if len(text) > LONGEST_NAME:  # to search a long one would take a second
            raise ValueError(f"a text of {len(text):,} characters is not a duration; give less")
        if _NUMBER.fullmatch(text):
            return _exactly(text, _UNITS["s"])
        parts = _PARTS.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum((_exactly(number, _UNITS[unit]) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any duration; give less") from None
    raise ValueError(f"{text!r} is not a duration; give seconds, or 500ms, 5m, 1h30m, 2d")


def duration_argument(field: str, value: str) -> timedelta:
    """Return the duration that the text *value* of the option *field* means. Raises InvalidSchedule."""
    try:
        return parse_duration(value)
    except ValueError:
        raise InvalidSchedule(field, value, "not a duration", DURATION_REMEDY) from None


def duration_text(ms: int) -> str:
    """Write *ms*, not negative, for ``parse_duration``, in the largest units: 5400000 is 1h30m."""
    return "".join(f"{number}{unit}" for number, unit in _parts(ms) if number) or "0s"


def rough_duration(ms: float) -> str:
    """Write ``0.4 ms`` (``3 ms`` of whole ones), ``3.2 s``, ``12 min 5 s``, ``2 h 3 min``, ``4 d 1 h``."""
    if ms < 1000 and isinstance(ms, int):
        return f"{ms} ms"
    if ms < 999.95:  # a larger one would be rounded to 1000.0 ms
        return f"{ms:.1f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    return " ".join(f"{number} {'min' if unit == 'm' else unit}" for number, unit in _largest(max(int(ms), 60_000)))


def with_name(id: str, name: str | None) -> str:
    """Return ``digest (The daily digest)``: a schedule's id, and its name if it has one."""
    return f"{id} ({name})" if name else id


def relative_text(ms: int, now_ms: int) -> str:
    """Write ``in 3d 4h`` or ``12s ago``."""
    distance_ms = abs(ms - now_ms)
    if distance_ms < 1000:
        return "now"
    text = " ".join(f"{number}{unit}" for number, unit in _largest(distance_ms))
    return f"in {text}" if ms > now_ms else f"{text} ago"


def _largest(ms: int) -> list[tuple[int, str]]:
    """Return the two largest units of *ms* (at least a second) down to seconds, without the second one if it is 0."""
    return [part for part in _parts(ms // 1000 * 1000)[:2] if part[0]]


def _parts(ms: int) -> list[tuple[int, str]]:
    """Split *ms* into days and smaller units, from the first one that is not 0."""
    parts: list[tuple[int, str]] = []
    for unit, size in _UNITS.items():
        if unit != "w" and (parts or ms >= size):
            parts.append((ms // size, unit))
            ms %= size
    return parts


def _exactly(number: str, unit_ms: int) -> timedelta:
    whole, _, fraction = number.partition(".")
    microseconds = int(fraction.ljust(9, "0")) * unit_ms // 1_000_000 if fraction else 0
    sign = -1 if whole.startswith("-") else 1
    return timedelta(milliseconds=int(whole) * unit_ms) + sign * timedelta(microseconds=microseconds)


# -- numbers and lists ----------------------------------------------------------------------------


def plural(number: int, noun: str) -> str:
    """Return ``1 run``, ``2,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int = _SHOWN) -> str:
    """Return the first of *names*, separated by commas."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def alternatives(names: Sequence[str]) -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def nearest(name: object, names: Iterable[str], least: float = 0.6) -> str:
    """Return the most similar of *names*, if *name* may be a misspelling of it; else "". *least* is 1 for equals."""
    from difflib import get_close_matches  # for an error alone

    return next(iter(get_close_matches(str(name)[:LONGEST_NAME], [*names], 1, least)), "")


# -- texts of other programs ----------------------------------------------------------------------


def in_a_line(text: str, most: int = LONGEST_NAME) -> str:
    """Return the first *most* characters of *text* as one line, without control characters."""
    return " ".join(blanked(text[:most]).split())


def blanked(text: str) -> str:
    """Return *text* with a blank for each character that is not printable, such as control characters and line ends."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def truncated(text: str, most: int = _LONGEST) -> str:
    """Return *text*; if it is longer than *most* characters, its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
