"""``zsched import rq-scheduler``: the jobs of that package, while none runs."""

from __future__ import annotations

import click

from zsched.cli.functions import importing
from zsched.cli.imports.course import Ground, import_all
from zsched.cli.imports.options import DRY_RUN, PRUNE, TAKE_OVER, TZ, running, zone_of
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.errors import ZschedError
from zsched.imports.rqscheduler import read_rq_scheduler
from zsched.storage.rivals import rq_schedulers


@click.command("rq-scheduler", cls=Subcommand)
@TZ
@PRUNE
@DRY_RUN
@TAKE_OVER
@pass_invocation
def rq_scheduler(invocation: Invocation, /, tz: str | None, prune: bool, dry_run: bool, take_over: bool) -> int:
    """
    The jobs of the package rq-scheduler on this Redis, with their ids. What recurs is copied and stays there; what
    runs once is moved: put here, then taken out of its set. So stop rq-scheduler first, and leave it stopped: while one
    runs nothing is imported. Its cron strings are of the zone of the machine where it ran: see --tz.

    With the serializer pickle this opens the jobs' arguments; run it where the workers' code can be imported. Going
    back: `zsched import undo rq-scheduler` gives back what has not fired; then start rq-scheduler.

    \b
    Examples:
      zsched import rq-scheduler --dry-run
      zsched import rq-scheduler --tz Europe/Berlin
    """
    ground = Ground.of(invocation)
    link = ground.link
    with link.wire() as wire:
        others = rq_schedulers(wire).names
    zone_name, remarks = zone_of(tz)
    if others and not dry_run:
        raise ZschedError(
            running("an rq-scheduler", others, "one that was killed lapses after its --interval and 10 s")
        )
    with importing():
        source = read_rq_scheduler(link, ground.jobs, zone_name)
    if any("cron" in item.options for item in source.items):
        source.remarks += remarks
    if others:
        source.remarks.append(running("an rq-scheduler", others, "a real import refuses"))
    advice = "what recurs is still in {}: do not start rq-scheduler on this Redis again, or it runs twice"
    return import_all(ground, [source], advice, prune=prune, dry_run=dry_run, take_over=take_over)
