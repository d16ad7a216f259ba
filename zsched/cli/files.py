"""``zsched apply``, ``zsched export`` and ``zsched simulate``: schedules as a file."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import click

from zsched.cli.forecast import backlog_text, tell_left_out
from zsched.cli.formats import due_text
from zsched.cli.functions import importing, tell_unchecked
from zsched.cli.output import Progress, Table, cut, printable, say
from zsched.cli.parameters import content, duration, named_option, workers_option, zone_option
from zsched.cli.program import DONE, FAILED, USAGE, Invocation, command, connect
from zsched.client import Client
from zsched.client.put_checks import check_allowed, doubtful_queues
from zsched.core.clock import SystemClock
from zsched.core.model import for_json
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.simulation import Simulated
from zsched.core.wording import duration_text, plural, some
from zsched.errors import InvalidFile
from zsched.files.applying import CREATED, STALE, UNCHANGED, UPDATED, Application, Applied
from zsched.files.checking import ClientChecks
from zsched.files.reading import ScheduleFile, read
from zsched.files.writing import write

_SHOWN: Final = 50  # listed errors


@command()
@click.argument("file", metavar="FILE")
@click.option("--prune", is_flag=True, help="Remove what this file owns but no longer contains.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--take-over", is_flag=True, help="Take over schedules and calendars in FILE that have another owner.")
def apply(invocation: Invocation, /, file: str, prune: bool, dry_run: bool, take_over: bool) -> int:
    """
    Create and update the recurring schedules and calendars of FILE, a TOML file; - is standard input. Prints what was
    created, updated (with the difference) and removed. Schedules of other owners are not touched. If FILE has a
    mistake, nothing is applied, and the exit code is 2.

    \b
    Examples:
      zsched apply schedules.toml --dry-run
      zsched apply schedules.toml --prune
    """
    client, checks = _client_and_checks(invocation, file)
    try:
        said = read(file, content(file, "a TOML file of schedules"), checks)
        application = Application(client, said, takes_over=take_over)
        preview = application.foretell(prune=prune)
    except InvalidFile as error:
        return _refuse(invocation, error, "nothing was applied")
    applied = preview if dry_run else _run(invocation, application, preview)
    _tell(invocation, said, applied, SystemClock().now_ms() if dry_run else None)
    tell_unchecked(checks.unchecked, "options may differ from those put where they can be")
    if not invocation.wants_json:
        doubtful = doubtful_queues(client, (entry.definition for entry in said.entries))
        invocation.remark(*(f"note: {one}" for one in doubtful))
    return FAILED if applied.errors else DONE


@command()
@click.option("--owner", metavar="TEXT", help="Only schedules of this owner (a file or program); '': without owner.")
@click.option("--id", "globs", metavar="GLOB", multiple=True, help="Only ids like 'report-*'; may be repeated.")
def export(invocation: Invocation, /, owner: str | None, globs: tuple[str, ...]) -> int:
    """
    Write recurring schedules to stdout, ordered by id, as a file for `zsched apply`. A schedule whose arguments fit
    neither TOML nor JSON becomes a comment (exit code 1).

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


def _client_and_checks(invocation: Invocation, file: str) -> tuple[Client, ClientChecks]:
    """Return a client, and its checks of the entries of *file*."""
    settings = invocation.settings()
    client = connect(settings)
    allow = partial(check_allowed, settings.rq.allow_callables)
    return client, ClientChecks(client, allow, importing, Path(file).parent)


def _run(invocation: Invocation, application: Application, preview: Applied) -> Applied:
    """Apply what *preview* lists; show a progress bar on a terminal."""
    total = len(preview.steps) + len(preview.removed)
    with Progress("applying", is_quiet=invocation.wants_json) as progress:
        progress.at(0, total)
        return application.carry_out(preview, lambda done: progress.at(done, total))


def _refuse(invocation: Invocation, error: InvalidFile, result: str) -> int:
    """Write all mistakes to stderr, one line each, as compilers do, and the *result*: "nothing was applied"."""
    mistakes = plural(len(error.complaints), "mistake")
    if invocation.wants_json:
        invocation.tell_error(f"{error.name}: {mistakes}; {result}", error, errors=list(error.complaints))
        return USAGE
    for complaint in error.complaints:
        click.echo(printable(complaint), err=True)
    say(f"{result}: {mistakes} in {error.name}")
    return USAGE


def _tell(invocation: Invocation, said: ScheduleFile, applied: Applied, dry_ms: int | None) -> None:
    """Report what was *applied*, or would be at *dry_ms*, with the difference in times."""
    counts = {outcome: applied.count(outcome) for outcome in (CREATED, UPDATED, UNCHANGED)}
    counts["removed"] = len(applied.removed)
    errors = [{"id": id, "error": str(error), "type": type(error).__name__} for id, error in applied.errors]
    value = {"file": said.name, "owner": said.owner, "dry_run": dry_ms is not None, "counts": counts}
    value |= {"schedules": [step.to_dict(dry_ms) for step in applied.steps], "removed": applied.removed}
    value["calendars"] = [step.to_dict() for step in applied.calendars]
    value |= {"stale": applied.stale, "errors": errors}
    summary = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
    lead = "" if dry_ms is None else "dry run, nothing was written: "
    invocation.answer(value, *map(printable, applied_lines(applied, dry_ms)), f"{lead}{summary}")
    left_out = {name: calendar.left_out for name, calendar in said.calendars.items() if calendar.left_out}
    invocation.remark(*(f"calendar {name}: left out of its .ics: {some(each)}" for name, each in left_out.items()))
    invocation.remark(*cut([f"{id}: {error}" for id, error in applied.errors], _SHOWN, " errors; --json lists them"))
    if applied.stale:
        number = len(applied.stale)
        are, them = ("is", "it") if number == 1 else ("are", "them")
        how = "with errors nothing is removed" if applied.errors else f"--prune removes {them}"
        invocation.remark(
            f"{plural(number, 'schedule')} of this file {are} no longer in it: {some(applied.stale, _SHOWN)}; {how}"
        )


def applied_lines(applied: Applied, dry_ms: int | None = None) -> Iterator[str]:
    """Report the outcome of each changed calendar and schedule; in a dry run, at *dry_ms*, with the new times."""
    for calendar in applied.calendars:
        if calendar.outcome != UNCHANGED:
            pruned = ": no longer in this file; --prune removes it" if calendar.outcome == STALE else ""
            yield f"calendar {calendar.name}: {calendar.outcome}{pruned}"
            yield from (f"  {change.text()}" for change in calendar.changes)
    for step in applied.steps:
        if step.outcome == UNCHANGED:
            continue
        due = "" if step.next_ms is None else f", next {due_text(step.next_ms, step.entry.definition.tz)}"
        yield f"{step.entry.id}: {step.outcome}{due}"
        yield from (f"  {change.text()}" for change in step.changes)
        if dry_ms is not None and any((times := step.times(dry_ms))[:2]):
            yield f"  {times.text}"
        if step.outcome == UPDATED and not step.changes:
            yield "  no option differs; its signature is new, or it was quarantined, or written by an older version"
    yield from (f"{id}: removed" for id in applied.removed)


# -- zsched simulate ----------------------------------------------------------------------------------


@command()
@click.argument("file", metavar="FILE")
@click.option("--days", type=click.IntRange(1, 3660), default=90, show_default=True, metavar="N", help="From now on.")
@workers_option("Workers of a queue; default: enough for all.")
@named_option(
    "--took", duration, "FUNC=DURATION", "app.report=90s", "Duration of its runs; default: the median of its last ones."
)
@zone_option()
def simulate(
    invocation: Invocation, /, file: str, days: int, workers: dict[str, int], took: dict[str, timedelta], tz: str
) -> int:
    """
    Simulate the schedules of FILE, a TOML file for `zsched apply`: how many occurrences run, are skipped for overlap,
    expire or wait, if runs last as the archive knows. Nothing is written. - is standard input.

    \b
    Examples:
      zsched simulate schedules.toml
      zsched simulate schedules.toml --days 7 --workers email=2 --took app.report=90s
    """
    client, checks = _client_and_checks(invocation, file)
    try:
        application = Application(client, read(file, content(file, "a TOML file of schedules"), checks))
        with Progress("simulating", is_quiet=invocation.wants_json) as progress:
            found, left_out = application.simulate(days * timedelta(days=1), workers, took, progress.at)
    except InvalidFile as error:
        return _refuse(invocation, error, "nothing was simulated")
    schedules, backlogs = list(found.schedules.values()), [found.backlog(queue) for queue in workers]
    shown = {"days": days, "schedules": for_json(schedules), "unknown": found.unknown}
    shown |= {"backlogs": for_json(backlogs), "left_out": left_out}
    invocation.answer(shown, _table(schedules), *(backlog_text(one, tz) for one in backlogs), tz=tz)
    tell_left_out(invocation, left_out)
    if found.unknown:
        invocation.remark(f"no duration is known of {some(found.unknown)}: it counts as no time; give --took")
    return DONE


def _table(found: Sequence[Simulated]) -> Table:
    numbers = (None, Outcome.FIRED, Outcome.OVERLAP, Outcome.EXPIRED, Outcome.CANCELLED)
    rows = (
        (one.schedule.id, *(f"{one.number(each):,}" for each in numbers), f"{one.open:,}", duration_text(one.waited_ms))
        for one in found
    )
    header = ("ID", "OCCURRENCES", "RUN", "SKIPPED", "EXPIRED", "CANCELLED", "NOT OVER", "LONGEST WAIT")
    return Table(header, rows, nothing="nothing fires")
