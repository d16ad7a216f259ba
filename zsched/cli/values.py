"""Parse values of the command line into arguments of the client."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from zsched.core.arguments import instant_ms
from zsched.core.clock import SystemClock, from_ms
from zsched.core.wording import parse_duration
from zsched.errors import ConfigError

_DATE: Final = re.compile(r"[\d-]+|\d{4}-?W\d\d(-?\d)?", re.ASCII)


def instant(text: str) -> datetime:
    """
    Parse ISO 8601 with a time of day: ``2026-12-24T18:00``, ``…Z``, ``…+09:00``. Without an offset it stays naive.

    Raises:
        click.BadParameter: *text* is not such a time.
    """
    if _DATE.fullmatch(text):
        raise click.BadParameter(f"{text!r} is a date alone and has no time of day; give {text}T00:00 or another")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        example = "2026-12-24T18:00, 2026-12-24T18:00Z or 2026-12-24T18:00+09:00"
        raise click.BadParameter(f"{text!r} is not a time; give {example}") from None


def duration(text: str) -> timedelta:
    """Parse a duration as ``core.wording`` does. Raises click.BadParameter: *text* is not a duration."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


Moment = datetime | timedelta


def moment(text: str) -> Moment:
    """Parse a duration back from now, or a time. Raises click.BadParameter."""
    with suppress(click.BadParameter):
        return duration(text)
    with suppress(click.BadParameter):
        return instant(text)
    raise click.BadParameter(f"{text!r} is neither a duration nor a time; give 90s, 1h30m or 2026-12-24T18:00Z")


def moment_at(given: Moment | None, name: str, tz: str | None) -> datetime | None:
    """Return the aware time of a ``moment``; a naive one is local in *tz*. *name*: of the option, for an error."""
    if isinstance(given, timedelta):
        return from_ms(max(SystemClock().now_ms() - given // timedelta(milliseconds=1), 0))
    return None if given is None else from_ms(instant_ms(name, given, tz))


def json_array(text: str) -> list[Any]:
    """Parse a JSON array. Raises click.BadParameter."""
    value = _json(text)
    if not isinstance(value, list):
        raise click.BadParameter(f"""{text!r} is not a JSON array; give one such as '[42, "email"]'""")
    return value


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises click.BadParameter."""
    value = _json(text)
    if not isinstance(value, dict):
        raise click.BadParameter(f"""{text!r} is not a JSON object; give one such as '{{"channel": "email"}}'""")
    return value


def _json(text: str) -> Any:
    from zsched.files.checking import strict_json  # commands without JSON need not wait for it

    try:
        return strict_json(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON ({error})") from None


def content(file: str, wanted: str) -> bytes:
    """
    Return the bytes of *file*, or of standard input for ``-``. *wanted*: the expected content, such as "a crontab".

    Raises:
        ConfigError: it cannot be read.
    """
    from zsched.files.reading import STDIN

    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{file}: {reason}; give {wanted}, or - for standard input") from error
