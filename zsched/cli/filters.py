"""Options that several commands have: filters of schedules, occurrences and runs; and the options of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, TypeVar

import click

from zsched.cli.values import duration, instant, json_array, json_object, moment
from zsched.core.listing import LISTED_KINDS
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import Option, ValueType
from zsched.core.options.table import OPTIONS

F = TypeVar("F", bound=Callable[..., Any])


def stacked(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* to a command, in their order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


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
        click.option("--since", type=moment, metavar="TIME|DURATION", help="Ended since then, or 2h: two hours ago."),
        click.option("--until", type=moment, metavar="TIME|DURATION", help="Ended before then."),
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
    ValueType.ARRAY: json_array,
    ValueType.OBJECT: json_object,
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
