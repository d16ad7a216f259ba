"""``zsched import``: what other schedulers have, and the way back."""

from __future__ import annotations

import click

from zsched.cli.exits import DONE, USAGE
from zsched.cli.imports.crontab import crontab
from zsched.cli.imports.rq_cron import rq_cron
from zsched.cli.imports.rq_scheduled import rq_scheduled
from zsched.cli.imports.rq_scheduler import rq_scheduler
from zsched.cli.imports.undo import undo_
from zsched.cli.program import Subcommand


@click.group(
    "import",
    params=Subcommand(None).params,  # the shared options: a group takes them too
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.pass_context
def import_(ctx: click.Context) -> int:
    """
    Move in: take over what cron, rq-scheduler, RQ's cron or RQ's enqueue_at has. docs/migration.md has the steps.

    Each command may be repeated: what did not change is unchanged. What cannot be imported is listed with its place
    and the reason, the rest is imported, and the exit code is 1. `zsched import undo` takes an import back.

    \b
    Examples:
      zsched import crontab /etc/cron.d/backup --func app.tasks.run_command --dry-run
      zsched import rq-scheduler
    """
    if ctx.invoked_subcommand is not None:
        return DONE
    click.echo(ctx.get_help(), err=True)
    return USAGE


for _command in (crontab, rq_scheduler, rq_cron, rq_scheduled, undo_):
    import_.add_command(_command)
