"""The ground of the client's tests."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis

from zsched.core.clock import from_ms, to_ms
from zsched.storage.keys import Keys
from zsched.storage.unpickling import inflated

KEYS = Keys("default")
ROOT = Path(__file__).parents[3]
HOUR = timedelta(hours=1)
SOON = from_ms(to_ms(datetime.now(UTC))) + timedelta(days=1)  # in whole milliseconds


def pass_time(redis_client: redis.Redis, by: timedelta) -> None:
    """Move the namespace's clock, also one that stands still."""
    is_still = redis_client.hexists(KEYS.meta(), "frozen_ms")
    redis_client.hincrby(KEYS.meta(), "frozen_ms" if is_still else "offset_ms", by // timedelta(milliseconds=1))


def payload(redis_client: redis.Redis, key: str) -> Any:
    """Return the call that a job's hash holds."""
    return pickle.loads(inflated(redis_client.hget(key, "data")))


def ids(found: Iterator[Any]) -> list[str]:
    """Return the ids of a listing."""
    return [schedule.id for schedule in found]
