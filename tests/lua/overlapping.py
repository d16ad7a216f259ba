"""Overlapping occurrences of a schedule: fire, advance, and RQ's jobs of the runs."""

from tests.builders.namespaces import Namespace
from tests.prefix import RQ


def put(led: Namespace, id: str = "r", template: dict[str, str] | None = None, **own: str) -> None:
    """Put a recurring schedule that has been due for a minute."""
    led.put_recurring(id, next=led.now_ms - 60_000, own=own, template=template)


def due(led: Namespace, id: str = "r") -> list[str]:
    """Return schedule *id* as fire returns it; put it if it does not exist."""
    if not led.redis.exists(led.keys.schedule(id)):
        put(led, id)
    [row] = [row for row in led.fire().recurring if row[0] == id]
    return row


def advance(led: Namespace, mode: str, id: str = "r", limit: int = 100) -> tuple[str, str]:
    """Advance the next occurrence of *id*; return its outcome and its run id."""
    row = due(led, id)
    [word] = led.advance((row, int(row[2]), int(row[2]) + 1), overlap=mode, overlap_limit=limit)
    return word, led.run(id, row[2])


def fired(led: Namespace, mode: str, number: int = 1, limit: int = 100) -> list[str]:
    """Advance *number* occurrences and return their runs, which no worker has taken."""
    return [advance(led, mode, limit=limit)[1] for _ in range(number)]


def becomes(led: Namespace, run: str, status: str | None, **more: str) -> None:
    """Move RQ's job of *run* to *status*; None deletes it, and leaves it where it waits for another run, as RQ does."""
    waiting = led.keys.waiting(run.rpartition("-")[0])
    led.redis.lrem(f"{RQ}:queue:default", 0, run)
    if status is None:
        led.redis.delete(led.keys.rq.job(run))
        return
    led.redis.lrem(waiting, 0, run)
    led.redis.hset(led.keys.rq.job(run), mapping={"status": status} | more)
    if status == "queued":
        led.redis.rpush(f"{RQ}:queue:default", run)
    elif status == "deferred":
        led.redis.rpush(waiting, run)
    elif status == "scheduled":
        led.redis.zadd(f"{RQ}:scheduled:default", {run: 1})


def told(led: Namespace) -> list[str]:
    """Return the reasons in the rows of the last ``advance`` entry."""
    [entry] = [entry for entry in led.entries() if entry.kind == "advance"][-1:]
    return [" ".join(line.split(" ", 6)[6:]) for line in entry.rows]
