"""``zsched recover``: put back what Redis lost, from an archive; or show what that would be."""

from __future__ import annotations

import json
from pathlib import Path

import click

from zsched.cli.program import DONE, NOT_FOUND, Invocation, Subcommand, pass_invocation
from zsched.core.arguments import zone_name


@click.command(cls=Subcommand)
@click.option("--dry-run", is_flag=True, help="Show what is missing, and write nothing; allowed always.")
@click.option(
    "--from", "file", type=click.Path(path_type=Path), metavar="FILE", help="This archive, whatever is configured."
)
@click.option("--force", is_flag=True, help="Although a daemon leads; and see above.")
@click.option("--all", "lists_all", is_flag=True, help="List every difference, not the first 50 of each kind.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
@pass_invocation
def recover(invocation: Invocation, /, dry_run: bool, file: Path | None, force: bool, lists_all: bool, tz: str) -> int:
    """
    Put back what Redis lost and an archive has: schedules that are missing, and runs of which it is in doubt whether
    they were pushed (pushed again and marked uncertain, or skipped, as their schedules wish, or left to RQ where a
    worker has them). What clients changed in Redis since then stands. A daemon does the same by itself, unless
    [archive] recovery = "manual".

    The archive is --from FILE, else [archive] path, else the one that daemons of this Redis keep. Of several it is any,
    if they end with the same log entry; else --dry-run takes the one that goes furthest, and a recovery asks for
    --from. It is read beside its daemon, and all its checksums are compared before anything is done. Afterwards this
    Redis has the name of the archive's data set too: daemons find the archive by it, wherever it is.

    Refused, each with what to run instead: while a daemon leads and none waits for this command (--force does it all
    the same); an archive of another data set (unless --from names it); one that the log was trimmed past, so that
    nothing is known of what happened since, and what was done since is done again (unless --from names it, with
    --force). Ctrl-C stops it between two steps; run again, it goes on. Exit code 3 when there is no archive.

    \b
    Examples:
      zsched recover --dry-run --tz Asia/Seoul
      zsched recover --dry-run --json | jq .counts
      zsched recover --from /var/lib/zsched/default-redis-6379-0/1.db
    """
    from zsched.cli.recovering.archives import NoArchive  # SQLite, which costs the other commands 15 ms
    from zsched.cli.recovering.command import ManualRecovery

    zone_name(tz)
    try:
        settings, is_quiet = invocation.settings(), invocation.wants_json
        command = ManualRecovery(settings, file, is_dry=dry_run, is_forced=force, is_quiet=is_quiet)
        outcome = command.look(lists_all or invocation.wants_json) if dry_run else command.put_back(lists_all)
    except NoArchive as error:
        told = {"error": str(error), "type": type(error).__name__}
        click.echo(json.dumps(told) if invocation.wants_json else f"zsched: {error}", err=True)
        return NOT_FOUND
    if invocation.wants_json:
        invocation.answer(outcome.to_dict())
    else:
        invocation.answer(None, *outcome.lines(tz))
    return DONE
