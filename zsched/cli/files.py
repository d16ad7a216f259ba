"""``zsched apply`` and ``zsched export``: schedules as a file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import click

from zsched.cli.functions import check_allowed, importing, tell_unchecked
from zsched.cli.output import Progress, due_text, printable, say
from zsched.cli.program import DONE, FAILED, USAGE, Invocation, command, connect
from zsched.cli.values import content
from zsched.core.wording import plural
from zsched.errors import InvalidFile
from zsched.files import Application, Applied, ClientChecks, ScheduleFile, read, write
from zsched.files.applying import CREATED, UNCHANGED, UPDATED

_SHOWN: Final = 50  # errors in the middle of a run that are listed


@command()
@click.argument("file", metavar="FILE")
@click.option("--prune", is_flag=True, help="Remove schedules that this file owns and no longer says.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done; write nothing.")
@click.option("--take-over", is_flag=True, help="Schedules in FILE that others own become this file's.")
def apply(invocation: Invocation, /, file: str, prune: bool, dry_run: bool, take_over: bool) -> int:
    """
    Make Redis hold the recurring schedules that FILE says, a TOML file such as config/schedules.toml; - is standard
    input. Tells what was created, updated (and what of it differs), and removed. Others' schedules are not touched.

    With a mistake in FILE nothing is applied, all mistakes are listed with their lines, and the exit code is 2.
    Functions are checked where their modules can be imported from here; stderr names the others. The
    same command again goes on where one was interrupted. With the serializer pickle, arguments that hold objects of
    other than plain classes are compared as bytes: nothing of what Redis holds is run.

    \b
    Examples:
      zsched apply schedules.toml --dry-run
      zsched apply schedules.toml --prune
    """
    settings = invocation.settings()
    client = connect(settings)
    try:
        checks = ClientChecks(client, partial(check_allowed, settings), importing)
        said = read(file, content(file, "a TOML file of schedules"), checks)
        application = Application(client, said, takes_over=take_over)
        foretold = application.foretell(prune=prune)
    except InvalidFile as error:
        return _refuse(invocation, error)
    applied = foretold if dry_run else _run(invocation, application, foretold)
    _tell(invocation, said, applied, dry_run)
    tell_unchecked(checks.unchecked, "options may differ from those put where they can be")
    return FAILED if applied.errors else DONE


@command()
@click.option("--owner", metavar="TEXT", help="Those that this file or program owns; '': that nobody does.")
@click.option("--id", "globs", metavar="GLOB", multiple=True, help="Ids like this: 'report-*'; may be repeated.")
def export(invocation: Invocation, /, owner: str | None, globs: tuple[str, ...]) -> int:
    """
    Write recurring schedules to stdout as a file that `zsched apply` reads, by id. What has its default is left out,
    and so are schedules that have ended.

    Arguments that neither TOML nor JSON can say make their schedule a comment: stderr names it with the reason, and
    the exit code is 1. So do arguments pickled with objects of other than plain classes: nothing of them is run.

    \b
    Examples:
      zsched export > schedules.toml
      zsched export --owner file:schedules.toml --id 'report-*'
    """
    written = write(invocation.client(), owner=owner, globs=globs)
    unsaid = [{"id": id, "reason": reason} for id, reason in written.unsaid]
    value = {"owner": written.owner, "ids": written.ids, "unsaid": unsaid, "ended": written.ended, "toml": written.text}
    invocation.answer(value, written.text.removesuffix("\n"))
    invocation.remark(*(f"{id} is only a comment: {reason}" for id, reason in written.unsaid))
    if written.ended:
        invocation.remark(f"left out {plural(len(written.ended), 'schedule')} that ended")
    return FAILED if written.unsaid else DONE


def _run(invocation: Invocation, application: Application, foretold: Applied) -> Applied:
    """Do it, with a bar on a terminal."""
    total = len(foretold.steps) + len(foretold.removed)
    with Progress("applying", is_quiet=invocation.wants_json) as progress:
        progress.at(0, total)
        return application.carry_out(foretold, lambda done: progress.at(done, total))


def _refuse(invocation: Invocation, error: InvalidFile) -> int:
    """All mistakes on stderr, a line each, as compilers write theirs."""
    mistakes = plural(len(error.complaints), "mistake")
    if invocation.wants_json:
        summary = f"{error.name}: {mistakes}; nothing was applied"
        invocation.tell_error(summary, error, errors=list(error.complaints))
        return USAGE
    for complaint in error.complaints:
        click.echo(printable(complaint), err=True)
    say(f"nothing was applied: {mistakes} in {error.name}")
    return USAGE


def _tell(invocation: Invocation, said: ScheduleFile, applied: Applied, is_dry: bool) -> None:
    counts = {outcome: applied.count(outcome) for outcome in (CREATED, UPDATED, UNCHANGED)}
    counts["removed"] = len(applied.removed)
    errors = [{"id": id, "error": str(error), "type": type(error).__name__} for id, error in applied.errors]
    value = {"file": said.name, "owner": said.owner, "dry_run": is_dry, "counts": counts}
    value |= {"schedules": [step.to_dict() for step in applied.steps], "removed": applied.removed}
    value |= {"stale": applied.stale, "errors": errors}
    summary = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
    lead = "dry run, nothing was written: " if is_dry else ""
    invocation.answer(value, *map(printable, applied_lines(applied)), f"{lead}{summary}")
    invocation.remark(*(f"{one['id']}: {one['error']}" for one in errors[:_SHOWN]))
    if len(errors) > _SHOWN:
        invocation.remark(f"… and {len(errors) - _SHOWN:,} more errors; --json lists them")
    if applied.stale:
        number = len(applied.stale)
        are, them = ("is", "it") if number == 1 else ("are", "them")
        shown = ", ".join(applied.stale[:_SHOWN]) + (", …" if number > _SHOWN else "")
        how = "with errors nothing is removed" if applied.errors else f"--prune removes {them}"
        invocation.remark(f"{plural(number, 'schedule')} of this file's {are} no longer in it: {shown}; {how}")


def applied_lines(applied: Applied) -> Iterator[str]:
    """Tell what became of each that changed."""
    for step in applied.steps:
        if step.outcome == UNCHANGED:
            continue
        due = "" if step.next_ms is None else f", next {due_text(step.next_ms, step.entry.definition.tz)}"
        yield f"{step.entry.id}: {step.outcome}{due}"
        yield from (f"  {change.text()}" for change in step.changes)
        if step.outcome == UPDATED and not step.changes:
            yield "  no option differs; it was quarantined, or written by an older version"
    yield from (f"{id}: removed" for id in applied.removed)
