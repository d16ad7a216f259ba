"""``zsched import``: what other schedulers have, and the way back."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from zsched.cli.exits import DONE, FAILED, USAGE
from zsched.cli.functions import check_allowed, importing
from zsched.cli.imports.course import Ground, import_all
from zsched.cli.imports.telling import tell_undone
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.progress import Progress
from zsched.cli.texts import plural
from zsched.core.policy import CatchUp, Overlap
from zsched.core.triggers import zone
from zsched.errors import ConfigError, InvalidSchedule, ZschedError
from zsched.files.reading import STDIN
from zsched.imports import rqcron, rqscheduled, rqscheduler
from zsched.imports.crontab import read_crontab, users_of
from zsched.imports.machine import machine_zone
from zsched.imports.undoing import owned, undo
from zsched.tasks.lookup import Lookup

_AS_CRON: Final = {"timeout": -1, "overlap": Overlap.ALLOW.value, "catch_up": CatchUp.NONE.value}  # what cron does
_OWNERS: Final = ("crontab:", "rq-cron:")
_SHOWN: Final = 10  # names in a message

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Tell what would be done; write nothing.")
_PRUNE: Final = click.option("--prune", is_flag=True, help="Remove what an earlier import put and is gone there.")
_TAKE_OVER: Final = click.option("--take-over", is_flag=True, help="Schedules of these ids that others own become its.")
_TZ: Final = click.option("--tz", metavar="ZONE", help="The zone of its times; default: that of this machine.")


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


@import_.command(cls=Subcommand)
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--func", required=True, metavar="FUNC", help="Dotted path of what runs a command.")
@click.option("--user", metavar="NAME", help="FILE is NAME's own crontab (crontab -l): its lines have no users.")
@_TZ
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
@_PRUNE
@_DRY_RUN
@_TAKE_OVER
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
    zone_name, remarks = _zone(tz)
    options = {**_usual_of(ground, func), **{name: value for name, value in given.items() if value is not None}}
    options["tz"] = zone_name
    _try(ground, func, options)
    sources = []
    for file in dict.fromkeys(files):
        source = read_crontab(file, _content(file), func, options, owner=_owner(file, user), user=user)
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


@import_.command("rq-scheduler", cls=Subcommand)
@_TZ
@_PRUNE
@_DRY_RUN
@_TAKE_OVER
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
    others = rqscheduler.running(link)
    zone_name, remarks = _zone(tz)
    if others and not dry_run:
        raise ZschedError(_running("an rq-scheduler", others, "it lapses up to 70 s after one was killed"))
    with importing():
        source = rqscheduler.read_rq_scheduler(link, ground.jobs, zone_name)
    if any("cron" in item.options for item in source.items):
        source.remarks += remarks
    if others:
        source.remarks.append(_running("an rq-scheduler", others, "a real import refuses"))
    advice = "what recurs is still in {}: do not start rq-scheduler on this Redis again, or it runs twice"
    return import_all(ground, [source], advice, prune=prune, dry_run=dry_run, take_over=take_over)


@import_.command("rq-cron", cls=Subcommand)
@click.argument("module")
@_PRUNE
@_DRY_RUN
@_TAKE_OVER
@pass_invocation
def rq_cron(invocation: Invocation, /, module: str, prune: bool, dry_run: bool, take_over: bool) -> int:
    """
    What MODULE registers for RQ's own cron: the argument of `rq cron`, such as app.cron_config. MODULE is imported;
    nothing in it changes. Ids are the registered names. Cron strings are in UTC, as RQ's are. Stop `rq cron` first:
    while one of this MODULE runs nothing is imported. Going back: `zsched import undo rq-cron:MODULE`, then start it.

    \b
    Example:
      zsched import rq-cron app.cron_config --dry-run
    """
    ground = Ground.of(invocation)
    others = rqcron.running(ground.link, module, ground.now_ms())
    if others and not dry_run:
        raise ZschedError(_running(f"`rq cron {module}`", others, "it lapses 2 minutes after one was killed"))
    with importing():
        source = rqcron.read_rq_cron(module)
    if others:
        source.remarks.append(_running(f"`rq cron {module}`", others, "a real import refuses"))
    advice = "the module is as it was: do not start `rq cron {}` again, or every job runs twice"
    return import_all(ground, [source], advice, prune=prune, dry_run=dry_run, take_over=take_over)


@import_.command("rq-scheduled", cls=Subcommand)
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="Only of this queue; may be repeated.")
@_DRY_RUN
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
        source = rqscheduled.read_rq_scheduled(ground.link, ground.jobs, ground.now_ms(), queues)
    return import_all(ground, [source], "", prune=False, dry_run=dry_run, take_over=False)


@import_.command("undo", cls=Subcommand)
@click.argument("owner")
@_DRY_RUN
@pass_invocation
def undo_(invocation: Invocation, /, owner: str, dry_run: bool) -> int:
    """
    Take an import back: OWNER is what it told as the owner, such as crontab:/etc/cron.d/backup, rq-cron:app.cron,
    rq-scheduler or rq-scheduled. Its schedules are cancelled; what was moved waits where it was. What fires within
    30 s, and what cannot be given back, stays and is told, and the exit code is 1.

    \b
    Example:
      zsched import undo rq-scheduler --dry-run
    """
    if owner not in (rqscheduler.OWNER, rqscheduled.OWNER) and not owner.startswith(_OWNERS):
        names = f"{rqscheduler.OWNER}, {rqscheduled.OWNER}, {'…, '.join(_OWNERS)}…"
        raise InvalidSchedule("owner", owner, "no import has such an owner", f"give one of {names}")
    ground = Ground.of(invocation)
    if dry_run:
        ids = [schedule.id for schedule in owned(ground.client, owner)]
        invocation.answer(
            {"owner": owner, "dry_run": True, "ids": ids}, *ids, f"{plural(len(ids), 'schedule')} to undo"
        )
        return DONE
    with Progress("undoing", is_quiet=invocation.wants_json) as progress:
        undone = undo(ground.client, ground.link, owner, ground.now_ms, progress.at)
    tell_undone(invocation, owner, undone)
    return FAILED if undone.kept else DONE


# -- how ------------------------------------------------------------------------------------------------


def _zone(tz: str | None) -> tuple[str, list[str]]:
    """The zone's name, and what is to be said of where it comes from. Raises InvalidSchedule."""
    if tz is not None:
        return zone(tz).key, []
    found = machine_zone()
    return found.name, [f"times are of the zone {found.name}, by {found.found_in}; --tz gives another"]


def _usual_of(ground: Ground, func: str) -> dict[str, Any]:
    """What cron does, but for options that FUNC has of its own, being a task."""
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


def _content(file: str) -> bytes:
    """The bytes of *file*, or of standard input. Raises ConfigError."""
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{file}: {reason}; give a crontab, or - for standard input") from error


def _owner(file: str, user: str | None) -> str:
    return f"crontab:{user}" if file == STDIN else f"crontab:{os.path.abspath(file)}"


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _running(what: str, names: Sequence[str], aside: str) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{what} runs on this Redis ({shown}; {aside}): every job would run twice; stop it first"
