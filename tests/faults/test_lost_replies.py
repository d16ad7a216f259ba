"""One reply in five is lost on the way back: nothing happens twice, and nothing is missing."""

from collections.abc import Callable

import pytest
import redis

from tests.builders.daemons import Start
from tests.builders.leaders import know
from tests.builders.proxies import Proxy
from tests.ledger import assert_dense, await_queued, doubles, fired, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.errors import RedisUnavailable

pytestmark = pytest.mark.once

ONE_IN_FIVE = 0.2
FUNC = "app.run"


@pytest.fixture
def watch(watch: redis.Redis) -> redis.Redis:
    know(watch)
    return watch


def until_answered(call: Callable[[], object]) -> None:
    """Repeat *call* like a careful caller, while the exception says that this is safe."""
    for _ in range(20):
        try:
            call()
        except RedisUnavailable:
            continue
        return
    raise AssertionError("twenty times without an answer")


def test_calls_with_lost_replies_fire_each_schedule_once(
    server: EmbeddedRedis, proxy: Proxy, watch: redis.Redis, start_daemon: Start
) -> None:
    daemon = start_daemon(proxy.url, DAEMON_RENEW_MS="100")
    daemon.wait_for("term_began")
    client = Client.from_url(proxy.url)
    client.schedule(FUNC, id="warm-up", after=3600)
    due = from_ms(int(watch.time()[0]) * 1000 + 2_000)
    proxy.cut_replies = ONE_IN_FIVE
    anonymous: list[str] = []

    def schedule_anonymously() -> None:
        try:
            anonymous.append(client.schedule(FUNC, at=due, allow_past=True).id)
        except RedisUnavailable as error:  # its message has the id with which the call is safe to repeat
            id = str(error).partition("(id '")[2].partition("'")[0]
            assert id
            anonymous.append(id)
            until_answered(lambda: client.schedule(FUNC, id=id, at=due, allow_past=True))

    def enqueue_now(n: int) -> None:
        try:
            client.enqueue(FUNC, id=f"now-{n}")
        except RedisUnavailable:  # a second call would be a second run, so look whether the first was one
            if not watch.keys(f"{RQ}:job:now-{n}-*"):
                enqueue_now(n)

    for n in range(500):
        until_answered(lambda n=n: client.schedule(FUNC, id=f"named-{n}", at=due, allow_past=True))  # type: ignore[misc]
        schedule_anonymously()
        if n % 5 < 2:
            enqueue_now(n)

    runs = await_queued(watch, 1_200)
    assert [] == doubles([run.rpartition("-")[0] for run in runs])
    assert 1_200 == len(runs) == len(fired(watch))
    expected = {f"named-{n}" for n in range(500)} | set(anonymous) | {f"now-{n}" for n in range(500) if n % 5 < 2}
    assert expected == {run.rpartition("-")[0] for run in runs}
    assert proxy.cuts > 200
    assert 1 == watch.zcard("zsched:{default}:due:normal")
    assert_dense(watch)


def test_recurring_schedules_fire_each_occurrence_once_through_lost_replies(
    proxy: Proxy, watch: redis.Redis, start_daemon: Start
) -> None:
    daemon = start_daemon(proxy.url, DAEMON_RENEW_MS="100")
    daemon.wait_for("term_began")
    client = Client.from_url(proxy.url)
    proxy.cut_replies = ONE_IN_FIVE

    for n in range(20):
        until_answered(lambda n=n: client.schedule(FUNC, id=f"tick-{n}", every=0.2, count=3))  # type: ignore[misc]

    eventually(lambda: watch.zcard("zsched:{default}:due:normal") == 0 and proxy.cuts > 10)
    runs = queued(watch)
    assert [] == doubles(runs)
    assert {f"tick-{n}" for n in range(20)} == {run.rpartition("-")[0] for run in runs}
    assert_dense(watch)


def test_a_new_data_set_gets_its_name_and_fires_through_lost_replies(
    server: EmbeddedRedis, proxy: Proxy, watch: redis.Redis, start_daemon: Start
) -> None:
    watch.flushall()
    Client.from_url(server.url).schedule(FUNC, id="one", after=0)
    proxy.cut_replies = ONE_IN_FIVE

    start_daemon(proxy.url, DAEMON_LEASE_MS="2000")  # timing: so long it asks archives

    eventually(lambda: queued(watch))
    assert watch.hget("zsched:{default}:meta", "gen")


def test_a_half_open_connection_is_given_up_within_the_timeout(
    proxy: Proxy, watch: redis.Redis, start_daemon: Start
) -> None:
    daemon = start_daemon(proxy.url, REDIS_TIMEOUT_S="0.3")
    daemon.wait_for("term_began")

    proxy.half_open = True
    daemon.wait_for("redis_lost")
    proxy.half_open = False

    daemon.wait_for("redis_back")
    Client.from_url(proxy.url).schedule(FUNC, id="one", after=0)
    eventually(lambda: queued(watch))


def test_a_slow_network_does_not_count_as_a_clock_jump(proxy: Proxy, watch: redis.Redis, start_daemon: Start) -> None:
    proxy.delay_s = 0.1
    daemon = start_daemon(proxy.url)
    daemon.wait_for("term_began")
    client = Client.from_url(proxy.url)

    client.schedule(FUNC, id="one", after=0.5)  # timing: early would be wrong, late never is

    eventually(lambda: queued(watch))
    (run, t), = fired(watch)  # fmt: skip
    assert t / 1000 >= int(run.rpartition("-")[2])
    assert [] == daemon.of("clock_jumped") + daemon.of("term_lost")
