"""What the schedules of these tests call; ``CALLS`` is what was called, which each test begins empty."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rq import Queue, get_current_job

from zsched import Client, current_run

CALLS: list[Any] = []


class Refused(Exception):
    """A task's own error."""


def note(what: Any = None) -> None:
    CALLS.append(what)


def tell_when() -> None:
    """For which time it runs, and when it began, as its own run tells."""
    run = current_run()
    assert run is not None
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
    """Schedule itself anew, an hour later, *left* times, by the product's own client."""
    run, job = current_run(), get_current_job()
    assert run is not None
    assert job is not None
    CALLS.append(run.nominal_at)
    if left:
        Client(job.connection).schedule(chain, args=(left - 1,), at=run.nominal_at + timedelta(hours=1), id=f"c{left}")


def cancel_the_next() -> None:
    """The first that runs cancels the run of a minute later."""
    run, job = current_run(), get_current_job()
    assert run is not None
    assert job is not None
    CALLS.append(run.id)
    if len(CALLS) == 1:
        next_ms = int((run.nominal_at + timedelta(minutes=1)).timestamp() * 1000)
        Client(job.connection).cancel_run(f"{run.schedule_id}-{next_ms}")


def enqueue_in_a_minute() -> None:
    """RQ's own way."""
    job = get_current_job()
    assert job is not None
    Queue("default", connection=job.connection).enqueue_in(timedelta(minutes=1), note, "later")


def at_nine(day: int) -> datetime:
    """Of January 2026, in the process' own words: naive, so given together with a zone."""
    return datetime(2026, 1, day, 9)
