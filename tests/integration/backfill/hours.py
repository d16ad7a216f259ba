"""Backfills of one schedule, by hours before now."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from zsched import Client
from zsched.core.clock import to_ms
from zsched.core.occurrences.backfill import Backfill
from zsched.storage.keys import Keys

KEYS = Keys("default")
HOUR = timedelta(hours=1)


@cache
def now() -> datetime:
    """
    Return an occurrence of r that has passed for sure. The next one to come comes half an hour after the first call of
    a test, and so in no test: the fixture ``client`` clears the cache.
    """
    return datetime.now(UTC).replace(second=0, microsecond=0) - 1.5 * HOUR


def run(hours_ago: int, suffix: str = "") -> str:
    """Return the id of the run of r *hours_ago* hours before ``now``."""
    return f"r-{to_ms(now() - hours_ago * HOUR)}{suffix}"


def backfill(client: Client, first: int, last: int, **options: Any) -> Backfill:
    """Backfill r from *first* hours ago up to, and without, *last* hours ago."""
    return client.backfill("r", now() - first * HOUR, now() - last * HOUR, **options)
