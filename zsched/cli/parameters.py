"""
Arguments and options of commands: their values, parsed into arguments of the client; filters of schedules, occurrences
and runs; the options of a schedule; and completed ids.
"""

import re
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial, reduce
from typing import Any, Final, TypeVar

import click

from zsched.cli.program import Invocation, connect
from zsched.config.reading import MOST_BYTES, bounded, read_file, reason_of
from zsched.core.clock import SystemClock, from_ms
from zsched.core.listing import LISTED_KINDS
from zsched.core.options.arguments import strict_json
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import Option, ValueType, zone_name
from zsched.core.options.table import OPTIONS
from zsched.core.triggers.zones import instant_ms
from zsched.core.wording import parse_duration
from zsched.errors import ConfigError, ZschedError

_DATE: Final = re.compile(r"[\d-]{1,10}|\d{4}-?W\d\d(-?\d)?", re.ASCII)  # forms of ISO 8601 without a time of day
_EITHER_ORDER: Final = re.compile(r"(?<![\d/.-])\d{1,2}([-/.])\d{1,2}(\1\d{2,4})?(?!\d)(?!:)", re.ASCII)
_EXAMPLES: Final = "2026-12-24 18:00, 24 Dec 18:00, 2026-12-24T18:00Z or 2026-12-24T18:00+09:00"


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
    with suppress(ValueError):
        return datetime.fromisoformat(text)
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
        if name is not None and name not in ("UTC", "GMT", "Z"):
            raise _Unclear(f"zone {name!r} is ambiguous: give an offset, or the option --tz")
        return None if name is None and offset_s is None else timezone(timedelta(seconds=offset_s or 0))

    year = from_ms(SystemClock().now_ms()).year
    first, second = (parse(text, default=datetime(year, *default), tzinfos=zone) for default in ((1, 1), (2, 2, 1)))
    if first.date() != second.date():
        raise _Unclear("it has no date")
    if first != second:
        raise _Unclear("it has no time of day")
    return first


Moment = datetime | timedelta  # a time, or a duration back from now


def moment(text: str) -> Moment:
    """Parse a duration back from now, or a time. Raises click.BadParameter."""
    for parse in (duration, instant):
        with suppress(click.BadParameter):
            return parse(text)
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


def _json(text: str, kind: type, wanted: str) -> Any:
    """Parse a JSON text of this *kind*. Raises click.BadParameter."""
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


# -- options that several commands have ---------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* to a command, in their order."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


def time_option(flag: str, help: str, *names: str, or_span: bool = False, **how: Any) -> Callable[[F], F]:
    """Add the option of an ``instant``. *or_span*: of a ``moment``, so also of a span of time."""
    kind: Any = (moment, "TIME|DURATION") if or_span else (instant, "TIME")
    return click.option(flag, *names, type=kind[0], metavar=kind[1], help=help, **how)


def named_option(flag: str, value: Callable[[str], Any], metavar: str, example: str, help: str) -> Callable[[F], F]:
    """Add a repeatable option ``NAME=VALUE``, whose values come by name. *value* raises click.BadParameter."""

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

    return click.option(flag, multiple=True, callback=read, metavar=metavar, help=help)


def workers_option(help: str) -> Callable[[F], F]:
    """Add the option of numbers of workers, by queue."""
    number = partial(click.IntRange(1, 10_000).convert, param=None, ctx=None)
    return named_option("--workers", number, "QUEUE=N", "email=4", help)


def zone_option(help: str = "Show times in this zone.") -> Callable[[F], F]:
    """Add the option of a zone, which is checked; UTC unless given."""
    usual: Any = {"default": "UTC", "show_default": True, "callback": lambda _context, _option, tz: zone_name(tz)}
    return click.option("--tz", metavar="ZONE", help=help, **usual)


def facet_filters(noun: str) -> Callable[[F], F]:
    """Add the filters that occurrences, runs and schedules share; *noun*: what they choose, such as runs."""
    return stacked(
        click.option("--match", metavar="GLOB", help=f"Only {noun} with such a schedule id: '*acme*'."),
        click.option("--queue", metavar="NAME", help=f"Only {noun} of this queue."),
        click.option("--func", metavar="FUNC", help=f"Only {noun} of this function (dotted path)."),
        click.option("--tag", metavar="TEXT", help=f"Only {noun} with this tag."),
        click.option("--name", metavar="TEXT", help=f"Only {noun} of this name."),
        click.option("--owner", metavar="TEXT", help=f"Only {noun} of this owner."),
    )


def run_filters(*statuses: str) -> Callable[[F], F]:
    """Add the options that choose runs, in one of *statuses*."""
    return stacked(
        click.option("--status", type=click.Choice(statuses), help="Only runs with this status."),
        facet_filters("runs"),
        time_option("--since", "Ended since then, or 2h: two hours ago.", or_span=True),
        time_option("--until", "Ended before then.", or_span=True),
    )


def schedule_filters(function: F) -> F:
    """Add the options that choose schedules."""
    states = [state.value for state in ScheduleState]
    return stacked(
        click.option("--state", type=click.Choice(states), help="Only schedules in this state."),
        click.option("--kind", type=click.Choice(LISTED_KINDS), help="Only schedules of this kind."),
        facet_filters("schedules"),
    )(function)


# -- options of a schedule --------------------------------------------------------------------------


_TYPES: Final[Mapping[ValueType, Any]] = {  # of a value on a command line; default text
    ValueType.DURATION: duration,
    ValueType.TIME: instant,
    ValueType.NUMBER: int,
    ValueType.ARRAY: lambda text: _json(text, list, """array; give one such as '[42, "email"]'"""),
    ValueType.OBJECT: lambda text: _json(text, dict, """object; give one such as '{"channel": "email"}'"""),
}


def table_options(names: Container[str]) -> Callable[[F], F]:
    """Add the options of *names*, in the order of their table."""
    return stacked(*(table_option(name) for name in OPTIONS if name in names))


def table_option(name: str, help: str = "") -> Callable[[F], F]:
    """Add the option *name* of the table; *help* instead of its own."""
    option = OPTIONS[name]
    form, flag, help = option.form, f"--{flag_of(option)}", help or option.help
    more: dict[str, Any] = {"metavar": form.metavar, "type": _TYPES.get(form.value_type)}
    if form.value_type is ValueType.BOOLEAN:
        flag, more = f"{flag}/{option.off}" if option.off else flag, {"is_flag": True, "default": None}
    elif form.value_type is ValueType.WORD:
        more = {"type": click.Choice(form.words)}
    elif form.value_type is ValueType.LIST:
        more, help = {"metavar": form.metavar, "multiple": True}, f"{help.removesuffix('.')}; may be repeated."
    return click.option(flag, option.name, help=help, **more)


def flag_of(option: Option) -> str:
    """Return the flag of *option* without its dashes; in the singular if the flag is repeated per value."""
    name = option.name.removesuffix("s") if option.form.value_type is ValueType.LIST else option.name
    return name.replace("_", "-")


# -- completion ---------------------------------------------------------------------------------------


_MOST: Final = 100  # ids that are offered


def completed_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of schedules that begin with *incomplete*; none if Redis does not answer."""
    given: Any = context.find_object(Invocation)
    with suppress(ZschedError):
        client = connect((given or Invocation()).settings())
        return [schedule.id for schedule in client.list(match=f"{incomplete}*", limit=_MOST)]
    return []
