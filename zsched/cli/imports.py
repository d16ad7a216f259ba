"""``zsched import``: take over the schedules of other schedulers, a command per source, and undo it."""

import os
import pwd
from collections.abc import Sequence
from typing import Any, Final

import click

from zsched.cli.functions import importing
from zsched.cli.import_steps import ImportContext, import_all, tell_undone
from zsched.cli.output import Progress, say
from zsched.cli.parameters import content, stacked, table_option
from zsched.cli.program import DONE, FAILED, Invocation, command, group
from zsched.core.options.choices import CatchUp, Overlap
from zsched.core.triggers.zones import zone
from zsched.core.wording import plural, some
from zsched.errors import InvalidSchedule, ZschedError
from zsched.files.reading import STDIN
from zsched.imports.crontab import read_crontab, users_of
from zsched.imports.found import ImportSource, local_zone
from zsched.imports.moving import OWNERS, is_owner, owners, undo
from zsched.imports.rqcron import owner_of, read_rq_cron
from zsched.imports.rqjobs import read_rq_scheduled, read_rq_scheduler
from zsched.storage.rivals import CRON_OWNER, RQ_SCHEDULED_OWNER, RQ_SCHEDULER_OWNER, crons, rq_schedulers
from zsched.storage.rqversion import HERE, IS_CRON_LOCAL
from zsched.tasks.lookup import Lookup

_SHOWN: Final = 10  # names in a message

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
_PRUNE: Final = click.option("--prune", is_flag=True, help="Remove imported schedules that the source no longer has.")
_TAKE_OVER: Final = click.option("--take-over", is_flag=True, help="Take over schedules of these ids of another owner.")
_TZ: Final = click.option("--tz", metavar="ZONE", help="The source's zone; default: that of TZ, else this machine's.")

_how = stacked(_PRUNE, _DRY_RUN, _TAKE_OVER)  # what is passed to ``import_all`` unchanged


def _zone_of(tz: str | None, *, is_utc: bool = False) -> tuple[str, list[str]]:
    """
    Return the zone's name and a remark on where it comes from. *is_utc*: the source is ``rq cron`` before RQ 3, which
    reads cron strings in UTC. Raises InvalidSchedule.
    """
    if tz is not None:
        return zone(tz).key, []
    if is_utc:
        return "UTC", [f"times are in UTC, by RQ {HERE} of this machine; --tz gives another zone"]
    name, place = local_zone()
    return name, [f"times are of the zone {name}, by {place}; --tz gives another"]


def _about_running(what: str, names: Sequence[str], note: str, *, is_dry: bool) -> list[str]:
    """
    Return the remark that *what* runs, under *names*; none if it does not. It must be stopped before its schedules are
    imported. *note*: about a killed one.

    Raises:
        ZschedError: it runs, and this is not a dry run.
    """
    if not names:
        return []
    note = "a real import refuses" if is_dry else note
    running = f"{what} runs on this Redis ({some(names, _SHOWN)}; {note}): every job would run twice; stop it first"
    if not is_dry:
        raise ZschedError(running)
    return [running]


def _about_zone(source: ImportSource, remarks: list[str]) -> list[str]:
    """Return *remarks* on the zone if a schedule of *source* depends on it."""
    return remarks if any("cron" in item.options for item in source.items) else []


@group("import")
def import_() -> None:
    """
    Take over schedules from cron, rq-scheduler, RQ's cron or RQ's enqueue_at; docs/how-to/move-in.md has the steps.
    Each command may be repeated. A line or job that cannot be imported is listed with the reason (exit code 1); the
    rest is imported.

    \b
    Examples:
      zsched import crontab /etc/cron.d/backup --func app.tasks.run_command --dry-run
      zsched import rq-scheduler
    """


# -- crontab ----------------------------------------------------------------------------------------


_AS_CRON: Final = {"timeout": -1, "overlap": Overlap.ALLOW.value, "catch_up": CatchUp.NONE.value}  # what cron does


@command(of=import_)
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--func", required=True, metavar="FUNC", help="Dotted path of the function that runs a command.")
@click.option("--user", metavar="NAME", help="FILE is NAME's own crontab (crontab -l): its lines have no users.")
@_TZ
@table_option("queue", 'The RQ queue of all schedules; default "default".')
@table_option("timeout", "Time limit of a command; default -1: no limit, as with cron.")
@table_option("overlap", "Policy while the previous run is not over; default allow, as with cron.")
@table_option("catch_up", "Policy for missed times; default none, as with cron.")
@_how
def crontab(
    invocation: Invocation, /, files: tuple[str, ...], func: str, user: str | None, tz: str | None, **given: Any
) -> int:
    """
    Import crontabs: each line becomes a schedule that calls FUNC. The command is its argument; user, environment (the
    variables above the line) and stdin (the text after the first %, or null) are named arguments. FILE has the format
    of /etc/crontab; with --user, of a user's own; - is standard input. Remove the lines from cron afterwards, or every
    command runs twice. docs/how-to/move-from-cron.md has a FUNC to copy.

    \b
    Examples:
      zsched import crontab /etc/crontab /etc/cron.d/* --func app.tasks.run_command --dry-run
      crontab -l | zsched import crontab - --user "$USER" --func app.tasks.run_command
    """
    if STDIN in files and user is None:
        raise click.UsageError("standard input is a user's crontab (crontab -l): give the user's name with --user")
    context = ImportContext(invocation)
    zone_name, remarks = _zone_of(tz)
    how = {name: given.pop(name) for name in ("prune", "dry_run", "take_over")}
    options = {**_usual_of(context, func), **{name: value for name, value in given.items() if value is not None}}
    options["tz"] = zone_name
    _try(context, func, options)
    sources = []
    for file in dict.fromkeys(files):
        owner = f"crontab:{user if file == STDIN else os.path.abspath(file)}"
        source = read_crontab(file, content(file, "a crontab"), func, options, owner=owner, user=user)
        if unknown := ", ".join(sorted(name for name in users_of(source) if not _is_user(name))):
            remedy = "if that is a command and not a user, give --user"
            source.remarks.append(f"{file}: this machine has no user {unknown}; {remedy}")
        sources.append(source)
    sources[0].remarks[:0] = remarks
    advice = "cron is unchanged: take these lines out of {} now, or every command runs twice"
    return import_all(context, sources, advice, needs_redis=not how["dry_run"], **how)


def _usual_of(context: ImportContext, func: str) -> dict[str, Any]:
    """Return the options that make zsched act as cron, except options that the task FUNC sets itself."""
    context.checks.allow(func, {})
    with importing():
        task = Lookup().find(func)
    return {name: value for name, value in _AS_CRON.items() if task is None or name not in task.options}


def _try(context: ImportContext, func: str, options: dict[str, Any]) -> None:
    """Check the options that all lines share. Raises InvalidSchedule."""
    called = {"args": ["true"], "kwargs": {"user": "root", "environment": {}, "stdin": None}}
    context.checks.define(func, {"id": "import", "cron": "0 0 * * *", **called, **options})
    for mistake in context.checks.mistakes(func, called):
        raise mistake


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


# -- rq-scheduler, rq-cron, rq-scheduled ------------------------------------------------------------


@command("rq-scheduler", of=import_)
@_TZ
@_how
def rq_scheduler(invocation: Invocation, /, tz: str | None, **how: bool) -> int:
    """
    Import the jobs of the package rq-scheduler on this Redis, with their ids. Recurring jobs are copied, and one-shots
    are moved. Stop rq-scheduler first: while one runs, nothing is imported. With the serializer pickle, run it where
    the workers' code can be imported: it unpickles arguments.

    \b
    Examples:
      zsched import rq-scheduler --dry-run
      zsched import rq-scheduler --tz Europe/Berlin
    """
    context = ImportContext(invocation)
    with context.link.wire() as wire:
        others = rq_schedulers(wire).names
    zone_name, remarks = _zone_of(tz)
    killed = "the mark of a killed one lapses after its --interval and 10 s"
    running = _about_running("an rq-scheduler", others, killed, is_dry=how["dry_run"])
    with importing():
        source = read_rq_scheduler(context.jobs, zone_name)
    source.remarks += _about_zone(source, remarks) + running
    advice = "recurring jobs are still in {}: do not start rq-scheduler on this Redis again, or they run twice"
    return import_all(context, [source], advice, **how)


@command("rq-cron", of=import_)
@click.argument("module")
@click.option("--tz", metavar="ZONE", help="The source's zone; default: that of TZ, else this machine's; RQ 2: UTC.")
@_how
def rq_cron(invocation: Invocation, /, module: str, tz: str | None, **how: bool) -> int:
    """
    Import the jobs that MODULE registers for RQ's own cron, such as app.cron_config; their names become ids. MODULE is
    imported as Python code. Stop `rq cron` first: while one of this MODULE runs, nothing is imported.

    \b
    Examples:
      zsched import rq-cron app.cron_config --dry-run
      zsched import rq-cron app.cron_config --tz Europe/Berlin
    """
    context = ImportContext(invocation)
    now_ms = context.now_ms()
    with context.link.wire() as wire:
        others = [one.name for one in crons(wire, context.jobs.rq, now_ms) if one.is_of(module)]
    killed = "the mark of a killed one lapses after 2 minutes"
    running = _about_running(f"`rq cron {module}`", others, killed, is_dry=how["dry_run"])
    zone_name, remarks = _zone_of(tz, is_utc=not IS_CRON_LOCAL)
    with importing():
        source = read_rq_cron(module, zone_name)
    source.remarks += _about_zone(source, remarks) + running
    advice = "the module is unchanged: do not start `rq cron {}` again, or every job runs twice"
    return import_all(context, [source], advice, **how)


@command("rq-scheduled", of=import_)
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="Only jobs of this queue; may be repeated.")
@_DRY_RUN
def rq_scheduled(invocation: Invocation, /, queues: tuple[str, ...], dry_run: bool) -> int:
    """
    Import RQ's own delayed jobs, made by enqueue_at and enqueue_in, with their ids, for a history, `zsched why` and
    recovery. A daemon pushes them without an import, too.

    \b
    Example:
      zsched import rq-scheduled --queue email --dry-run
    """
    context = ImportContext(invocation)
    with importing():
        source = read_rq_scheduled(context.jobs, context.now_ms(), queues)
    return import_all(context, [source], "", dry_run=dry_run)


# -- undo -------------------------------------------------------------------------------------------


_NEXT: Final = {  # the condition under which another scheduler fires these schedules again
    "crontab:": "their lines are back in cron",
    CRON_OWNER: "`rq cron` is started again",
    RQ_SCHEDULER_OWNER: "rq-scheduler is started again",
}


@command("undo", of=import_)
@click.argument("owner")
@_DRY_RUN
def undo_(invocation: Invocation, /, owner: str, dry_run: bool) -> int:
    """
    Undo an import. OWNER is the owner that it reported, such as crontab:/etc/cron.d/backup, rq-cron:app.cron,
    rq-scheduler or rq-scheduled. Its schedules are cancelled, and moved jobs go back. What fires within 30 s, or cannot
    be given back, stays and is listed (exit code 1).

    \b
    Example:
      zsched import undo rq-scheduler --dry-run
    """
    if not is_owner(owner):
        names = f"{RQ_SCHEDULER_OWNER}, {RQ_SCHEDULED_OWNER}, {'…, '.join(OWNERS)}…"
        raise InvalidSchedule("owner", owner, "no import has such an owner", f"give one of {names}")
    if owner.startswith(CRON_OWNER):
        owner = owner_of(owner.removeprefix(CRON_OWNER))
    context = ImportContext(invocation)
    if dry_run:
        ids = [schedule.id for schedule in context.client.list(owner=owner)]
        value = {"owner": owner, "dry_run": True, "ids": ids}
        invocation.answer(value, *ids, f"{plural(len(ids), 'schedule')} to undo")
        _remark(context, owner, bool(ids))
        return DONE
    with Progress("undoing", is_quiet=invocation.wants_json) as progress:
        undone = undo(context.client, owner, progress.at)
    tell_undone(invocation, owner, undone)
    back = [*undone.cancelled, *undone.given_back]
    _remark(context, owner, bool(back or undone.kept))
    condition = next((said for start, said in _NEXT.items() if owner.startswith(start)), None)
    if back and condition is not None:
        invocation.remark(f"nothing fires these until {condition}")
    return FAILED if undone.kept else DONE


def _remark(context: ImportContext, owner: str, has_any: bool) -> None:
    """List the known owners on stderr if *owner* has no schedules: it may be misspelt."""
    if not has_any and not context.invocation.wants_json:
        others = some(owners(context.client), _SHOWN) or "nothing"
        say(f"no schedules of {owner}; other imports: {others}")
