"""``zsched import rq-cron``: what a module registers for RQ's own cron, while none runs."""

from __future__ import annotations

import click

from zsched.cli.functions import importing
from zsched.cli.imports.course import Ground, import_all
from zsched.cli.imports.options import DRY_RUN, PRUNE, TAKE_OVER, running
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.errors import ZschedError
from zsched.imports.rqcron import read_rq_cron
from zsched.storage.rivals import crons


@click.command("rq-cron", cls=Subcommand)
@click.argument("module")
@PRUNE
@DRY_RUN
@TAKE_OVER
@pass_invocation
def rq_cron(invocation: Invocation, /, module: str, prune: bool, dry_run: bool, take_over: bool) -> int:
    """
    Import what MODULE registers for RQ's own cron: the argument of `rq cron`, such as app.cron_config. MODULE is
    imported; nothing in it changes. Ids are the registered names. Cron strings are in UTC, as RQ's are. Stop `rq cron`
    first: while one of this MODULE runs nothing is imported. Going back: `zsched import undo rq-cron:MODULE`, then
    start it.

    \b
    Example:
      zsched import rq-cron app.cron_config --dry-run
    """
    ground = Ground.of(invocation)
    now_ms = ground.now_ms()
    with ground.link.wire() as wire:
        others = [one.name for one in crons(wire, ground.jobs.rq, now_ms) if one.is_of(module)]
    if others and not dry_run:
        raise ZschedError(running(f"`rq cron {module}`", others, "one that was killed lapses after 2 minutes"))
    with importing():
        source = read_rq_cron(module)
    if others:
        source.remarks.append(running(f"`rq cron {module}`", others, "a real import refuses"))
    advice = "the module is as it was: do not start `rq cron {}` again, or every job runs twice"
    return import_all(ground, [source], advice, prune=prune, dry_run=dry_run, take_over=take_over)
