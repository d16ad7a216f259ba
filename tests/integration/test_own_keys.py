"""A daemon whose own key another program overwrote: it says so, and continues when the key is renamed."""

import pytest
import redis

from tests.builders.daemons import leading_daemon
from tests.builders.leaders import know
from tests.waiting import eventually
from zsched import Client
from zsched.errors import Garbled
from zsched.storage.keys import Keys

KEYS = Keys("default")


def test_a_leader_fires_nothing_until_its_key_is_renamed_and_then_everything(
    redis_url: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)

    with leading_daemon(redis_url) as daemon:
        redis_client.set(KEYS.quarantine(), "mine")
        redis_client.zadd(KEYS.due_normal(), {"lost": 1})  # a schedule that is due, without a job
        refused = daemon.wait_for("redis_refused")
        with pytest.raises(Garbled, match="quarantine is a string"):
            client.schedule("app.task", id="refused", after=0)
        assert f"RENAME {KEYS.quarantine()} wrong:{KEYS.quarantine()}" in refused["reason"]

        redis_client.rename(KEYS.quarantine(), f"wrong:{KEYS.quarantine()}")
        eventually(lambda: redis_client.hexists(KEYS.quarantine(), "lost"))
        client.schedule("app.task", id="a", after=0)
        eventually(lambda: redis_client.llen(KEYS.rq.queue("default")) == 1)
