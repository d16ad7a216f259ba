"""``zsched recover``: restore data that Redis lost from an archive, or show what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import click

from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, pass_invocation
from zsched.core.options.instants import zone_name


@click.command(cls=Subcommand)
@click.option("--dry-run", is_flag=True, help="Show what is missing, and write nothing; always allowed.")
@click.option(
    "--from",
    "file",
    type=lambda text: Path(os.path.expanduser(text)),
    metavar="FILE",
    help="Read this archive instead of the configured one.",
)
@click.option("--force", is_flag=True, help="Recover although a daemon leads; and see above.")
@click.option("--all", "lists_all", is_flag=True, help="List every difference, not the first 50 of each kind.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
@pass_invocation
def recover(invocation: Invocation, /, dry_run: bool, file: Path | None, force: bool, lists_all: bool, tz: str) -> int:
    """
    Put back from an archive what Redis lost: missing schedules, and runs in doubt. Nobody knows whether a run in doubt
    was executed. It is pushed again and marked uncertain, or skipped, as its schedule demands, or left to RQ if a
    worker has it. Later changes by clients stay. If Redis has the whole history, schedules whose keys were deleted or
    changed one by one are put back. A daemon does the same without this command, unless [archive] recovery
    is "manual".

    The archive is --from FILE, else [archive] path, else the archive that daemons of this Redis keep. If several end
    with the same log entry, any of them is used. If they differ, --dry-run uses the one that goes furthest, and a
    recovery requires --from. The file is read beside its daemon, and all its checksums are verified first. Afterwards
    this Redis also has the name of the archive's data set. Daemons find the archive by that name.

    A recovery is refused, with the command to run instead, in three cases. First: a daemon leads, and none waits for
    this command (--force overrides this). Second: the archive belongs to another data set (--from FILE overrides this).
    Third: the log was trimmed past the archive's end, so later changes are unknown, and later work would be done again
    (--from FILE with --force overrides this). Ctrl-C stops between two steps; run the command again to continue. The
    exit code is 3 when there is no archive.

    \b
    Examples:
      zsched recover --dry-run --tz Asia/Seoul
      zsched recover --dry-run --json | jq .counts
      zsched recover --from /var/lib/zsched/default-redis-6379-0/1.db
    """
    from zsched.cli.recovering.archives import NoArchive  # SQLite: its import would cost the other commands 15 ms
    from zsched.cli.recovering.command import ManualRecovery

    zone_name(tz)
    try:
        settings, is_quiet = invocation.settings(), invocation.wants_json
        command = ManualRecovery(settings, file, is_dry=dry_run, is_forced=force, is_quiet=is_quiet)
        outcome = command.look(lists_all or invocation.wants_json) if dry_run else command.put_back(lists_all)
    except NoArchive as error:
        invocation.tell_error(str(error), error)
        return NOT_FOUND
    if invocation.wants_json:
        invocation.answer(outcome.to_dict())
    else:
        invocation.answer(None, *outcome.lines(tz))
    return DONE
