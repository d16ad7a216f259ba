"""Helpers of the tests of a whole daemon."""

from __future__ import annotations

import redis

from tests.faults.ledger import await_queued

NAP_MS = 60_000  # lease and idle time with which nothing but a wake-up ends a sleep
FUNC = "app.tasks.run"


def wait_for_runs(client: redis.Redis, number: int) -> list[str]:
    """Return the runs in the queue default as soon as there are *number* of them."""
    return await_queued(client, number)
