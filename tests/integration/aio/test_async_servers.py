"""``AsyncClient`` behind Sentinels and on a Redis Cluster while the master moves; the clients that it adopts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel

from tests.faults.clusters import PREFIX, Cluster
from tests.faults.ledger import replicate
from tests.faults.processes import WITHIN_S
from tests.faults.sentinels import NAME, Sentinels
from tests.integration.aio.turns import turn
from tests.prefix import needs_prefix
from zsched import AsyncClient, ConfigError, NotArchived, RedisUnavailable
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = [pytest.mark.redis, pytest.mark.anyio]


async def schedules(client: AsyncClient, id: str) -> str:
    """Schedule *id*, again and again while the master moves; return its id."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return (await client.schedule("app.run", id=id, at=datetime.now(UTC) + timedelta(hours=1))).id
            except (RedisUnavailable, NotArchived):
                await turn()


async def ids(client: AsyncClient) -> list[str]:
    return sorted([one.id async for one in client.list()])


async def test_an_asynchronous_client_continues_on_the_new_master_after_a_failover(guard: Guard) -> None:
    sentinels = Sentinels(guard, hurry=False)
    hosts = [("127.0.0.1", port) for port in sentinels.ports]
    theirs = Sentinel(hosts, socket_timeout=WITHIN_S).master_for(NAME)  # type: ignore[no-untyped-call]  # redis-py's
    async with AsyncClient.from_url(sentinels.url) as by_url, AsyncClient(theirs) as adopted:
        await schedules(by_url, "a")
        await schedules(adopted, "b")
        replicate(old := sentinels.master())
        sentinels.fail_over()

        await schedules(by_url, "c")
        await schedules(adopted, "d")

        assert old is not sentinels.master()
        assert ["a", "b", "c", "d"] == await ids(adopted)


@needs_prefix
async def test_an_asynchronous_client_follows_the_slot_of_a_cluster(guard: Guard) -> None:
    cluster = Cluster(guard)
    async with AsyncClient.from_url(cluster.url, rq_prefix=PREFIX) as client:
        await schedules(client, "a")
        cluster.move(cluster.another())

        assert "b" == await schedules(client, "b")
        assert ["a", "b"] == await ids(client)


@pytest.mark.parametrize("make", [redis.asyncio.Redis.from_url, redis.Redis.from_url])
async def test_an_asynchronous_client_takes_the_settings_of_a_client_of_redis_py(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, make: Any
) -> None:
    for url in (redis_server.url, redis_server.tcp_url.replace("/0", "/3")):
        theirs = make(url, decode_responses=True)
        async with AsyncClient(theirs) as client:
            await schedules(client, "a")
            assert ["a"] == await ids(client)
    redis_client.select(3)
    assert redis_client.dbsize()
    redis_client.select(0)


def test_unusable_clients_are_refused_with_a_remedy() -> None:
    cluster = object.__new__(redis.asyncio.RedisCluster)

    with pytest.raises(ConfigError, match=r"use AsyncClient\.from_url\('redis\+cluster"):
        AsyncClient(cluster)
    with pytest.raises(ConfigError, match=r"not a redis\.Redis"):
        AsyncClient("redis://localhost")
