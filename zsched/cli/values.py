"""Parse values of the command line into arguments of the client."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Final

import click

from zsched.config.reading import MOST_BYTES, bounded, read_file, reason_of
from zsched.core.clock import SystemClock, from_ms
from zsched.core.options.arguments import strict_json
from zsched.core.options.instants import instant_ms
from zsched.core.wording import parse_duration
from zsched.errors import ConfigError

_DATE: Final = re.compile(r"[\d-]{1,10}|\d{4}-?W\d\d(-?\d)?", re.ASCII)  # forms of ISO 8601 without a time of day
_EITHER_ORDER: Final = re.compile(r"(?<![\d/.-])\d{1,2}([-/.])\d{1,2}(\1\d{2,4})?(?!\d)(?!:)", re.ASCII)
_EXAMPLES: Final = "2026-12-24 18:00, 24 Dec 18:00, 2026-12-24T18:00Z or 2026-12-24T18:00+09:00"
_UTC_NAMES: Final = ("UTC", "GMT", "Z")


def instant(text: str) -> datetime:
    """
    Parse a date and a time of day: ISO 8601 (``2026-12-24T18:00``, ``…Z``, ``…+09:00``), or what people write:
    ``2026-12-24 18:00``, ``24 Dec 18:00``, ``Dec 24, 2026 6pm``. Without an offset it stays naive. Without a year it is
    in this year. The order of day and month is never guessed.

    Raises:
        click.BadParameter: *text* is not such a time.
    """
    if _DATE.fullmatch(text):
        raise click.BadParameter(f"{text!r} is a date alone and has no time of day; give {text}T00:00 or another")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    if _EITHER_ORDER.search(text):
        raise click.BadParameter(f"{text!r} has a day and a month in an unknown order; give {_EXAMPLES}")
    try:
        return _written(text)
    except (ValueError, OverflowError) as error:
        reason = f" ({error})" if isinstance(error, _Unclear) else ""
        raise click.BadParameter(f"{text!r} is not a time{reason}; give {_EXAMPLES}") from None


class _Unclear(ValueError):
    """A time with a part missing, or of an unknown zone."""


def _written(text: str) -> datetime:
    """Parse a time in words. dateutil fills missing parts from a default, so two defaults show what is missing."""
    from dateutil.parser import parse  # most commands need not wait for it

    def zone(name: str | None, offset_s: int | None) -> tzinfo | None:
        if name is not None and name not in _UTC_NAMES:
            raise _Unclear(f"zone {name!r} is ambiguous: give an offset, or the option --tz")
        return None if name is None and offset_s is None else timezone(timedelta(seconds=offset_s or 0))

    year = from_ms(SystemClock().now_ms()).year
    first, second = (parse(text, default=datetime(year, *default), tzinfos=zone) for default in ((1, 1), (2, 2, 1)))
    if first.date() != second.date():
        raise _Unclear("it has no date")
    if first != second:
        raise _Unclear("it has no time of day")
    return first


def by_name(value: Callable[[str], Any], example: str) -> Callable[..., dict[str, Any]]:
    """Return the callback of a repeatable option ``NAME=VALUE``: its values by name. It raises click.BadParameter."""

    def read(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for text in given:
            name, _, part = text.rpartition("=")
            with suppress(click.BadParameter):
                if name:
                    found[name] = value(part)
                    continue
            raise click.BadParameter(f"{text!r} is not a name with its value; give one such as {example}")
        return found

    return read


Moment = datetime | timedelta  # a time, or a duration back from now


def moment(text: str) -> Moment:
    """Parse a duration back from now, or a time. Raises click.BadParameter."""
    with suppress(click.BadParameter):
        return duration(text)
    with suppress(click.BadParameter):
        return instant(text)
    raise click.BadParameter(f"{text!r} is neither a duration nor a time; give 90s, 1h30m, {_EXAMPLES}")


def moment_at(given: Moment | None, name: str, tz: str | None) -> datetime | None:
    """Return the aware time of a ``moment``; a naive one is local in *tz*. *name*: of the option, for an error."""
    if isinstance(given, timedelta):
        return from_ms(max(SystemClock().now_ms() - given // timedelta(milliseconds=1), 0))
    return None if given is None else from_ms(instant_ms(name, given, tz))


def duration(text: str) -> timedelta:
    """Parse a duration as ``core.wording`` does. Raises click.BadParameter: *text* is not a duration."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def json_array(text: str) -> Any:
    """Parse a JSON array. Raises click.BadParameter."""
    return _json(text, list, """array; give one such as '[42, "email"]'""")


def json_object(text: str) -> Any:
    """Parse a JSON object. Raises click.BadParameter."""
    return _json(text, dict, """object; give one such as '{"channel": "email"}'""")


def _json(text: str, kind: type, wanted: str) -> Any:
    try:
        value = strict_json(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON ({error})") from None
    if not isinstance(value, kind):
        raise click.BadParameter(f"{text!r} is not a JSON {wanted}")
    return value


def content(file: str, wanted: str) -> bytes:
    """
    Return the bytes of *file*, or of standard input for ``-``. *wanted*: the expected content, such as "a crontab".

    Raises:
        ConfigError: it cannot be read, or is too large.
    """
    from zsched.files.reading import STDIN

    try:
        return bounded(sys.stdin.buffer, MOST_BYTES) if file == STDIN else read_file(file, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {reason_of(error)}; give {wanted}, or - for standard input") from error
