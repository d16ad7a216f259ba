"""What time it is for a Redis server, and for the scripts in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis


def now_us(client: redis.Redis) -> int:
    """Epoch microseconds by the server's clock."""
    seconds, micros = client.time()
    return int(seconds) * 1_000_000 + int(micros)


def now_ms(client: redis.Redis) -> int:
    """Epoch milliseconds by the server's clock."""
    return now_us(client) // 1000


@contextmanager
def set_back(client: redis.Redis, ms: int) -> Iterator[None]:
    """Inside the block it is so much earlier for the scripts of the namespace "default"."""
    client.hset("zsched:{default}:meta", "offset_ms", -ms)
    yield
    client.hdel("zsched:{default}:meta", "offset_ms")
