"""What people write on a command line, as the values that the client takes."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any, Final

import click

_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(\.\d{1,9})?", re.ASCII)
_PARTS: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ms|[wdhms])", re.ASCII)
_DATE: Final = re.compile(r"[\d-]+|\d{4}-?W\d\d(-?\d)?", re.ASCII)


def instant(text: str) -> datetime:
    """
    ISO 8601 with a time of day: ``2026-12-24T18:00``, ``…Z``, ``…+09:00``; without an offset it stays naive.

    Raises:
        click.BadParameter: it is none.
    """
    if _DATE.fullmatch(text):
        raise click.BadParameter(f"{text!r} is a date alone and has no time of day; give {text}T00:00 or another")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        example = "2026-12-24T18:00, 2026-12-24T18:00Z or 2026-12-24T18:00+09:00"
        raise click.BadParameter(f"{text!r} is no time; give {example}") from None


def duration(text: str) -> timedelta:
    """
    Seconds, or numbers with w, d, h, m, s, ms: ``90``, ``5m``, ``1h30m``, ``500ms``.

    Raises:
        click.BadParameter: it is none.
    """
    try:
        if _NUMBER.fullmatch(text):
            return _exactly(text, _UNITS["s"])
        parts = _PARTS.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum((_exactly(number, _UNITS[unit]) for number, unit in parts), timedelta())
    except OverflowError:
        raise click.BadParameter(f"{text!r} is longer than any duration; give less") from None
    raise click.BadParameter(f"{text!r} is no duration; give seconds, or 500ms, 5m, 1h30m, 2d")


def json_array(text: str) -> list[Any]:
    """The value of a JSON array. Raises click.BadParameter."""
    value = _json(text)
    if not isinstance(value, list):
        raise click.BadParameter(f"""{text!r} is not a JSON array; give one such as '[42, "email"]'""")
    return value


def json_object(text: str) -> dict[str, Any]:
    """The value of a JSON object. Raises click.BadParameter."""
    value = _json(text)
    if not isinstance(value, dict):
        raise click.BadParameter(f"""{text!r} is not a JSON object; give one such as '{{"channel": "email"}}'""")
    return value


def duration_text(ms: int) -> str:
    """*ms* as ``duration`` reads it, in the largest units: 5400000 is 1h30m."""
    if ms == 0:
        return "0s"
    text, rest = "", ms
    for unit, size in _UNITS.items():
        if unit != "w" and rest >= size:
            text, rest = f"{text}{rest // size}{unit}", rest % size
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is not JSON ({error})") from None


def _exactly(number: str, unit_ms: int) -> timedelta:
    whole, _, fraction = number.partition(".")
    microseconds = int(fraction.ljust(9, "0")) * unit_ms // 1_000_000 if fraction else 0
    sign = -1 if whole.startswith("-") else 1
    return timedelta(milliseconds=int(whole) * unit_ms) + sign * timedelta(microseconds=microseconds)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not in JSON")
