"""The time of a Redis server, and of the scripts in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from zoneinfo import ZoneInfo

import redis

from zsched.core.clock import from_ms, to_ms
from zsched.storage.keys import Keys

KEYS = Keys("default")


def now_us(client: redis.Redis) -> int:
    """Return the time of the server in epoch microseconds."""
    seconds, micros = client.time()
    return int(seconds) * 1_000_000 + int(micros)


def now_ms(client: redis.Redis) -> int:
    """Return the time of the server in epoch milliseconds."""
    return now_us(client) // 1000


def freeze(client: redis.Redis) -> int:
    """Stop the clock of the scripts of the namespace "default" where it is; return its time in epoch milliseconds."""
    at_ms = now_ms(client) + int(client.hget(KEYS.meta(), "offset_ms") or 0)
    client.hset(KEYS.meta(), "frozen_ms", at_ms)
    return at_ms


@contextmanager
def set_back(client: redis.Redis, ms: int) -> Iterator[None]:
    """Set the clock of the scripts of the namespace "default" back by *ms* inside the block."""
    client.hset(KEYS.meta(), "offset_ms", -ms)
    yield
    client.hdel(KEYS.meta(), "offset_ms")


@contextmanager
def minutes_ago(client: redis.Redis, minutes: int) -> Iterator[None]:
    """Set that clock back inside the block to a second after the whole minute *minutes* ago: none begins meanwhile."""
    with set_back(client, minutes * 60_000 + now_ms(client) % 60_000 - 1000):
        yield


def pass_time(client: redis.Redis, by: timedelta, keys: Keys = KEYS) -> None:
    """Move the clock of the scripts of a namespace, also one that stands still."""
    is_still = client.hexists(keys.meta(), "frozen_ms")
    client.hincrby(keys.meta(), "frozen_ms" if is_still else "offset_ms", by // timedelta(milliseconds=1))


def day_later(at_ms: int, clock_of: str, by: str) -> int:
    """Return the instant of the next day when zone *by* shows the local time that zone *clock_of* showed at *at_ms*."""
    local = from_ms(at_ms).astimezone(ZoneInfo(clock_of)).replace(tzinfo=None) + timedelta(days=1)
    return to_ms(local.replace(tzinfo=ZoneInfo(by)))
