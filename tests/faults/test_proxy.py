from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.faults.ledger import connect
from tests.faults.proxy import Proxy
from zsched.embedded import EmbeddedRedis


@pytest.fixture
def proxy(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> Iterator[Proxy]:
    assert redis_server.port is not None
    with Proxy(redis_server.port) as proxy:
        yield proxy


def test_a_command_whose_reply_was_cut_was_executed(proxy: Proxy, redis_client: redis.Redis) -> None:
    with connect(proxy.url) as client:
        client.ping()
        proxy.cut_replies = 1.0
        with pytest.raises(redis.ConnectionError):
            client.incr("a")

    assert b"1" == redis_client.get("a")
    assert proxy.cuts == 1


def test_a_command_whose_request_was_cut_was_not_executed(proxy: Proxy, redis_client: redis.Redis) -> None:
    with connect(proxy.url) as client:
        client.ping()
        proxy.cut_requests = 1.0
        with pytest.raises(redis.ConnectionError):
            client.incr("a")

    assert redis_client.get("a") is None


def test_a_half_open_connection_does_not_answer(proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        client.ping()
        client.connection_pool.connection_kwargs["socket_timeout"] = 0.1
        client.connection_pool.disconnect()
        client.connection_pool.reset()
        proxy.half_open = True

        with pytest.raises(redis.TimeoutError):
            client.incr("a")
