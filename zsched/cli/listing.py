"""``zsched ls`` and ``zsched show``: what is scheduled."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

import click

from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import lines, pairs, shortened
from zsched.cli.times import due_text, local_text, relative_text
from zsched.cli.values import duration_text, instant
from zsched.core.arguments import instant_ms
from zsched.core.clock import SystemClock, from_ms
from zsched.core.model import Schedule, ScheduleState
from zsched.core.triggers import TriggerKind

PAGE: Final = 50  # schedules shown on a terminal unless --limit says otherwise
_TRIGGER_WIDTH: Final = 44  # characters
_HEADER: Final = ("ID", "STATE", "NEXT", "", "TRIGGER", "FUNC", "QUEUE", "PRIORITY")
_INSTANTS: Final = ("next_at", "anchor_at", "nominal_at", "created_at", "since")


@click.command(cls=Subcommand)
@click.option("--state", type=click.Choice([state.value for state in ScheduleState]))
@click.option("--kind", type=click.Choice(["once", *(kind.value for kind in TriggerKind)]))
@click.option("--func", metavar="FUNC", help="Those that run this dotted path.")
@click.option("--queue", metavar="NAME")
@click.option("--tag", metavar="TEXT")
@click.option("--match", metavar="GLOB", help="Ids like this: 'reminder-*'.")
@click.option(
    "--due-after", type=instant, metavar="TIME", help="Due later than this; local in --tz, or with an offset or Z."
)
@click.option("--due-before", type=instant, metavar="TIME", help="Due earlier than this.")
@click.option("--tz", metavar="ZONE", help="Read and show times in this zone instead of each schedule's own.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help=f"At most so many; on a terminal {PAGE} unless given."
)
@click.option("--after", metavar="CURSOR", help="Go on behind the last schedule of an earlier listing.")
@pass_invocation
def ls(invocation: Invocation, /, tz: str | None, limit: int | None, **filters: Any) -> None:
    """
    List schedules: active ones by due time, then paused, quarantined and ended ones by id.

    With --json one array, an element a line; each has the keys of `zsched show --json` and its "cursor".

    \b
    Examples:
      zsched ls --queue email --due-before 2026-12-25T00:00 --tz Asia/Seoul
      zsched ls --state paused --json | jq -r '.[].id'
    """
    for name in ("due_after", "due_before"):
        filters[name] = _bound(name, filters[name], tz)
    if limit is None and sys.stdout.isatty() and not invocation.wants_json:
        limit = PAGE
    found = invocation.client().list(limit=None if limit is None else limit + 1, **filters)
    if invocation.wants_json:
        echo_array({**one.to_dict(), "cursor": one.cursor} for one in islice(found, limit))
        return
    shown = found if limit is None else list(islice(found, limit))
    now_ms = SystemClock().now_ms()
    for line in lines(_HEADER, (_row(one, tz, now_ms) for one in shown)):
        click.echo(line)
    if isinstance(shown, list) and next(found, None) is not None:
        click.echo(f"there are more: zsched ls … --after {shown[-1].cursor}", err=True)


@click.command(cls=Subcommand)
@click.argument("id")
@pass_invocation
def show(invocation: Invocation, /, id: str) -> None:
    """
    Show everything that is known of schedule ID. Arguments are shown where the serializer is json: to open a
    pickle is to run it.

    \b
    Example:
      zsched show reminder-42 --json
    """
    schedule = invocation.client().get(id)
    invocation.answer(schedule.to_dict(), *pairs(_fields(schedule)))


def trigger_text(schedule: Schedule) -> str:
    """The rule in one line: ``every 5m``, ``cron 0 9 * * 1-5``, ``once``."""
    spec = schedule.trigger
    if spec is None:
        return schedule.kind
    return f"{spec.kind.value} {duration_text(int(spec.expr)) if spec.kind is TriggerKind.EVERY else spec.expr}"


def _row(one: Schedule, tz: str | None, now_ms: int) -> tuple[str, ...]:
    due_ms = one.next_ms
    return (
        one.id,
        one.state.value,
        "-" if due_ms is None else local_text(due_ms, tz or one.tz),
        "" if due_ms is None else relative_text(due_ms, now_ms),
        shortened(trigger_text(one), _TRIGGER_WIDTH),
        one.func,
        one.queue,
        one.priority.value,
    )


def _fields(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Names and texts for people, of what is set."""
    for name, value in schedule.to_dict().items():
        if name in _INSTANTS:
            ms = getattr(schedule, "since_ms" if name == "since" else name.replace("_at", "_ms"))
            if ms is not None:
                yield name, due_text(ms, schedule.tz)
        elif name == "trigger" and value is not None:
            yield name, trigger_text(schedule)
            yield from (
                (f"  {part}", str(text))
                for part, text in value.items()
                if text is not None and part not in ("kind", "expr")
            )
        elif value not in (None, [], {}, False):
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bound(name: str, given: datetime | None, tz: str | None) -> datetime | None:
    return None if given is None else from_ms(instant_ms(name, given, tz))
