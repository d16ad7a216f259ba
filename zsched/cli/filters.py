"""Options that choose schedules, occurrences or runs, for all commands that list or change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zsched.cli.values import moment
from zsched.core.listing import LISTED_KINDS
from zsched.core.options.choices import ScheduleState

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
