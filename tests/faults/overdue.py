"""Recurring schedules that are due now, however long the puts took: a put never makes a schedule due in the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import redis

from tests.faults.clocks import now_ms
from zsched import Client
from zsched.core.clock import from_ms
from zsched.storage.keys import Keys

HOUR_MS = 3_600_000
_KEYS = Keys("default")


def put_due(client: Client, watch: redis.Redis, ids: Iterable[str], rule: Mapping[str, Any]) -> tuple[int, int]:
    """Put hourly schedules *ids* with the options of *rule*, all due now. Return their due time and their next time."""
    due_ms = now_ms(watch)
    next_ms = due_ms + HOUR_MS
    rows = [{**rule, "id": id, "every": 3600, "starts": from_ms(next_ms)} for id in ids]
    assert client.schedule_many(rows).created == len(rows)
    with watch.pipeline(transaction=False) as pipeline:
        for row in rows:
            pipeline.zadd(_KEYS.due_normal(), {row["id"]: due_ms})
            pipeline.hset(_KEYS.schedule(row["id"]), "nominal", due_ms)
        pipeline.execute()
    return due_ms, next_ms
