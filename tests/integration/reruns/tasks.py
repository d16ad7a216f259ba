"""Tasks for workers in the tests of retry, cancel_run, current_run and backfill."""

import signal
from typing import Any

from rq import get_current_job

from zsched import current_run


def done(*args: Any, **kwargs: Any) -> None:
    """Leave a receipt."""
    job = get_current_job()
    assert job is not None
    job.connection.rpush("receipts", f"{job.id} {args} {sorted(kwargs.items())}")


def fail(*args: Any) -> None:
    done(*args)
    raise ValueError("on purpose")


def hang() -> None:
    """Last until somebody ends the process."""
    done()
    signal.pause()


def report() -> None:
    """Note the facts of the run, then fail in the first attempt."""
    run = current_run()
    assert run is not None
    run.note(id=run.id, schedule=run.schedule_id, nominal=run.nominal_at.isoformat())
    run.note(**{f"attempt{run.attempt}": round(run.lateness.total_seconds() * 1000)})
    if run.attempt == 1:
        raise ValueError("on purpose")


def vanish() -> None:
    """Delete the job, then write a note."""
    job, run = get_current_job(), current_run()
    assert job is not None
    assert run is not None
    job.connection.delete(job.key)
    run.note(sent=1)
    job.connection.set("found", job.connection.exists(job.key))


def foreign() -> None:
    """Record current_run() in a job that is not zsched's."""
    job = get_current_job()
    assert job is not None
    job.connection.set("found", str(current_run()))
