"""The start time of these tests' schedulers, and helpers for fired runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from zsched.storage.keys import Keys
from zsched.testing import Fired

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
KEYS = Keys("default")


def nominal(runs: list[Fired]) -> list[datetime]:
    return [run.nominal_at for run in runs]
