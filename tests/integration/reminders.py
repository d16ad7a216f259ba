"""The tasks of the tests, as a product has them: at the top level of a module that workers import."""

import os
import signal
from typing import Any, Literal

import redis
from rq import get_current_job

import zsched
from zsched import Next
from zsched.core.clock import from_ms
from zsched.tasks.chaining import Turn


@zsched.task(queue="email", id="reminder-{event_id}", priority="high", tags=["reminders"])
def send_reminder(event_id: str, channel: Literal["push", "email", "sms"], minutes: int = 60) -> str:
    """
    Remind somebody of an event.

    The channel is the customer's choice.
    """
    receipt(f"{event_id} {channel} {minutes}")
    return f"{event_id} by {channel}, {minutes} minutes before"


@zsched.task
def plain(value: Any = None) -> Any:
    """Return *value*; a task without options."""
    receipt(f"plain {value}")
    return value


@zsched.task(id="digest", cron="0 9 * * *", tz="Asia/Seoul", overlap="queue", pause_after_failures=3, count=9, jitter=5)
def digest() -> None:
    """Send the digest every morning."""


@zsched.task(timeout=30, retry=3)
def poll(number: int, last: int = 3, seen: list[int] | None = None) -> Next | str:
    """Run until *number* is the last one, and clear the given list."""
    receipt(f"poll {number}")
    (seen or []).clear()
    return Next(after=0, number=number + 1) if number < last else "done"


@zsched.task
async def later(number: int) -> Next | int:
    """A coroutine function, which RQ runs too."""
    receipt(f"later {number}")
    return Next(after=0, number=number + 1) if number < 2 else number


@zsched.task(retry=3)
def fan_out(bad_once: bool = False) -> list[Next]:
    """Return three Nexts: of a task, a path and a function; the second is refused the first time, if asked for."""
    is_first = receipt("fan_out") == 1
    second = {"event_id": "e2", "channel": "fax" if bad_once and is_first else "sms"}
    return [
        Next(plain, after=0, value=1),
        Next(f"{__name__}.send_reminder", after=0, **second),
        Next(untyped, after=0, args=[3], id="third"),
    ]


@zsched.task(retry=3)
def stumble() -> list[Next]:
    """Return two Nexts; Redis refuses the second the first time."""
    job = get_current_job()
    assert job is not None
    is_first = receipt("stumble") == 1
    second: dict[str, Any] = {"id": "taken", "if_exists": "error" if is_first else "replace"}
    return [Next(plain, after=0, value=1), Next(plain, after=0, value=2, **second)]


@zsched.task
def calls_itself(depth: int = 1) -> Any:
    """Return a Next; the inner call is not a run, so only its caller gets its Next."""
    inner = calls_itself(depth=0) if depth else None
    receipt(f"depth {depth}: {inner!r}")
    return Next(after=3600, depth=5, id="outer" if depth else "inner")


@zsched.task
def returns(what: Literal["mixed", "many", "past", "same", "digest", "own", "unknown", "urgent"]) -> Any:
    """Return a result that a worker refuses, or leaves alone."""
    receipt(f"returns {what}")
    return {
        "mixed": lambda: [Next(after=0), "done"],
        "many": lambda: [Next(after=0)] * 101,
        "past": lambda: Next(plain, at=from_ms(1_000)),
        "same": lambda: [Next(plain, after=0, id="a"), Next(plain, after=0, id="a")],
        "digest": lambda: Next(digest, after=0),
        "own": lambda: Next(after=3600, id="recurs"),
        "unknown": lambda: Next(plain, after=0, valeu=1),
        "urgent": lambda: [Next(plain, after=0, value=1), Next(plain, after=0, value=2, urgency="ours")],
    }[what]()


@zsched.task
def dies(moment: Literal["put", "marked"]) -> Next:
    """Kill the worker the first time, when the Next was put, or also marked, and RQ does not know of it."""
    if receipt(f"dies {moment}") == 1:
        mark = Turn._mark

        def die(turn: Turn, done: list[str], is_all: bool) -> None:
            if moment == "marked":
                mark(turn, done, is_all)
            os.kill(os.getpid(), signal.SIGKILL)

        Turn._mark = die  # type: ignore[assignment,method-assign]  # of this process, which has not long to live
    return Next(plain, after=0)


@zsched.task
def vanishes() -> Next:
    """Delete its own job while it runs."""
    job = get_current_job()
    assert job is not None
    receipt("vanishes")
    job.connection.delete(job.key)
    return Next(plain, after=3600, id="after-all")


def untyped(value: int) -> None:
    """Leave a receipt; a function that is not a task."""
    receipt(f"untyped {value}")


def receipt(text: str) -> int:
    """Leave a receipt if a worker runs this; return the number of receipts with this text."""
    job = get_current_job()
    if job is None:
        return 0
    connection: redis.Redis = job.connection
    connection.rpush("receipts", text)
    return connection.lrange("receipts", 0, -1).count(text.encode())
