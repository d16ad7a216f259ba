"""The results of a client's calls: the payloads of jobs, and the ids of a listing."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import redis

from zsched.core.clock import from_ms, to_ms
from zsched.storage.keys import Keys
from zsched.storage.unpickling import inflated

KEYS = Keys("default")
HOUR = timedelta(hours=1)
SOON = from_ms(to_ms(datetime.now(UTC))) + timedelta(days=1)  # in whole milliseconds


def payload(redis_client: redis.Redis, key: str) -> Any:
    """Return the call that a job's hash holds."""
    return pickle.loads(inflated(redis_client.hget(key, "data")))


def ids(found: Iterator[Any]) -> list[str]:
    """Return the ids of a listing."""
    return [schedule.id for schedule in found]
