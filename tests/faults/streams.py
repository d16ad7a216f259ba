"""One-shots that come due one after the other, for tests that kill a daemon in the middle."""

import redis

from zsched import Client
from zsched.core.clock import from_ms

START_MS = 1_000  # from now to the first due time


def schedule_stream(
    client: Client, watch: redis.Redis, number: int, *, every_ms: int = 1, start_ms: int = START_MS
) -> list[str]:
    """Schedule one-shots, one every *every_ms*; return their run ids by due time."""
    begin_ms = int(watch.time()[0]) * 1000 + number // 40 + start_ms  # put at 40,000/s or more
    ids = [(f"s{n:05d}", begin_ms + n * every_ms) for n in range(number)]
    rows = [{"func": "app.run", "id": id, "at": from_ms(due_ms), "allow_past": True} for id, due_ms in ids]
    assert number == client.schedule_many(rows).created
    return [f"{id}-{due_ms}" for id, due_ms in ids]
