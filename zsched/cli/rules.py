"""``zsched next``: what a rule will do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import click

from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import lines
from zsched.cli.times import iso_text, utc_text
from zsched.cli.values import duration, instant
from zsched.client import Client
from zsched.core.arguments import instant_ms
from zsched.core.clock import from_ms, to_ms
from zsched.core.model import Schedule
from zsched.core.preview import nominal_of
from zsched.core.triggers import KINDS, RULES, zone

F = TypeVar("F", bound=Callable[..., Any])


def _rules(command: F) -> F:
    """Add an option for each kind of rule."""
    for kind in reversed(KINDS):
        help = f"A rule instead of a schedule. {kind.help}"
        value = duration if kind.is_duration else str
        command = click.option(f"--{kind.name}", type=value, metavar=kind.metavar, help=help)(command)
    return command


@click.command("next", cls=Subcommand)
@click.argument("id", required=False)
@_rules
@click.option("--tz", metavar="ZONE", help="The rule's zone, and that of --from; default UTC, or the schedule's own.")
@click.option(
    "-n", "--number", type=click.IntRange(1, 100_000), default=10, show_default=True, metavar="K", help="How many."
)
@click.option(
    "--from",
    "start",
    type=instant,
    metavar="TIME",
    help="Later than this: local in --tz, or with an offset or Z; default now.",
)
@pass_invocation
def next_(invocation: Invocation, /, id: str | None, number: int, start: datetime | None, **given: Any) -> None:
    """
    Show the next times of schedule ID, or of a rule. A rule needs no Redis; --every counts from --from.

    With --json an array of {"utc", "local"}, in order; of a schedule with jitter each also has its "nominal" time in
    UTC, and "utc" and "local" are when it is due.

    \b
    Examples:
      zsched next digest -n 3
      zsched next --cron '30 2 * * *' --tz America/New_York --from 2026-03-07T00:00 -n 3
    """
    rule = {name: value for name, value in given.items() if value is not None}
    if (id is not None) == any(name in rule for name in RULES):
        raise click.UsageError(f"give either a schedule's ID or one of {', '.join(f'--{name}' for name in RULES)}")
    found: list[tuple[datetime, datetime | None]]  # when it is due; its nominal time, if it has jitter
    if id is None:
        # A rule is computed here: the Redis of this client is never asked, and its settings don't matter.
        found = [(at, None) for at in Client.from_url("redis://localhost").preview(n=number, start=start, **rule)]
    else:
        found = list(_of_schedule(invocation.client(), id, number, start, rule.get("tz")))
    if invocation.wants_json:
        echo_array(_told(at, nominal) for at, nominal in found)
        return
    header = ("LOCAL", "UTC", "NOMINAL") if any(nominal for _, nominal in found) else ("LOCAL", "UTC")
    for line in lines(header, (_row(at, nominal) for at, nominal in found)):
        click.echo(line)


def _of_schedule(
    client: Client, id: str, number: int, start: datetime | None, tz: str | None
) -> Iterator[tuple[datetime, datetime | None]]:
    """
    Yield the due times of schedule *id*, in its own zone or in *tz*, and the nominal times if it has jitter; a local
    *start* is read in the same zone.
    """
    schedule = client.get(id)
    place = zone(tz or schedule.tz)
    after = None if start is None else from_ms(instant_ms("from", start, place.key))
    for at in client.preview(id, n=number, start=after):
        yield at.astimezone(place), _nominal(schedule, at).astimezone(place) if schedule.jitter_ms else None


def _nominal(schedule: Schedule, due: datetime) -> datetime:
    """The time of which *due* is the jittered one."""
    due_ms = to_ms(due)
    if schedule.trigger is None:
        return from_ms(due_ms if schedule.nominal_ms is None else schedule.nominal_ms)
    return from_ms(nominal_of(schedule.trigger, schedule.anchor_ms or 0, due_ms))


def _told(at: datetime, nominal: datetime | None) -> dict[str, str]:
    told = {"utc": utc_text(at), "local": iso_text(at)}
    return told if nominal is None else told | {"nominal": utc_text(nominal)}


def _row(at: datetime, nominal: datetime | None) -> tuple[str, ...]:
    texts = (iso_text(at), utc_text(at)) if nominal is None else (iso_text(at), utc_text(at), iso_text(nominal))
    return tuple(text.replace("T", " ") for text in texts)
