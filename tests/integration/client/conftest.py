"""A client, and a time to schedule for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from zsched import (
    Client,
)
from zsched.core.clock import from_ms, to_ms


@pytest.fixture
def client(redis_url: str) -> Client:
    return Client.from_url(redis_url)


@pytest.fixture
def soon() -> datetime:
    """The time of tomorrow, in whole milliseconds."""
    return from_ms(to_ms(datetime.now(UTC))) + timedelta(days=1)
