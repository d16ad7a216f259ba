"""Calls that are more than the connections of their client: they wait for one, and an error says for what."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.integration.client.calls import KEYS, SOON
from tests.waiting import WITHIN_S, eventually
from zsched import AsyncClient, Client, RedisUnavailable
from zsched.core.clock import ManualClock
from zsched.storage.cluster import SlotOwner
from zsched.storage.connection import Link, Wire

THREADS, PUTS = 20, 20
BUSY = r"all 2 connections of this client to Redis at \S+ are busy for 5 s \(.*\); allow more \(\?max_connections="


class Hasty(ManualClock):
    """A clock on which each look takes ten seconds."""

    def monotonic_ms(self) -> float:
        self.advance(10_000)
        return super().monotonic_ms()


def limited(redis_url: str, most: int) -> Link:
    return Link.from_url(f"{redis_url}{'&' if '?' in redis_url else '?'}max_connections={most}", WITHIN_S)


def of_one(redis_url: str) -> Link:
    """Return a link with a single connection, which no URL allows."""
    link = limited(redis_url, 2)
    link.pool.max_connections = 1
    return link


@contextlib.contextmanager
def holding(link: Link, number: int) -> Iterator[list[Wire]]:
    """Hold *number* connections of *link*."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(link.wire()) for _ in range(number)]


def test_more_threads_than_connections_wait_for_one(redis_url: str) -> None:
    link = limited(redis_url, 5)
    client, ids = Client(link), [f"r{n}" for n in range(THREADS * PUTS)]

    def put(number: int) -> None:
        for id in ids[number::THREADS]:
            client.schedule("app.task", id=id, at=SOON)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(put, range(THREADS)))

    assert sorted(ids) == sorted(schedule.id for schedule in client.list())
    assert 5 == link.pool.max_connections
    link.pool.disconnect()


async def puts_at_once(client: AsyncClient) -> int:
    async with client:
        rows = ({"func": "app.task", "id": f"many-{n}", "at": SOON} for n in range(500))
        calls = (client.schedule("app.task", id=f"r{n}", at=SOON) for n in range(300))
        await asyncio.gather(client.schedule_many(rows), *calls)  # type: ignore[arg-type]  # literal rows
        return len([one async for one in client.list()])


def test_more_tasks_than_connections_wait_for_one(redis_url: str) -> None:
    url = f"{redis_url}{'&' if '?' in redis_url else '?'}max_connections=2"

    assert 800 == asyncio.run(puts_at_once(AsyncClient.from_url(url, timeout_s=WITHIN_S)))


def test_bulk_calls_as_many_as_connections_put_all_of_their_rows(redis_url: str, redis_client: redis.Redis) -> None:
    link, both = limited(redis_url, 2), threading.Barrier(2)
    redis_client.hset(KEYS.meta(), "serializer", "pickle")

    def rows(name: str) -> Iterator[Any]:
        both.wait(WITHIN_S)  # the client has checked nothing yet
        yield from ({"func": "app.task", "id": f"{name}-{n}", "at": SOON} for n in range(300))

    client = Client(link)
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(lambda name: client.schedule_many(rows(name)).created, "ab"))

    assert [300, 300] == done


def test_a_call_that_gets_no_connection_says_how_many_are_busy_and_what_to_do(redis_url: str) -> None:
    made = limited(redis_url, 2)
    link = Link(made.pool, made.where, 5.0, Hasty())

    with holding(link, 2), pytest.raises(RedisUnavailable, match=BUSY) as caught:
        Client(link).get("a")

    assert not caught.value.may_have_been_applied
    assert [] == list(Client(link).list())  # they were given back


def test_waiting_threads_get_connections_in_the_order_in_which_they_came(redis_url: str) -> None:
    link, order = of_one(redis_url), list[int]()

    def call(number: int) -> None:
        with link.wire():
            order.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(5)]
    with holding(link, 1):
        for came, thread in enumerate(threads, 1):
            thread.start()
            eventually(lambda came=came: len(link._waiting) == came, WITHIN_S)  # type: ignore[misc]
    for thread in threads:
        thread.join()

    assert [0, 1, 2, 3, 4] == order


def test_a_broken_connection_that_is_given_back_lets_the_next_thread_connect(redis_url: str) -> None:
    link = of_one(redis_url)

    with ThreadPoolExecutor(1) as threads:
        with holding(link, 1) as [wire]:
            reply = threads.submit(link.execute, "PING")
            eventually(lambda: len(link._waiting) == 1, WITHIN_S)
            wire.close()

        assert b"PONG" == reply.result(WITHIN_S)


def test_a_fork_does_not_wait_for_threads_of_its_parent(redis_url: str) -> None:
    link = of_one(redis_url)
    link._waiting.append(threading.Event())  # of a thread that the fork has not
    link._pid = os.getpid() + 1

    assert b"PONG" == link.execute("PING")


def test_an_adopted_client_keeps_its_number_of_connections(redis_url: str) -> None:
    given = redis.Redis.from_url(redis_url, max_connections=3)
    awaited = redis.asyncio.Redis.from_url(redis_url, max_connections=4)

    with closing(given):
        assert (3, 4) == (Client(given)._link.pool.max_connections, AsyncClient(awaited)._link.pool.max_connections)


def test_a_number_of_connections_is_not_an_option_of_a_question_to_a_node() -> None:
    owner = SlotOwner([("h", 1)], "key", is_tls=False, options={"max_connections": 5, "username": "u"})

    assert {"username", "socket_timeout", "socket_connect_timeout"} == owner._options.keys()
