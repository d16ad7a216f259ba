"""Fixtures of the script tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.builders.entries import LogEntry
from tests.builders.namespaces import Ground
from zsched.embedded import EmbeddedRedis


@pytest.fixture
def ground(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> Iterator[Ground]:
    """The default namespace, empty; at the end its log must be in order."""
    ground = Ground(redis_client, redis_server.url)
    yield ground
    ground.check_log()
    ground.close()


@pytest.fixture
def led(ground: Ground) -> Ground:
    """A namespace with a leader, without doubt or hold, and a clock that stands still until ``Ground.pass_time``."""
    ground.lead()
    ground.freeze()
    return ground


@pytest.fixture
def seen(led: Ground) -> LogEntry:
    """The log's last entry, which an archive with the whole log has seen."""
    led.put(("waits", "+60000"))
    return led.last
