"""Tasks of guarded workers, and what must never run there. Each call leaves a file in the folder of receipts."""

import os
import pickle
from pathlib import Path
from typing import Any

from rq import Retry, get_current_job

import zsched

FOLDER = "GUARD_RECEIPTS"  # of the environment


def leave(name: str) -> None:
    """Leave the receipt *name*."""
    (Path(os.environ[FOLDER]) / name).touch()


@zsched.task
def work(name: str) -> None:
    leave(name)


@zsched.task
def other(name: str) -> None:
    leave(name)


@zsched.task
def add_up(name: str, rows: list[list[int]]) -> None:
    """Leave a receipt with the sum of *rows*."""
    leave(f"{name}-{sum(map(sum, rows))}")


def boom(name: str) -> str:
    """Leave a receipt: a pickle calls it when it is opened."""
    leave(f"boom-{name}")
    return name


def not_allowed(name: str) -> None:
    leave(name)


def called_back(job: Any, *_: object) -> None:
    leave(f"callback-{job.id}")


@zsched.task
def count_in_meta(times: int) -> None:
    """Count the attempts in ``meta``; succeed at the last one."""
    job = get_current_job()
    assert job is not None
    job.meta["count"] = job.meta.get("count", 0) + 1
    job.save_meta()
    if job.meta["count"] < times:
        raise ValueError(f"attempt {job.meta['count']}")
    leave(f"{job.id}-counted-{times}")


@zsched.task
def fail_after_reading_meta(name: str) -> None:
    """Fail at the first attempt, when another program wrote ``meta``; then leave what is in ``meta``."""
    job = get_current_job()
    assert job is not None
    if job.meta:
        leave(f"{name}-{job.meta}")
    job.connection.hset(job.key, "meta", pickle.dumps({"admin": True}))  # as another program could
    job.get_meta()
    raise ValueError("again")


@zsched.task
def again(name: str) -> Any:
    """Return ``rq.Retry`` once."""
    job = get_current_job()
    assert job is not None
    if not job.number_of_retries:
        job.meta["first"] = True
        job.save_meta()
        return Retry(max=1)
    leave(f"{name}-{job.meta['first']}")
    return None


@zsched.task
def chained(name: str, left: int = 1) -> zsched.Next | None:
    """Leave a receipt, and schedule the same task once more, at once."""
    leave(f"{name}-{left}")
    return zsched.Next(after=0, left=left - 1) if left else None


@zsched.task
def read_others() -> None:
    """Read what other programs may have written: meta, once more, and the result of another job."""
    job = get_current_job()
    assert job is not None
    for number, read in enumerate((job.get_meta, lambda: job.return_value(refresh=True), job.fetch_dependencies)):
        try:
            read()
        except Exception as error:
            leave(f"closed-{number}-{type(error).__name__}")
