"""
``zsched cancel``, ``pause``, ``resume``, ``release``, ``skip``, ``run``, ``retry``, ``cancel-run``, ``backfill``:
commands that act on schedules and runs.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import click

from zsched import errors
from zsched.cli.formats import due_text
from zsched.cli.output import Progress, cut, stoppable
from zsched.cli.parameters import F, completed_ids, instant, run_filters, schedule_filters, stacked, time_option
from zsched.cli.program import DONE, FAILED, NOT_FOUND, USAGE, Invocation, command
from zsched.cli.repairs import Repair, bulk_options, stopped
from zsched.core.clock import to_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.backfill import Backfill
from zsched.core.options.choices import Missed, ScheduleState
from zsched.core.story.sentences import local_text
from zsched.core.wording import plural
from zsched.storage.store import BACKFILLED_AT_ONCE

# Errors of one id that do not stop the others, and their words.
_WORDS: Final[dict[type[errors.ZschedError], str]] = {
    errors.NotFound: "not_found",
    errors.RunNotOver: "not_over",
    errors.PayloadGone: "no_arguments",
    errors.VersionConflict: "changed",
    errors.InvalidSchedule: "refused",
}
_CODES: Final = dict.fromkeys(("already_fired", "already_over", *_WORDS.values()), FAILED)
_CODES.update(not_found=NOT_FOUND, refused=USAGE)


class _Result(NamedTuple):
    """The result for one id: a word, and a remark for people."""

    id: str
    word: str
    remark: str = ""
    run_id: str = ""  # of a new run

    def to_dict(self) -> dict[str, str]:
        more = {"remark": self.remark, "run_id": self.run_id}
        return {"id": self.id, "result": self.word} | {name: value for name, value in more.items() if value}


def _schedules(*, is_pushing: bool) -> Callable[[F], F]:
    """Add the options of a command on schedules, by id or by filters."""
    help = "Only if the schedule has this version (show), for one ID; else: changed."
    return stacked(
        click.argument("ids", metavar="[ID]…", nargs=-1, shell_complete=completed_ids),
        click.option("--if-version", metavar="TEXT", help=help),
        schedule_filters,
        bulk_options(is_pushing=is_pushing),
    )


_RETRY = Repair("retry", "retried", "run", "--status failed --since 2h --dry-run")
_CANCEL_RUN = Repair("cancel-run", "cancelled", "run", "--queue emial --dry-run")


@command()
@_schedules(is_pushing=False)
def cancel(invocation: Invocation, ids: tuple[str, ...], **given: Any) -> int:
    """
    Cancel schedules, by id or by filters; they never fire again. Prints per id: cancelled, already_fired or changed
    (exit code 1), or not_found (exit code 3).

    \b
    Examples:
      zsched cancel reminder-42 reminder-43
      zsched cancel --tag campaign-7 --dry-run
    """
    return _change(invocation, Repair("cancel", "cancelled", "schedule", "--tag campaign-7 --dry-run"), ids, given)


@command()
@click.option("--note", default="", metavar="TEXT", help="The reason, one line; `zsched show` shows it.")
@time_option("--until", "Resume it then, without the times that pass meanwhile.")
@_schedules(is_pushing=False)
def pause(invocation: Invocation, ids: tuple[str, ...], **given: Any) -> int:
    """
    Stop schedules until they are resumed, by id or by filters. Occurrences that become due meanwhile wait. --until is
    local in the schedule's zone, or has an offset or Z, as it must with filters.

    \b
    Examples:
      zsched pause digest --note 'until the mail provider is back'
      zsched pause digest --until '2026-12-07 09:00'
      zsched pause --queue email
    """
    return _change(invocation, Repair("pause", "paused", "schedule", "--queue email --dry-run"), ids, given)


_MISSED = click.option(
    "--skip-missed",
    "missed",
    flag_value=Missed.SKIP.value,
    default=Missed.FIRE.value,
    help="Skip the times that passed meanwhile. Without it, the latest one fires late.",
)


@command()
@_MISSED
@_schedules(is_pushing=True)
def resume(invocation: Invocation, ids: tuple[str, ...], **given: Any) -> int:
    """
    Resume paused schedules, by id or by filters.

    \b
    Examples:
      zsched resume digest --skip-missed
      zsched resume --queue email --per-second 20
    """
    return _change(invocation, Repair("resume", "resumed", "schedule", "--queue email --dry-run"), ids, given)


@command()
@_MISSED
@_schedules(is_pushing=True)
def release(invocation: Invocation, ids: tuple[str, ...], **given: Any) -> int:
    """
    Release quarantined schedules, by id or by filters, when the cause is gone; `zsched why ID` says what.
    Daemons do this by themselves within minutes.

    \b
    Examples:
      zsched release digest
      zsched release --match '*' --dry-run
      zsched release --queue email --skip-missed
    """
    return _change(invocation, Repair("release", "released", "schedule", "--match '*' --dry-run"), ids, given)


@command()
@click.argument("id", shell_complete=completed_ids)
@click.argument("at", metavar="[TIME]", required=False, type=instant)
@click.option("--next", "number", type=click.IntRange(1, 100), metavar="N", help="The next N occurrences.")
@click.option("--take-back", is_flag=True, help="Let it happen after all: that of TIME, or all skipped ones.")
@click.option("--note", default="", metavar="TEXT", help="The reason, one line; `zsched why` shows it.")
@click.option("--if-version", metavar="TEXT", help="Only if the schedule has this version (show); else: changed.")
def skip(
    invocation: Invocation, id: str, at: datetime | None, number: int | None, take_back: bool, note: str, **given: Any
) -> int:
    """
    Skip an occurrence of recurring schedule ID: that of TIME (local in the schedule's zone, or with an offset or Z), or
    the next one. `zsched next ID` shows the times, and marks skipped ones.

    \b
    Examples:
      zsched skip digest --note 'nobody is in the office'
      zsched skip digest '2026-12-25 09:00'
      zsched skip digest --take-back
    """
    if number is not None and (at is not None or take_back):
        raise click.UsageError("--next goes without TIME and --take-back; give one of them")
    client = invocation.client()
    act = partial(client.unskip, id, at) if take_back else partial(client.skip, id, at, next=number or 1)
    return _each(invocation, [id], lambda id: _skipped(act(note=note, **given), take_back=take_back))


def _skipped(found: Schedule, *, take_back: bool) -> _Result:
    times = ", ".join(local_text(to_ms(at), found.tz) for at in found.skipped)
    after = f"next {due_text(found.next_ms or 0, found.tz)}" + (f"; left out: {times}" if times else "")
    return _Result(found.id, "taken_back" if take_back else "skipped", after)


@command()
@click.argument("id", shell_complete=completed_ids)
def run(invocation: Invocation, id: str) -> None:
    """
    Push a run of schedule ID at once, and print its run id (RQ's job id). A one-shot runs now instead of at its time. A
    recurring schedule gets an extra run.

    \b
    Example:
      zsched run digest
    """
    run_id = invocation.client().run_now(id)
    invocation.answer({"id": id, "run_id": run_id}, run_id)


@command()
@click.argument("run_ids", metavar="[RUN_ID]…", nargs=-1)
@run_filters("failed", "lost", "expired", "cancelled", "refused")
@bulk_options(is_pushing=True)
def retry(invocation: Invocation, run_ids: tuple[str, ...], **given: Any) -> int:
    """
    Run finished runs once more with the same arguments and options, by run id or by filters (with --status, the oldest
    first). Prints per run: retried with the new run id, not_over (exit code 1), no_arguments (1) or not_found (3).
    Filters leave out runs that were retried before or succeeded since, so you can repeat the command.

    \b
    Examples:
      zsched retry digest-1785283200000
      zsched retry --status failed --since 2h --func app.mail.send --dry-run
      zsched retry --status failed --since 2h --func app.mail.send --yes --per-second 50
    """
    client = invocation.client()
    if not _RETRY.are_filters(run_ids, given):
        return _each(invocation, run_ids, lambda run_id: _Result(run_id, "retried", run_id=client.retry(run_id)))
    if given["status"] is None:
        raise click.UsageError(f"which status? give one: zsched retry {_RETRY.example}")
    return _RETRY.carry_out(invocation, client.retry_many, given)


@command("cancel-run")
@click.argument("run_ids", metavar="[RUN_ID]…", nargs=-1)
@run_filters("queued", "running")
@bulk_options(is_pushing=False)
def cancel_run(invocation: Invocation, run_ids: tuple[str, ...], **given: Any) -> int:
    """
    Cancel queued runs, and stop running ones, by run id or by filters: queued runs, unless --status is running. Prints
    per run: cancelled, stopping (`zsched history` shows the outcome), already_over (exit code 1), not_over with the
    reason (1) or not_found (3).

    \b
    Examples:
      zsched cancel-run digest-1785283200000
      zsched cancel-run --queue emial --dry-run
    """
    client = invocation.client()
    if _CANCEL_RUN.are_filters(run_ids, given):
        return _CANCEL_RUN.carry_out(invocation, client.cancel_runs, given)
    return _each(invocation, run_ids, lambda run_id: _Result(run_id, client.cancel_run(run_id)))


def _each(invocation: Invocation, ids: Iterable[str], act: Callable[[str], _Result]) -> int:
    """Act on every id, and return the gravest exit code. A refused id does not stop the others; a lost Redis does."""
    results = [_attempt(id, act) for id in ids]
    remarks = (one.remark or (one.run_id and f"run {one.run_id}") for one in results)
    lines = (f"{one.id}: {one.word}{f' ({text})' if text else ''}" for one, text in zip(results, remarks, strict=True))
    invocation.answer([one.to_dict() for one in results], *lines)
    return max(_CODES.get(one.word, DONE) for one in results)


def _change(invocation: Invocation, by: Repair, ids: tuple[str, ...], given: dict[str, Any]) -> int:
    """Change each of *ids*, or what the filters in *given* find, by the client's calls. Raises click.UsageError."""
    client = invocation.client()
    one, many = getattr(client, by.name), getattr(client, f"{by.name}_many")
    if_version = given.pop("if_version")
    own = {name: given.pop(name) for name in ("note", "until", "missed") if name in given}
    if if_version is not None and len(ids) != 1:
        raise click.UsageError(f"--if-version is of one schedule, and {len(ids)} ids are given; give one ID")
    if by.are_filters(ids, given):
        return by.carry_out(invocation, partial(many, **own), given)
    return _each(invocation, ids, lambda id: _changed(by, id, one(id, if_version=if_version, **own), own.get("missed")))


def _changed(by: Repair, id: str, answer: str | Schedule | None, missed: str | None) -> _Result:
    """Return the result of a change by the client's *answer*; None: the schedule ended."""
    if isinstance(answer, str):
        return _Result(id, answer)
    if answer is None and missed == Missed.SKIP.value:
        return _Result(id, "skipped", "its time had passed, so it has ended")
    if answer is None:
        return _Result(id, by.done, f"its time had passed, so it fires now; see zsched why {id}")
    word = by.done if answer.state is ScheduleState.ACTIVE else answer.state.value
    at, due_ms = ("until", answer.resumes_ms) if answer.state is ScheduleState.PAUSED else ("next", answer.next_ms)
    return _Result(id, word, "" if due_ms is None else f"{at} {due_text(due_ms, answer.tz)}")


def _attempt(id: str, act: Callable[[str], _Result]) -> _Result:
    try:
        return act(id)
    except errors.ZschedError as error:
        word = next((word for kind, word in _WORDS.items() if isinstance(error, kind)), None)
        if word is None:
            raise
        return _Result(id, word, "" if isinstance(error, errors.ScheduleNotFound) else str(error))


# -- zsched backfill --------------------------------------------------------------------------------


_MUCH: Final = 1000  # a progress bar is shown from this many occurrences on
_LISTED: Final = 50  # runs that a dry run lists; --json has all
_LATER: Final = "see zsched history for the last one, and give a later --from"
_AGAIN: Final = f"{_LATER}: the same command would run all of them once more"


@command()
@click.argument("id", shell_complete=completed_ids)
@time_option(
    "--from", "The first time, inclusive: local in the schedule's zone, or with an offset or Z.", "start", required=True
)
@time_option("--to", "The end, exclusive; in the past.", "end", required=True)
@click.option("--dry-run", is_flag=True, help="Show what would run, and push nothing.")
@click.option("--again", is_flag=True, help="Also run occurrences that ran already, as extra runs; no open ones.")
def backfill(invocation: Invocation, /, id: str, start: datetime, end: datetime, dry_run: bool, again: bool) -> None:
    """
    Run the occurrences of recurring schedule ID from --from to --to that were not pushed, the oldest first. You can
    stop it by Ctrl-C, and repeat the command. With --json: {"runs": [{"run_id", "nominal_at"}], "ran", "pending", …}.

    \b
    Examples:
      zsched backfill digest --from 2026-11-01T00:00 --to 2026-11-08T00:00 --dry-run
      zsched backfill digest --from 2026-11-01T00:00Z --to 2026-11-08T00:00Z --json | jq '.runs | length'
    """
    progress = Progress("backfilling", is_quiet=invocation.wants_json, least=_MUCH)
    then = _AGAIN if again else "the same command continues from there"
    with stoppable(progress, partial(stopped, noun="occurrence", at_once=BACKFILLED_AT_ONCE, then=then)):
        done = invocation.client().backfill(id, start, end, dry_run=dry_run, again=again, on_progress=progress.at)
    invocation.answer(done.to_dict(), *_backfilled(done))
    invocation.tell_source(done.source)


def _backfilled(done: Backfill) -> Iterator[str]:
    """Yield the result, line by line, for people."""
    number, times = len(done.runs), [local_text(one.nominal_ms, done.tz) for one in done.runs]
    if done.is_dry_run:
        runs = [f"{at}  {one.run_id or 'an extra run'}" for at, one in zip(times, done.runs, strict=True)]
        yield from cut(runs, _LISTED, f", up to {times[-1]}" if times else "")
    which = f", {times[0]} to {times[-1]}" if number > 1 else f", {times[0]}" if number else ""
    verb = "would be pushed" if done.is_dry_run else "pushed"
    ran = f"; {done.ran:,} ran already, or are open" if done.ran else ""
    pending = f"; {done.pending:,} to be fired by the schedule itself" if done.pending else ""
    yield f"{done.schedule_id}: {plural(number, 'run')} {verb}{which}{ran}{pending}"
