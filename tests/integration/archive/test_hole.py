"""A log with a hole, which no recovery repairs: nothing fires before the operator has renamed the log's key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.faults.clocks import now_ms
from tests.faults.leases import end_hold
from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread, know
from tests.prefix import RQ
from zsched import Client
from zsched.errors import RedisRefused
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

KEYS = Keys("default")


def take_out_the_last(redis_client: redis.Redis) -> None:
    """Delete the last entry like an operator."""
    [(last, _)] = redis_client.xrevrange(KEYS.log(), count=1)
    redis_client.xdel(KEYS.log(), last)


def leave_numbers_out(redis_client: redis.Redis) -> None:
    """Add an entry that skips numbers, like a client by hand."""
    [(last, fields)] = redis_client.xrevrange(KEYS.log(), count=1)
    epoch, _, seq = last.decode().partition("-")
    redis_client.xadd(KEYS.log(), fields, id=f"{epoch}-{int(seq) + 10}")


@pytest.mark.parametrize("make_hole", [take_out_the_last, leave_numbers_out])
def test_a_hole_in_the_log_stops_firing_until_the_key_of_the_log_is_renamed(
    redis_url: str, redis_client: redis.Redis, link: Link, make_hole: Callable[[redis.Redis], None]
) -> None:
    know(redis_client)
    client, queue_key = Client.from_url(redis_url), f"{RQ}:queue:default"
    with DaemonThread(redis_url) as daemon:
        eventually(Archivers(link, KEYS).alive)
        client.schedule("app.tasks.run", id="rule", every=0.2, overlap="allow")
        eventually(lambda: redis_client.llen(queue_key))

        make_hole(redis_client)
        daemon.wait_for("fire_held")
        fired = redis_client.llen(queue_key)
        for number in (1, 2):  # again and again
            daemon.wait_for("recovery_began", number)
            assert int(redis_client.hget(KEYS.meta(), "hold") or 0) > now_ms(redis_client)
        assert fired == redis_client.llen(queue_key)

        redis_client.rename(KEYS.log(), f"{KEYS.log()}:old")
        daemon.wait_for("archive_bootstrapped")
        end_hold(redis_client, daemon)
        eventually(lambda: redis_client.llen(queue_key) > fired)
        eventually(Archivers(link, KEYS).alive)


def test_changes_are_refused_after_an_entry_that_skips_numbers(redis_url: str, redis_client: redis.Redis) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)
    client.schedule("app.tasks.run", id="a", after=3600)

    leave_numbers_out(redis_client)

    with pytest.raises(RedisRefused, match="ID specified in XADD is equal or smaller"):
        client.schedule("app.tasks.run", id="b", after=3600)
    redis_client.rename(KEYS.log(), f"{KEYS.log()}:old")
    client.schedule("app.tasks.run", id="b", after=3600)
