"""rq-scheduler, from PyPI (the extra ``bench``)."""

import warnings
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from bench.load import ARGS, FUNC, Daily, Timed
from bench.results import Absent
from zsched.core.clock import Clock, from_ms

NAME = "rq-scheduler"


def check() -> None:
    """
    See that it is installed.

    Raises:
        Absent: it is not.
    """
    try:
        import rq_scheduler  # noqa: F401
    except ImportError:
        raise Absent("rq-scheduler was left out: pip install rq-scheduler") from None


def insert(commands: Any, timed: Sequence[Timed]) -> None:
    """Schedule *timed* by ``enqueue_at``: it has no other way. Naive UTC, seconds."""
    scheduler = _scheduler(commands)
    for id, due_ms in timed:
        at = from_ms(due_ms).astimezone(UTC).replace(tzinfo=None)
        scheduler.enqueue_at(at, FUNC, *ARGS, job_id=id)


def insert_recurring(commands: Any, rules: Sequence[Daily]) -> None:
    """Schedule *rules* by ``cron``: it has no other way."""
    scheduler = _scheduler(commands)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of crontab
        for id, cron in rules:
            scheduler.cron(cron, FUNC, args=ARGS, id=id)


def dispatch_s(commands: Any, clock: Clock) -> float:
    """Seconds for the pass of its ``run(burst=True)``, which would install signal handlers here."""
    scheduler = _scheduler(commands)
    started_ms = clock.monotonic_ms()
    scheduler.enqueue_jobs()
    return (clock.monotonic_ms() - started_ms) / 1000


def _scheduler(commands: Any) -> Any:
    from rq_scheduler import Scheduler

    return Scheduler("default", connection=commands)
