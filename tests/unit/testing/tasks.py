"""Tasks of the schedules in these tests, and the start of their clock; each test begins with an empty ``CALLS``."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rq import Queue, get_current_job

from zsched import Client, current_run, task
from zsched.storage.keys import Keys
from zsched.testing import Fired

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
KEYS = Keys("default")
CALLS: list[Any] = []


def nominal(runs: list[Fired]) -> list[datetime]:
    return [run.nominal_at for run in runs]


class Refused(Exception):
    """A task's own error."""


def note(what: Any = None) -> None:
    CALLS.append(what)


@task(id="reminder-{event_id}")
def remind(event_id: str) -> None:
    CALLS.append(event_id)


def tell_when() -> None:
    """Record the nominal time of the run, and its start, as its own run says."""
    run = current_run()
    CALLS.append((run.nominal_at, run.lateness))
    run.note(seen=len(CALLS))


def fail() -> None:
    CALLS.append("fail")
    raise Refused("not today")


def fail_at_first() -> None:
    CALLS.append("try")
    if len(CALLS) == 1:
        raise Refused("not yet")


def interrupt() -> None:
    raise KeyboardInterrupt


def chain(left: int) -> None:
    """Schedule the same task again, an hour later, *left* times, by the product's own client."""
    run, job = current_run(), get_current_job()
    CALLS.append(run.nominal_at)
    if left:
        Client(job.connection).schedule(chain, args=(left - 1,), at=run.nominal_at + timedelta(hours=1), id=f"c{left}")


def cancel_the_next() -> None:
    """Cancel the run of a minute later, in the first run."""
    run, job = current_run(), get_current_job()
    CALLS.append(run.id)
    if len(CALLS) == 1:
        next_ms = int((run.nominal_at + timedelta(minutes=1)).timestamp() * 1000)
        Client(job.connection).cancel_run(f"{run.schedule_id}-{next_ms}")


def enqueue_in_a_minute() -> None:
    """Enqueue a job by RQ's own delay."""
    job = get_current_job()
    Queue("default", connection=job.connection).enqueue_in(timedelta(minutes=1), note, "later")


def at_nine(day: int) -> datetime:
    """
    Return nine o'clock of a day of January 2026, in the process's own words: naive, so given together with a zone.
    """
    return datetime(2026, 1, day, 9)
