"""Backfills of one schedule, by hours before now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import redis

from tests.faults.processes import eventually
from tests.prefix import RQ
from zsched import Client
from zsched.core.backfill import Backfill
from zsched.core.clock import to_ms
from zsched.core.log import Position
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")
TASKS = "tests.integration.reruns.tasks"
HOUR = timedelta(hours=1)
# An occurrence of r that has passed for sure. The next one after now comes in half an hour, and so in no test.
NOW = datetime.now(UTC).replace(second=0, microsecond=0) - 1.5 * HOUR


def run(hours_ago: int, suffix: str = "") -> str:
    """Return the id of the run of r *hours_ago* hours before NOW."""
    return f"r-{to_ms(NOW - hours_ago * HOUR)}{suffix}"


def queue(redis_client: redis.Redis) -> list[str]:
    return [run.decode() for run in redis_client.lrange(f"{RQ}:queue:default", 0, -1)]


def backfill(client: Client, first: int, last: int, **options: Any) -> Backfill:
    """Backfill r from *first* hours ago up to, and without, *last* hours ago."""
    return client.backfill("r", NOW - first * HOUR, NOW - last * HOUR, **options)


def archived(link: Link) -> Position:
    """Return the log's last position, as soon as an archive has it."""
    last = Log(link, KEYS).last()
    assert last is not None
    eventually(lambda: Archivers(link, KEYS).archived(last.position.id, last.position.t_us // 1000) == "archived")
    return last.position
