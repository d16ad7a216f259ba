"""``zsched backfill``: the occurrences that a schedule had in the past and did not run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from zsched.cli.history import echo_source
from zsched.cli.invocation import Invocation, pass_invocation, say
from zsched.cli.program import Subcommand
from zsched.cli.progress import Progress
from zsched.cli.values import instant
from zsched.core.backfill import Backfill
from zsched.core.sentences import local_text
from zsched.core.wording import plural
from zsched.storage.store import BACKFILLED_AT_ONCE

_MUCH: Final = 1000  # occurrences from which a bar shows how far it has come
_LISTED: Final = 50  # of a dry run, before the rest is counted; --json has all


@click.command(cls=Subcommand)
@click.argument("id")
@click.option(
    "--from",
    "start",
    type=instant,
    metavar="TIME",
    required=True,
    help="The first time that counts: local in the schedule's zone, or with an offset or Z.",
)
@click.option("--to", "end", type=instant, metavar="TIME", required=True, help="Up to, and without, this; in the past.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and push nothing.")
@click.option(
    "--again", is_flag=True, help="Also what ran already, as extra runs; not what is queued or running still."
)
@pass_invocation
def backfill(invocation: Invocation, /, id: str, start: datetime, end: datetime, dry_run: bool, again: bool) -> None:
    """
    Run what recurring schedule ID did not run in the past: a run for each of its occurrences from --from up to, and
    without, --to, the oldest first, at the back of its queue. The runs have the ids that they would have had. What was
    pushed already is left out, so the same command can be given again; whether it was, a daemon's archive knows, or
    the log in Redis as far back as it goes. If neither does, nothing is pushed (--again runs all of it).

    The occurrences are those of the rule as it is now, at most 100,000 in one call. Of a cron rule without --starts
    and --count also those before it was put; --every and --rrule begin when they were put. The next occurrence and
    what comes after it are left to the schedule, whose overlap and catch-up policies do not matter here.

    Ctrl-C stops it between two steps. With --json {"runs": [{"run_id", "nominal_at"}], "ran", "pending", …}: how many
    ran already, and how many fire by themselves.

    \b
    Examples:
      zsched backfill digest --from 2026-11-01T00:00 --to 2026-11-08T00:00 --dry-run
      zsched backfill digest --from 2026-11-01T00:00Z --to 2026-11-08T00:00Z --json | jq '.runs | length'
    """
    progress = Progress("backfilling", is_quiet=invocation.wants_json, least=_MUCH)
    try:
        with progress:
            done = invocation.client().backfill(id, start, end, dry_run=dry_run, again=again, on_progress=progress.at)
    except KeyboardInterrupt:
        say(_stopped(progress, again))
        raise
    invocation.answer(done.to_dict(), *_lines(done))
    if not invocation.wants_json:
        echo_source(invocation, done.source)


def _stopped(progress: Progress, is_again: bool) -> str:
    """Say how far it came, and how to go on."""
    if not progress.total:
        return "stopped before anything was pushed"
    more = f"or up to {BACKFILLED_AT_ONCE} more"
    come = f"stopped after {progress.done:,} of {progress.total:,} occurrences, {more}"
    if is_again:
        remedy = "give a later --from: the same command would run all of them once more"
        return f"{come}; see zsched history for the last one, and {remedy}"
    return f"{come}; the same command goes on from there"


def _lines(done: Backfill) -> Iterator[str]:
    """Yield the result, line by line, for people."""
    number, times = len(done.runs), [local_text(one.nominal_ms, done.tz) for one in done.runs]
    if done.is_dry_run:
        for at, one in zip(times[:_LISTED], done.runs, strict=False):
            yield f"{at}  {one.run_id or 'an extra run'}"
        if number > _LISTED:
            yield f"… and {number - _LISTED:,} more, up to {times[-1]}"
    which = f", {times[0]} to {times[-1]}" if number > 1 else f", {times[0]}" if number else ""
    verb = "would be pushed" if done.is_dry_run else "pushed"
    ran = f"; {done.ran:,} ran already, or are open" if done.ran else ""
    pending = f"; {done.pending:,} to be fired by the schedule itself" if done.pending else ""
    yield f"{done.schedule_id}: {plural(number, 'run')} {verb}{which}{ran}{pending}"
