"""Helpers of the tests of a whole daemon."""

from __future__ import annotations

import redis

from tests.faults.ledger import queued
from tests.faults.processes import eventually
from tests.prefix import RQ

NAP_MS = 60_000  # lease and idle time with which nothing but a wake-up ends a sleep
FUNC = "app.tasks.run"


def wait_for_runs(client: redis.Redis, number: int) -> list[str]:
    """Return the runs in the queue default as soon as there are *number* of them."""
    eventually(lambda: client.llen(f"{RQ}:queue:default") >= number)
    return queued(client)
