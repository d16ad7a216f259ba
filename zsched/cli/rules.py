"""``zsched next``: what a rule will do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import click

from zsched.cli.invocation import Invocation, echo_array, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import lines
from zsched.cli.values import duration, instant
from zsched.client import Client
from zsched.core.arguments import instant_ms
from zsched.core.clock import from_ms
from zsched.core.triggers import zone

_RULES: Final = ("every", "cron", "rrule")


@click.command("next", cls=Subcommand)
@click.argument("id", required=False)
@click.option("--cron", metavar="EXPR", help="A rule instead of a schedule: five fields, or six with seconds first.")
@click.option("--rrule", metavar="RULE", help="A rule instead of a schedule: RFC 5545.")
@click.option(
    "--every", type=duration, metavar="DURATION", help="A rule instead of a schedule: this far apart, from --from on."
)
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
    Show the next times of schedule ID, or of a rule. A rule needs no Redis.

    With --json an array of {"utc", "local"}, in order.

    \b
    Examples:
      zsched next digest -n 3
      zsched next --cron '30 2 * * *' --tz America/New_York --from 2026-03-07T00:00 -n 3
    """
    rule = {name: value for name, value in given.items() if value is not None}
    if (id is not None) == any(name in rule for name in _RULES):
        raise click.UsageError("give either a schedule's ID or one of --cron, --rrule, --every")
    if id is None:
        # A rule is computed here: the Redis of this client is never asked, and its settings don't matter.
        found = list(Client.from_url("redis://localhost").preview(n=number, start=start, **rule))
    else:
        found = _of_schedule(invocation.client(), id, number, start, rule.get("tz"))
    shown = [(_text(at), _text(at.astimezone(UTC))) for at in found]
    if invocation.wants_json:
        echo_array({"utc": utc.replace("+00:00", "Z"), "local": local} for local, utc in shown)
        return
    for line in lines(("LOCAL", "UTC"), _readable(shown)):
        click.echo(line)


def _of_schedule(client: Client, id: str, number: int, start: datetime | None, tz: str | None) -> list[datetime]:
    """The next times of schedule *id*, in its own zone or in *tz*; a local *start* is read in the same one."""
    chosen = tz or client.get(id).tz
    after = None if start is None else from_ms(instant_ms("from", start, chosen))
    return [at.astimezone(zone(chosen)) for at in client.preview(id, n=number, start=after)]


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def _readable(shown: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((local.replace("T", " "), utc.replace("T", " ").replace("+00:00", "Z")) for local, utc in shown)
