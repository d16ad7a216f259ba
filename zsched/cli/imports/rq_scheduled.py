"""``zsched import rq-scheduled``: RQ's own delayed jobs, moved."""

from __future__ import annotations

import click

from zsched.cli.functions import importing
from zsched.cli.imports.course import Ground, import_all
from zsched.cli.imports.options import DRY_RUN
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.imports.rqscheduled import read_rq_scheduled


@click.command("rq-scheduled", cls=Subcommand)
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="Only of this queue; may be repeated.")
@DRY_RUN
@pass_invocation
def rq_scheduled(invocation: Invocation, /, queues: tuple[str, ...], dry_run: bool) -> int:
    """
    RQ's own delayed jobs, of enqueue_at and enqueue_in, with their ids. Each is moved: put here, then taken out of
    rq:scheduled:<queue>, so RQ's scheduler may run beside. The run gets a job id of its own; RQ's job of the old id
    stays as scheduled until a week after its time. A daemon pushes such jobs at their time without this, too: to
    import them is for those that are to have a history, `zsched why`, and recovery when Redis is lost.

    Left where it is: what is due within 30 s, and runs that wait for another attempt. Going back: `zsched import
    undo rq-scheduled` gives back what has not fired.

    \b
    Example:
      zsched import rq-scheduled --queue email --dry-run
    """
    ground = Ground.of(invocation)
    with importing():
        source = read_rq_scheduled(ground.link, ground.jobs, ground.now_ms(), queues)
    return import_all(ground, [source], "", prune=False, dry_run=dry_run, take_over=False)
