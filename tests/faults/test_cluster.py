"""
Client, daemon and archive on a real Redis Cluster of three masters: failovers, a moved slot, a node that loses all
data.

The tests print the time without dispatch (``-rA``). Short by default; ``ZSCHED_TEST_LONG=1`` is 20,000 one-shots. They
are due 500 a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

import pytest
import redis

from tests.builders.clusters import ENV, PREFIX, Cluster
from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import Leader, know
from tests.builders.redises import connect
from tests.faults.leases import await_listeners, eventually_without_hold
from tests.ledger import assert_dense, doubles, fired, longest_pause_ms
from tests.prefix import needs_prefix
from tests.waiting import WITHIN_S, eventually
from zsched import Client, RedisUnavailable
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import SlotMoves
from zsched.storage.keys import Keys
from zsched.storage.scripts import load

pytestmark = needs_prefix

RUNS = 20_000 if os.environ.get("ZSCHED_TEST_LONG") == "1" else 3_000
EVERY_MS = 2
QUEUE = f"{PREFIX}:queue:default"


def lead(cluster: Cluster, start_daemon: Start) -> DaemonProcess:
    """Start a daemon; return it when it leads, without a hold."""
    with connect(cluster.owner().tcp_url) as owner:
        know(owner)
    daemon = start_daemon(cluster.url, **ENV)
    daemon.wait_for("term_began")
    return daemon


def client_of(cluster: Cluster, **options: Any) -> Client:
    return Client.from_url(cluster.url, rq_prefix=PREFIX, **options)


def schedule_stream(cluster: Cluster, number: int = RUNS) -> list[str]:
    """
    Schedule one-shots, 500 a second, also where a busy machine is late; return their run ids. They are on the owner's
    replicas when this returns.
    """
    with connect(cluster.owner().tcp_url) as owner:
        begin_ms = int(owner.time()[0]) * 1000 + 2_000
        due = [from_ms(begin_ms + EVERY_MS * n) for n in range(number)]
        rows = [{"func": "app.run", "id": f"s{n:05d}", "at": at, "allow_past": True} for n, at in enumerate(due)]
        assert number == client_of(cluster).schedule_many(rows).created
        replicas = owner.info("replication")["connected_slaves"]
        owner.set("{default}marker", "x")
        assert replicas == owner.wait(replicas, int(1000 * WITHIN_S))
    return [f"s{n:05d}-{begin_ms + EVERY_MS * n}" for n in range(number)]


def queue_of(cluster: Cluster) -> list[str]:
    """Return the run ids in the queue, wherever its slot is; none while the owner is unknown."""
    with suppress(redis.RedisError), connect(cluster.owner().tcp_url) as owner:
        return [run.decode() for run in owner.lrange(QUEUE, 0, -1)]
    return []


def length(server: EmbeddedRedis) -> int:
    with connect(server.tcp_url) as client:
        return int(client.llen(QUEUE))


def assert_each_once_or_marked(cluster: Cluster, expected: list[str]) -> set[str]:
    """Check that no run is lost and that runs pushed twice are marked as uncertain. Return the marked runs."""
    queue = queue_of(cluster)
    with connect(cluster.owner().tcp_url) as owner:
        log = [run for run, _ in fired(owner)]
        marked = {run for run in expected if owner.hexists(f"{PREFIX}:job:{run}", "zs_uncertain")}
        assert_dense(owner)
        pause_ms = longest_pause_ms(owner)  # after a FLUSHALL: of what was pushed since
    assert set(expected) <= set(queue)
    assert set(doubles(queue)) <= marked
    assert set(doubles(log)) <= marked
    sys.stdout.write(
        f"measured: {pause_ms / 1000:.2f} s without dispatching, {len(marked)} of {len(expected)} runs marked,"
        f" {len(doubles(queue))} twice in the queue, {len(doubles(log))} twice in the log\n"
    )
    return marked


class Putting:
    """A thread that puts one-shots, one after the other, until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self.runs, self.refused = list[str](), list[str]()
        self._client, self._is_over = client_of(cluster, timeout_s=WITHIN_S), Event()
        self._thread = Thread(target=self._put)

    def __enter__(self) -> Putting:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _put(self) -> None:
        while not self._is_over.is_set():
            try:
                put = self._client.schedule("app.run", id=f"p{len(self.runs):05d}", after=0.5, if_exists="keep")
            except RedisUnavailable as error:
                self.refused.append(str(error))
                continue
            self.runs.append(put.run_id or "")


@pytest.mark.parametrize("way", ["asked for", "kill -9"])
def test_dispatch_continues_on_the_new_owner_after_a_failover(guard: Guard, start_daemon: Start, way: str) -> None:
    cluster = Cluster(guard, replicas=1)
    old = cluster.owner()
    lead(cluster, start_daemon)
    start_daemon(cluster.url, **ENV)
    with connect(old.tcp_url) as owner:
        await_listeners(owner, 2)
        expected = schedule_stream(cluster)
        for _ in range(3):  # a listener that has heard messages moves, too
            owner.publish(Keys("default").wake(), "lease")
    eventually(lambda: length(old) > RUNS // 6)

    if way == "kill -9":
        cluster.kill(old)
    else:
        cluster.fail_over()

    cluster.another_than(old)
    eventually_without_hold(cluster.owner, lambda: set(expected) <= set(queue_of(cluster)))
    assert_each_once_or_marked(cluster, expected)
    with connect(cluster.owner().tcp_url) as owner:
        await_listeners(owner, 2)
    done = client_of(cluster).schedule("app.run", id="later", after=0, durable=True)
    eventually_without_hold(cluster.owner, lambda: done.run_id in queue_of(cluster))


@pytest.mark.parametrize("way", [Cluster.move, Cluster.move_whole])
def test_a_slot_moves_under_load_without_loss_or_double(
    guard: Guard, start_daemon: Start, way: Callable[[Cluster, EmbeddedRedis], int]
) -> None:
    cluster = Cluster(guard)
    old, new = cluster.owner(), cluster.another()
    lead(cluster, start_daemon)
    expected = schedule_stream(cluster)
    with Putting(cluster) as putting:
        eventually(lambda: length(old) > RUNS // 6)

        number = way(cluster, new)

        eventually_without_hold(cluster.owner, lambda: set(expected) <= set(queue_of(cluster)))
        before = len(putting.runs)
        eventually(lambda: len(putting.runs) > before + 20)
    eventually_without_hold(cluster.owner, lambda: set(putting.runs) <= set(queue_of(cluster)))
    assert new is cluster.owner()
    sys.stdout.write(f"{number} keys moved; {len(putting.runs)} puts meanwhile, refused: {putting.refused}\n")
    assert_each_once_or_marked(cluster, expected + putting.runs)
    assert [] == doubles(queue_of(cluster))
    assert [] == putting.refused


def test_a_half_moved_slot_is_left_alone_until_the_move_ends(guard: Guard, start_daemon: Start) -> None:
    cluster = Cluster(guard)
    old, new = cluster.owner(), cluster.another()
    daemon = lead(cluster, start_daemon)
    impatient = client_of(cluster, timeout_s=4.0)  # timing: it runs out
    patient = client_of(cluster, timeout_s=WITHIN_S)
    soon = datetime.now().astimezone() + timedelta(hours=1)
    patient.schedule_many({"func": "app.run", "id": f"k{n}", "at": soon} for n in range(50))

    cluster.begin_move(new)
    cluster.move_some(old, new, 20)
    daemon.wait_for("redis_lost")
    with pytest.raises(RedisUnavailable, match=r"a slot of the Redis Cluster at .* is being moved") as caught:
        impatient.schedule("app.run", id="refused", at=soon)
    waiting = Thread(
        target=lambda: patient.schedule_many({"func": "app.run", "id": f"w{n}", "at": soon} for n in range(9))
    )
    waiting.start()
    while cluster.move_some(old, new):
        pass
    cluster.end_move(new)
    waiting.join()

    assert not caught.value.may_have_been_applied
    assert {*(f"k{n}" for n in range(50)), *(f"w{n}" for n in range(9))} == {one.id for one in patient.list()}
    daemon.wait_for("term_began", 2)


def test_a_script_writes_nothing_into_a_moving_slot_although_all_other_keys_exist(guard: Guard) -> None:
    cluster = Cluster(guard)
    client, keys, soon = client_of(cluster), Keys("default", PREFIX), datetime.now().astimezone() + timedelta(hours=1)
    leader = Leader(cluster.url, keys)
    for lane in ("high", "normal", "low"):
        client.schedule("app.run", id=lane, at=soon, priority=lane)
    client.schedule("app.run", id="recurring", every=3600)
    client.schedule("app.run", id="due", after=0)
    with connect(cluster.owner().tcp_url) as owner:
        owner.hset(keys.meta(), "hold", 0)
        owner.hset(keys.quarantine(), "other", "normal 1 1 broken")
        owner.hset(keys.limits(), "other", "- 0")
        owner.zadd(keys.deadlines(), {"other": 9e12})
        owner.sadd(keys.rq.queues(), keys.rq.queue("other"))
        owner.sadd(keys.rq.limits(), "other")
        eventually(lambda: owner.zscore(keys.due_normal(), "due") < owner.time()[0] * 1000)
        assert all(owner.exists(keys.named(key)()) for key in load("fire").keys)
        written = owner.xlen(keys.log())

        cluster.begin_move(cluster.another())
        with pytest.raises(SlotMoves):
            leader.fire()

        assert written == owner.xlen(keys.log())
        assert owner.zscore(keys.due_normal(), "due") is not None


def test_the_archive_restores_what_a_node_lost_under_load(guard: Guard, start_daemon: Start) -> None:
    cluster = Cluster(guard)
    owner = cluster.owner()
    daemon = lead(cluster, start_daemon)
    expected = schedule_stream(cluster)
    eventually(lambda: length(owner) > RUNS // 6)

    with connect(owner.tcp_url) as client, client.pipeline() as at_once:
        at_once.lrange(QUEUE, 0, -1)
        at_once.flushall()
        pushed, _ = at_once.execute()

    daemon.wait_for("recovery_done")
    eventually_without_hold(cluster.owner, lambda: set(expected) <= set(queue_of(cluster)))
    assert {run.decode() for run in pushed} <= assert_each_once_or_marked(cluster, expected)
