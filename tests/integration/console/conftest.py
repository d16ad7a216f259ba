"""A person who looks at the console of a running ``zsched web`` in Chromium. Each page must be free of errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.clocks import set_back
from tests.integration.console.person import Person
from tests.waiting import eventually
from zsched import Client

OUTAGE_MS = 105 * 60_000  # ten occurrences of every ten minutes passed; the last one five minutes ago


@pytest.fixture
def ann(web: Web, chromium: object) -> Iterator[Person]:
    """An operator who has logged in."""
    with Person.of(web, chromium, "ann", sees_arguments=True) as person:
        yield person


@pytest.fixture
def eve(web: Web, chromium: object) -> Iterator[Person]:
    """A viewer who has logged in."""
    with Person.of(web, chromium, "eve", "viewer") as person:
        yield person


@pytest.fixture
def outage(client: Client, redis_url: str, redis_client: redis.Redis) -> Iterator[int]:
    """A daemon after an outage, of which it skipped ten occurrences of each of two schedules. The length in ms."""
    with set_back(redis_client, OUTAGE_MS):
        for id in ("beat", "pulse"):
            client.schedule("app.tasks.remind", id=id, every=600, catch_up="none", queue="mail")
    with DaemonThread(redis_url):
        eventually(lambda: len(client.history()) >= 2)
        yield OUTAGE_MS
