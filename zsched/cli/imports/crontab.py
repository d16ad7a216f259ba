"""``zsched import crontab``: lines of crontabs, as schedules that call one function."""

from __future__ import annotations

import os
import pwd
from typing import Any, Final

import click

from zsched.cli.functions import check_allowed, importing
from zsched.cli.imports.course import Ground, import_all
from zsched.cli.imports.options import DRY_RUN, PRUNE, TAKE_OVER, TZ, zone_of
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.values import content
from zsched.core.policy import CatchUp, Overlap
from zsched.files.reading import STDIN
from zsched.imports.crontab import read_crontab, users_of
from zsched.tasks.lookup import Lookup

_AS_CRON: Final = {"timeout": -1, "overlap": Overlap.ALLOW.value, "catch_up": CatchUp.NONE.value}  # what cron does


@click.command(cls=Subcommand)
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--func", required=True, metavar="FUNC", help="Dotted path of what runs a command.")
@click.option("--user", metavar="NAME", help="FILE is NAME's own crontab (crontab -l): its lines have no users.")
@TZ
@click.option("--queue", metavar="NAME", help='The RQ queue of all of them; default "default".')
@click.option("--timeout", metavar="TIME", help="How long a command may take; default -1: no limit, as with cron.")
@click.option(
    "--overlap",
    type=click.Choice([one.value for one in Overlap]),
    help="When the run before is not over; default allow, as with cron.",
)
@click.option(
    "--catch-up",
    type=click.Choice([one.value for one in CatchUp]),
    help="For times that were missed; default none, as with cron.",
)
@PRUNE
@DRY_RUN
@TAKE_OVER
@pass_invocation
def crontab(
    invocation: Invocation,
    /,
    files: tuple[str, ...],
    func: str,
    user: str | None,
    tz: str | None,
    prune: bool,
    dry_run: bool,
    take_over: bool,
    **given: Any,
) -> int:
    """
    Each line of the crontabs FILE becomes a schedule that calls FUNC: the command is its argument, and user,
    environment (the variables above the line) and stdin (what follows the first %, or null) are named arguments.
    docs/migration.md has a FUNC to copy. FILE is in the format of /etc/crontab and /etc/cron.d, with a user in each
    line, or with --user a user's own; - is standard input.

    Times are those of Debian's cron, also when summer time begins and ends. A --dry-run needs no Redis. cron is not
    touched: after the import take the lines out of cron, or every command runs twice. Going back: `zsched import
    undo crontab:<full path of FILE>`, and put the lines back.

    \b
    Examples:
      zsched import crontab /etc/crontab /etc/cron.d/* --func app.tasks.run_command --dry-run
      crontab -l | zsched import crontab - --user "$USER" --func app.tasks.run_command
    """
    if STDIN in files and user is None:
        raise click.UsageError("standard input is a user's crontab (crontab -l): say with --user whose")
    ground = Ground.of(invocation)
    zone_name, remarks = zone_of(tz)
    options = {**_usual_of(ground, func), **{name: value for name, value in given.items() if value is not None}}
    options["tz"] = zone_name
    _try(ground, func, options)
    sources = []
    for file in dict.fromkeys(files):
        source = read_crontab(file, content(file, "a crontab"), func, options, owner=_owner(file, user), user=user)
        unknown = sorted(name for name in users_of(source) if not _is_user(name))
        if unknown:
            who = ", ".join(unknown)
            source.remarks.append(
                f"{file}: this machine has no user {who}; if that is no user but a command, say --user"
            )
        sources.append(source)
    sources[0].remarks[:0] = remarks
    advice = "cron is as it was: take these lines out of {} now, or every command runs twice"
    return import_all(
        ground, sources, advice, prune=prune, dry_run=dry_run, take_over=take_over, needs_redis=not dry_run
    )


def _usual_of(ground: Ground, func: str) -> dict[str, Any]:
    """Return the options that make zsched act as cron, except those that FUNC, as a task, sets itself."""
    check_allowed(ground.settings, func, {})
    with importing():
        task = Lookup().find(func)
    return {name: value for name, value in _AS_CRON.items() if task is None or name not in task.options}


def _try(ground: Ground, func: str, options: dict[str, Any]) -> None:
    """Raises InvalidSchedule for what would be wrong with every line."""
    called = {"args": ["true"], "kwargs": {"user": "root", "environment": {}, "stdin": None}}
    ground.checks.define(func, {"id": "import", "cron": "0 0 * * *", **called, **options})
    for mistake in ground.checks.mistakes(func, called):
        raise mistake


def _owner(file: str, user: str | None) -> str:
    return f"crontab:{user}" if file == STDIN else f"crontab:{os.path.abspath(file)}"


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
