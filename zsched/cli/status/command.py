"""The command ``zsched status``."""

from __future__ import annotations

import signal
import sys
from typing import Final

import click

from zsched.cli.exits import DONE, UNHEALTHY
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.status.lines import status_lines
from zsched.cli.status.screen import watch
from zsched.cli.status.view import looking
from zsched.core.arguments import zone_name
from zsched.health.verdict import NAMES

_EVERY_S = 2.0  # between two looks


_HELP: Final = f"""
    Show whether all is well, and if not, what is wrong and what to do; then the daemons (who leads, who stands by,
    host, version, time zone rules), what waits and how late it is, what happened in the last 1, 5 and 30 minutes, the
    next 10 fires, the latest runs that failed, were lost or expired, and how far the archives are.

    Exit code 4 when nobody leads, something is overdue by more than 10 seconds, jobs wait for more than 5 minutes in a
    queue of ours that no worker listens to, or as workers are suspended, no archive follows the log, one has failed, or
    has what Redis lost (then it says whether that is being put back, or `zsched recover` is awaited), or the last audit
    found what it could not put right. Warnings leave it 0: Redis was rebuilt within half an hour, a tenth of the latest
    runs failed, some expired or were missed, nobody stands by, a queue of ours has no worker, workers are suspended,
    this user may not ask for them, quarantine, daemons of different versions or time zone rules. It reads Redis alone
    and writes nothing.

    With --json "problems" are texts, "alarms" the same with a name and a remedy, "warnings" like alarms. The names:
    {", ".join(NAMES)}. docs/operations.md has the other keys.

    \b
    Examples:
      zsched status --watch --tz Asia/Seoul
      zsched status --json | jq .problems
      zsched status --json | jq -r '.daemons[] | .role + " " + .host'
"""


@click.command(cls=Subcommand, help=_HELP)
@click.option("--watch", "is_watched", is_flag=True, help="Live on this terminal, until Ctrl-C; needs zsched[ops].")
@click.option(
    "--every", type=click.FloatRange(0.2, 3600), metavar="SECONDS", help=f"With --watch; default {_EVERY_S:g}."
)
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
@pass_invocation
def status(invocation: Invocation, /, is_watched: bool, every: float | None, tz: str) -> int:
    """Show whether all is well."""
    zone_name(tz)
    if is_watched:
        _check_watched(invocation)
    elif every is not None:
        raise click.UsageError("--every is how often --watch looks; give both, or neither")
    look = looking(invocation.settings())
    if is_watched:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the terminal is given back then, too
        watch(lambda: status_lines(look(), tz), every or _EVERY_S)
        return DONE
    view = look()
    if invocation.wants_json:
        invocation.answer(view.to_dict())
    else:
        invocation.answer(None, *(line.text for line in status_lines(view, tz)))
    return DONE if view.verdict.is_healthy else UNHEALTHY


def _check_watched(invocation: Invocation) -> None:
    """Raises UsageError where nobody could watch."""
    if invocation.wants_json:
        raise click.UsageError("--watch is for people, and --json is not; leave one of them out")
    if not sys.stdout.isatty():
        raise click.UsageError("--watch shows a live screen, and stdout is no terminal; leave --watch out")
