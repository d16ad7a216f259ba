"""``zsched cancel``, ``pause``, ``resume``, ``run``, ``retry``, ``cancel-run``: what is done to schedules and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import click

from zsched.cli.exits import DONE, FAILED, NOT_FOUND, USAGE
from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.times import due_text
from zsched.core.model import Missed, Schedule
from zsched.errors import InvalidSchedule, RunNotFound, RunNotOver, ScheduleNotFound

_CODES = {
    "not_found": NOT_FOUND, "already_fired": FAILED, "already_over": FAILED, "not_over": FAILED, "refused": USAGE,
}  # fmt: skip
_GRAVEST = (NOT_FOUND, USAGE, FAILED, DONE)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result for one id: a word, and a remark for people."""

    id: str
    word: str
    remark: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"id": self.id, "result": self.word} | ({"remark": self.remark} if self.remark else {})


@click.command(cls=Subcommand)
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@pass_invocation
def cancel(invocation: Invocation, ids: tuple[str, ...]) -> int:
    """
    Forget schedules; nothing of them fires any more. Tells per id: cancelled, already_fired (exit code 1) or
    not_found (exit code 3).

    \b
    Example:
      zsched cancel reminder-42 reminder-43
    """
    client = invocation.client()
    return _each(invocation, ids, lambda id: _Result(id, client.cancel(id)))


@click.command(cls=Subcommand)
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@click.option("--note", default="", metavar="TEXT", help="Why, one line; `zsched show` tells it.")
@pass_invocation
def pause(invocation: Invocation, ids: tuple[str, ...], note: str) -> int:
    """
    Stop schedules until they are resumed; what falls due meanwhile waits.

    \b
    Example:
      zsched pause digest --note 'until the mail provider is back'
    """
    client = invocation.client()
    return _each(invocation, ids, lambda id: _Result(id, client.pause(id, note).state.value))


@click.command(cls=Subcommand)
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@click.option(
    "--missed",
    type=click.Choice([missed.value for missed in Missed]),
    default=Missed.FIRE.value,
    show_default=True,
    help="What passed in the pause: fire the latest late, or skip it.",
)
@pass_invocation
def resume(invocation: Invocation, ids: tuple[str, ...], missed: str) -> int:
    """
    Let paused schedules go on. A one-shot whose time has passed fires now, or with --missed skip is gone.

    \b
    Example:
      zsched resume digest --missed skip
    """
    client = invocation.client()
    return _each(invocation, ids, lambda id: _resumed(id, client.resume(id, missed)))


@click.command(cls=Subcommand)
@click.argument("id")
@pass_invocation
def run(invocation: Invocation, id: str) -> None:
    """
    Push a run of schedule ID at once, and print its run id (RQ's job id). A one-shot runs now instead of at its
    time; a recurring schedule gets an extra run.

    \b
    Example:
      zsched run digest
    """
    run_id = invocation.client().run_now(id)
    invocation.answer({"id": id, "run_id": run_id}, run_id)


@click.command(cls=Subcommand)
@click.argument("run_id")
@pass_invocation
def retry(invocation: Invocation, run_id: str) -> None:
    """
    Run RUN_ID, which is over, once more with the same arguments and options, and print the new run id. When RQ has
    forgotten the run its arguments come from a daemon's archive. Exit code 3 when nobody knows it, 1 when it is
    queued or running still.

    \b
    Example:
      zsched retry digest-1785283200000
    """
    again = invocation.client().retry(run_id)
    invocation.answer({"run_id": again, "retry_of": run_id}, again)


@click.command(name="cancel-run", cls=Subcommand)
@click.argument("run_ids", metavar="RUN_ID…", nargs=-1, required=True)
@pass_invocation
def cancel_run(invocation: Invocation, run_ids: tuple[str, ...]) -> int:
    """
    Keep runs from running, or stop them. Tells per run: cancelled, stopping (its worker was told; `zsched history`
    shows what became of it), already_over (exit code 1), not_over with the reason (1) or not_found (3).

    \b
    Example:
      zsched cancel-run digest-1785283200000
    """
    client = invocation.client()
    return _each(invocation, run_ids, lambda run_id: _Result(run_id, client.cancel_run(run_id)))


def _resumed(id: str, schedule: Schedule | None) -> _Result:
    if schedule is None:
        return _Result(id, "gone", "its time had passed")
    due_ms = schedule.next_ms
    return _Result(id, schedule.state.value, "" if due_ms is None else f"next {due_text(due_ms, schedule.tz)}")


def _each(invocation: Invocation, ids: Iterable[str], act: Callable[[str], _Result]) -> int:
    """Act on every id, one's refusal not stopping the others; the gravest exit code. Redis being gone stops all."""
    results = [_attempt(id, act) for id in ids]
    lines = (f"{one.id}: {one.word}{f' ({one.remark})' if one.remark else ''}" for one in results)
    invocation.answer([one.to_dict() for one in results], *lines)
    codes = {_CODES.get(one.word, DONE) for one in results}
    return next(code for code in _GRAVEST if code in codes)


def _attempt(id: str, act: Callable[[str], _Result]) -> _Result:
    try:
        return act(id)
    except ScheduleNotFound:
        return _Result(id, "not_found")
    except RunNotFound as error:
        return _Result(id, "not_found", str(error))
    except RunNotOver as error:
        return _Result(id, "not_over", str(error))
    except InvalidSchedule as error:
        return _Result(id, "refused", str(error))
