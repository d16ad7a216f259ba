"""A client with a schedule r that has hours behind it, and short waits for archives."""

import pytest
import redis

from tests.builders.leaders import know
from tests.integration.backfill.hours import now
from tests.integration.reruns.ends import TASKS
from zsched import Client
from zsched.storage.connection import Link


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    """A client with a schedule r at every full hour."""
    now.cache_clear()
    know(redis_client)
    client = Client(link)
    client.schedule(f"{TASKS}.done", id="r", cron=f"{now().minute} * * * *", args=(1,))
    return client
