"""Fixtures of the script tests."""

from collections.abc import Iterator

import pytest
import redis

from tests.builders.entries import LogEntry
from tests.builders.namespaces import Namespace
from zsched.embedded import EmbeddedRedis


@pytest.fixture
def ns(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> Iterator[Namespace]:
    """The default namespace, empty; at the end its log must be in order."""
    ns = Namespace(redis_client, redis_server.url)
    yield ns
    ns.check_log()
    ns.close()


@pytest.fixture
def led(ns: Namespace) -> Namespace:
    """A namespace with a leader, without doubt or hold, and a clock that stands still until ``Namespace.pass_time``."""
    ns.lead()
    ns.freeze()
    return ns


@pytest.fixture
def seen(led: Namespace) -> LogEntry:
    """The log's last entry, which an archive with the whole log has seen."""
    led.put(("waits", "+60000"))
    return led.last
