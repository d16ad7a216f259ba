"""``zsched ls`` and ``zsched show``: what is scheduled."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

import click

from zsched.cli.history import echo_source
from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.runs import table
from zsched.cli.tables import lines, pairs
from zsched.cli.times import due_text, iso_text, local_text, utc_text
from zsched.cli.values import instant
from zsched.client import Client
from zsched.core.arguments import instant_ms
from zsched.core.checked_options import POLICIES
from zsched.core.clock import SystemClock, from_ms, to_ms
from zsched.core.forms import Duration
from zsched.core.listing import LISTED_KINDS
from zsched.core.model import Schedule, ScheduleState
from zsched.core.option_table import OPTIONS
from zsched.core.policy import USUAL
from zsched.core.sentences import shortened
from zsched.core.wording import duration_text, relative_text
from zsched.errors import ScheduleNotFound

_FEW: Final = 5  # next times, and last runs, that are shown of a schedule
PAGE: Final = 50  # schedules shown on a terminal unless --limit says otherwise
_TRIGGER_WIDTH: Final = 44  # characters
_HEADER: Final = ("ID", "STATE", "NEXT", "", "TRIGGER", "FUNC", "QUEUE", "PRIORITY")
_INSTANTS: Final = ("next_at", "anchor_at", "nominal_at", "created_at", "since")
# As the command line takes them.
_DURATIONS: Final = [option.shown for option in OPTIONS.values() if isinstance(option.form, Duration)]


@click.command(cls=Subcommand)
@click.option("--state", type=click.Choice([state.value for state in ScheduleState]))
@click.option("--kind", type=click.Choice(LISTED_KINDS))
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

    With --json one array, an element a line; each has the keys of `zsched show --json` but "next", "runs" and
    "source", and its "cursor".

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
    Show everything that is known of schedule ID, its next 5 times and its last 5 runs. Arguments are shown where the
    serializer is json: to open a pickle is to run it.

    The runs come from a daemon's archive, and from RQ those that are not over; when no archive answers, from what
    Redis still holds, as stderr says (with --json: "source"). A paused schedule has no next times.

    \b
    Example:
      zsched show reminder-42 --json
      zsched show digest --json | jq -r '.runs[].status'
    """
    client = invocation.client()
    schedule = client.get(id)
    times, runs = _next_times(client, schedule), client.runs(id, limit=_FEW)
    value = schedule.to_dict() | {
        "next": [{"utc": utc_text(at), "local": iso_text(at)} for at in times],
        "runs": [run.to_dict() for run in runs],
        "source": runs.source.to_dict(),
    }
    told = [*pairs(_fields(schedule)), "", "next times:", *(f"  {due_text(to_ms(at), schedule.tz)}" for at in times)]
    told += [] if times else ["  none"]
    told += ["", "last runs:", *(f"  {line}" for line in table(runs, schedule.tz))] if runs else ["", "no run yet"]
    invocation.answer(value, *told)
    if runs.source.archive is None and not invocation.wants_json:
        echo_source(invocation, runs.source)


def _next_times(client: Client, schedule: Schedule) -> Sequence[datetime]:
    """Return the next times, in its zone: overdue ones too, and none while it is paused, quarantined or ended."""
    first_ms = schedule.next_ms if schedule.nominal_ms is None else schedule.nominal_ms
    if schedule.state is not ScheduleState.ACTIVE or first_ms is None:
        return []
    try:
        return client.preview(schedule.id, n=_FEW, start=from_ms(max(first_ms - 1, 0)))
    except ScheduleNotFound:  # it fired a moment ago
        return []


def trigger_text(schedule: Schedule) -> str:
    """The rule in one line: ``every 5m``, ``cron 0 9 * * 1-5``, ``once``."""
    spec = schedule.trigger
    if spec is None:
        return schedule.kind
    return f"{spec.kind.name} {spec.kind.describe(spec.expr)}"


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
    """Names and texts for people, of what is set; of policies, of what differs from the defaults."""
    usual = replace(schedule, policy=USUAL).to_dict()
    for name, value in schedule.to_dict().items():
        if name in POLICIES and value == usual[name]:
            continue
        if name in _DURATIONS and (value or name in POLICIES):
            yield name.removesuffix("_s"), duration_text(round(value * 1000))
        elif name in _INSTANTS:
            ms = getattr(schedule, "since_ms" if name == "since" else name.replace("_at", "_ms"))
            if ms is not None:
                yield name, due_text(ms, schedule.tz)
        elif name == "trigger" and value is not None:
            yield name, trigger_text(schedule)
            yield from (
                (f"  {part}", str(text))
                for part, text in value.items()
                if text is not None and part not in ("kind", "expr", "jitter_s")
            )
        elif value not in (None, [], {}, False):
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bound(name: str, given: datetime | None, tz: str | None) -> datetime | None:
    return None if given is None else from_ms(instant_ms(name, given, tz))
