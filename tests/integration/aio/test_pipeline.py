"""Calls of one turn of the event loop share a connection and nothing else; clients of failing servers."""

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel

from tests.builders.clusters import PREFIX, Cluster
from tests.builders.proxies import Proxy
from tests.builders.redises import connect, replicate
from tests.builders.sentinels import NAME, Sentinels
from tests.integration.aio.turns import turn
from tests.integration.client.calls import KEYS, SOON
from tests.prefix import needs_prefix
from tests.waiting import WITHIN_S
from zsched import AsyncClient, ConfigError, NotArchived, RedisUnavailable, ScheduleNotFound
from zsched.aio.bridge import run
from zsched.aio.link import AsyncLink
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import RedisRefused

pytestmark = [pytest.mark.redis, pytest.mark.anyio]
TOGETHER = 16  # commands
AT_ONCE = 3 * TOGETHER


async def test_many_calls_at_once_need_few_connections(redis_url: str, redis_client: redis.Redis) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule("app.task", id="first", at=SOON)
        before = len(redis_client.client_list())

        made = await asyncio.gather(*(client.schedule("app.task", id=f"a{n}", at=SOON) for n in range(AT_ONCE)))

        assert AT_ONCE // TOGETHER >= len(redis_client.client_list()) - before + 1
        assert [f"a{n}" for n in range(AT_ONCE)] == [one.id for one in made]
        assert AT_ONCE + 1 == redis_client.zcard(KEYS.due_normal())


async def test_a_call_that_fails_fails_alone(redis_url: str) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule("app.task", id="a", at=SOON)

        found = await asyncio.gather(*(client.get(id) for id in ("a", "nobody", "a")), return_exceptions=True)

    assert ["Schedule", "ScheduleNotFound", "Schedule"] == [type(one).__name__ for one in found]
    assert isinstance(found[1], ScheduleNotFound)


async def test_a_refused_command_and_an_unencodable_command_fail_alone(redis_url: str) -> None:
    link = AsyncLink.from_url(redis_url, 5)
    commands: list[tuple[object, ...]] = [("PING",), ("NONSENSE",), ("ECHO", "\ud800"), ("ECHO", object()), ("PING",)]

    found = await asyncio.gather(*(run(link.execute, *command) for command in commands), return_exceptions=True)

    assert [b"PONG", b"PONG"] == [found[0], found[4]]
    assert isinstance(found[1], RedisRefused)
    assert isinstance(found[2], UnicodeEncodeError)
    assert isinstance(found[3], redis.DataError)
    link.pool.disconnect()


async def test_a_wait_for_the_log_holds_up_no_command_of_its_turn(redis_url: str, redis_client: redis.Redis) -> None:
    link = AsyncLink.from_url(redis_url, 2 * WITHIN_S)
    waits = "XREAD", "BLOCK", int(WITHIN_S * 1000), "STREAMS", "log", "0-0"

    found = await asyncio.gather(run(link.execute, *waits), run(link.execute, "XADD", "log", "7-0", "a", "b"))

    assert b"7-0" == found[1] == found[0][0][1][0][0]
    link.pool.disconnect()


async def test_a_script_that_redis_forgot_is_loaded_for_all_calls(redis_url: str, redis_client: redis.Redis) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule("app.task", id="a0", at=SOON)
        redis_client.script_flush()

        await asyncio.gather(*(client.schedule("app.task", id=f"a{n}", at=SOON) for n in range(AT_ONCE)))

    assert AT_ONCE == redis_client.zcard(KEYS.due_normal())


async def test_calls_without_a_reply_say_whether_they_may_have_been_applied() -> None:
    async with AsyncClient.from_url("redis://127.0.0.1:1/0") as client:
        calls = (client.schedule("app.task", id=f"a{n}", at=SOON) for n in range(AT_ONCE))
        found = await asyncio.gather(*calls, return_exceptions=True)

    assert AT_ONCE == sum(isinstance(one, RedisUnavailable) and not one.may_have_been_applied for one in found)

    with EmbeddedRedis(tcp=True) as server, Proxy(server.port or 0) as proxy:
        async with AsyncClient.from_url(proxy.url) as client:
            await client.schedule("app.task", id="a", at=SOON)
            proxy.cut_replies = 1.0
            calls = (client.schedule("app.task", id=f"a{n}", at=SOON) for n in range(TOGETHER))
            found = await asyncio.gather(*calls, return_exceptions=True)
            proxy.cut_replies = 0.0

            assert TOGETHER == sum(isinstance(one, RedisUnavailable) and one.may_have_been_applied for one in found)
            assert ["a"] == [(await client.get("a")).id]


async def test_calls_with_lost_replies_happen_once_each() -> None:
    with EmbeddedRedis(tcp=True) as server, Proxy(server.port or 0) as proxy:
        async with AsyncClient.from_url(proxy.url) as client:
            await client.schedule("app.task", id="first", after=3600)
            proxy.cut_replies = 0.2

            async def until_answered(number: int) -> None:
                for _ in range(50):
                    try:
                        await client._schedule_as(f"op-{number}", "app.task", after=3600)
                    except RedisUnavailable:
                        continue
                    return
                raise AssertionError("fifty times without an answer")

            await asyncio.gather(*(until_answered(number) for number in range(300)))

        with connect(server.url) as watch:
            assert 301 == watch.zcard(KEYS.due_normal())


async def test_calls_that_are_cancelled_take_no_other_call_with_them(redis_url: str) -> None:
    async with AsyncClient.from_url(redis_url) as client:
        await client.schedule("app.task", id="a", at=SOON)
        tasks = [asyncio.create_task(client.get("a")) for _ in range(AT_ONCE)]
        while not client._link._pipeline._tasks:  # type: ignore[attr-defined]  # an AsyncLink
            await turn()
        for task in tasks[::2]:
            task.cancel()

        found = await asyncio.gather(*tasks, return_exceptions=True)

    assert ["CancelledError", "Schedule"] * (AT_ONCE // 2) == [type(one).__name__ for one in found]


def test_a_call_that_a_closed_loop_left_behind_delays_no_later_one(redis_url: str, redis_client: redis.Redis) -> None:
    client = AsyncClient.from_url(redis_url)

    async def leave_behind() -> None:
        task = asyncio.create_task(client.get("a"))
        await turn()
        assert not task.done()

    async def enqueue() -> None:
        await client.enqueue("app.task", id="b")
        await client.aclose()

    asyncio.run(leave_behind())
    asyncio.run(enqueue())

    assert redis_client.keys("*:job:b-*")


async def schedules(client: AsyncClient, id: str) -> str:
    """Schedule *id*, again and again while the master moves; return its id."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return (await client.schedule("app.run", id=id, at=SOON)).id
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
