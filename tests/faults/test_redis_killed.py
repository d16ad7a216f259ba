"""
Redis itself is killed, restarted or replaced under the leader: nothing is lost or pushed twice, and doubt is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from tests.faults.clocks import now_ms
from tests.faults.ledger import assert_dense, connect, doubles, entries, fired, queued
from tests.faults.processes import SHORT, Start, eventually
from tests.prefix import RQ
from zsched import Client
from zsched.core.clock import SystemClock, from_ms
from zsched.embedded import EmbeddedRedis

RUNS = 20_000 if os.environ.get("ZSCHED_TEST_LONG") == "1" else 2_000
FUNC = "app.run"
LEASE = {"DAEMON_LEASE_MS": "2000", "DAEMON_RENEW_MS": "200"}  # longer than a slow disk takes for an fsync


@contextmanager
def redis_with_aof(fsync: str) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(appendonly=True, config={"appendfsync": fsync}) as server:
        yield server


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_kill_9_of_redis_loses_no_run_and_repeats_none(start_daemon: Start, fsync: str) -> None:
    with redis_with_aof(fsync) as server, connect(server.url) as watch:
        daemon = start_daemon(server.url, **SHORT)
        daemon.wait_for("hold_ended")
        begin_ms = now_ms(watch) + 600
        client = Client.from_url(server.url)
        rows = [{"func": FUNC, "id": f"s{n}", "at": from_ms(begin_ms + n), "allow_past": True} for n in range(RUNS)]
        assert RUNS == client.schedule_many(rows).created
        eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

        server.kill()  # the process alone: what it wrote is with the kernel, so everysec loses nothing either
        daemon.wait_for("redis_lost")
        server.start()
        before = set(queued(watch))

        eventually(lambda: watch.llen(f"{RQ}:queue:default") >= RUNS, within_s=60)
        runs = queued(watch)
        assert [] == doubles(runs)
        assert {f"s{n}-{begin_ms + n}" for n in range(RUNS)} == set(runs)
        assert len(before) > RUNS // 4
        assert_doubtful_ones_are_marked(watch, runs, before)
        assert_dense(watch)
        daemon.wait_for("redis_back")
        assert 1 == len(daemon.of("redis_lost"))
        assert daemon.of("term_began")[1]["hold_ms"] > 0


def assert_doubtful_ones_are_marked(watch: redis.Redis, runs: list[str], before: set[str]) -> None:
    """
    Check that exactly the runs are marked that were pushed after the restart and due before it: they may have been
    pushed before.
    """
    doubt_ms = int(watch.hget("zsched:{default}:meta", "doubt"))
    marked = {run for entry in entries(watch, "fire") for run in entry.fields.get("uncertain", "").split()}
    assert {run for run in runs if run not in before and int(run.rpartition("-")[2]) <= doubt_ms} == marked
    assert marked
    pipe = watch.pipeline(transaction=False)
    for run in runs:
        pipe.hget(f"{RQ}:job:{run}", "zs_uncertain")
    assert marked == {run for run, mark in zip(runs, pipe.execute(), strict=True) if mark == b"1"}


def test_an_uncertain_run_is_fired_or_skipped_by_on_uncertain_and_recorded(start_daemon: Start) -> None:
    with redis_with_aof("always") as server, connect(server.url) as watch:
        daemon = start_daemon(server.url, **SHORT)
        daemon.wait_for("hold_ended")
        client = Client.from_url(server.url)
        due = from_ms(now_ms(watch) + 250)
        for mode in ("refire", "skip"):
            client.schedule(FUNC, id=f"once-{mode}", at=due, on_uncertain=mode)
            client.schedule(FUNC, id=f"rule-{mode}", every=3600, starts=due, on_uncertain=mode)

        server.kill()
        daemon.wait_for("redis_lost")
        eventually(lambda: SystemClock().now_ms() > due.timestamp() * 1000)
        server.start()
        eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 2)
        client.schedule(FUNC, id="later", after=0)
        eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 3)

        assert {"once-refire", "rule-refire", "later"} == {run.rpartition("-")[0] for run in queued(watch)}
        skipped = " ".join(entry.fields.get("skipped", "") for entry in entries(watch, "fire")).split()
        assert ["once-skip"] == [run.rpartition("-")[0] for run in skipped]
        rows = [line.split() for entry in entries(watch, "advance") for line in entry.rows]
        assert {("rule-refire", "uncertain"), ("rule-skip", "skipped")} == {(row[0], row[1]) for row in rows}
        assert 0 == watch.exists(f"{RQ}:job:{skipped[0]}")
        assert {"rule-refire", "rule-skip"} == {
            id.decode() for id in watch.zrange("zsched:{default}:due:normal", 0, -1)
        }
        assert 0 < daemon.wait_for("fire_held", 2)["for_ms"] <= 500


def test_a_leader_does_not_wait_for_its_own_old_lease_after_a_restart_of_redis(start_daemon: Start) -> None:
    with redis_with_aof("always") as server, connect(server.url) as watch:
        daemon = start_daemon(server.url, DAEMON_LEASE_MS="20000", DAEMON_RENEW_MS="200")
        daemon.wait_for("term_began")
        server.kill()
        daemon.wait_for("redis_lost")
        server.start()

        daemon.wait_for("term_began", 2, within_s=10)
        assert watch.pttl("zsched:{default}:lease") > 0


def test_a_leader_acquires_its_lease_again_when_the_server_changes_under_a_connection(start_daemon: Start) -> None:
    with redis_with_aof("always") as server, connect(server.url) as watch:
        daemon = start_daemon(server.url, **LEASE)
        daemon.wait_for("hold_ended")
        client = Client.from_url(server.url)
        due = from_ms(now_ms(watch) + 150)
        client.schedule(FUNC, id="skipped", at=due, on_uncertain="skip")

        watch.hset("zsched:{default}:meta", "server", "a promoted replica led in between")
        lost = daemon.wait_for("term_lost")

        daemon.wait_for("term_began", 2)
        daemon.wait_for("hold_ended", 2)
        client.schedule(FUNC, id="after", after=0)
        eventually(lambda: queued(watch))
        assert "not the one on which the term began" in lost["reason"]
        assert [] == daemon.of("redis_lost")
        doubt_ms = int(watch.hget("zsched:{default}:meta", "doubt"))
        is_in_doubt = due.timestamp() * 1000 <= doubt_ms
        assert ("skipped" in {run.rpartition("-")[0] for run, _ in fired(watch)}) is not is_in_doubt


def test_an_emptied_redis_without_an_archive_starts_anew(start_daemon: Start) -> None:
    with redis_with_aof("always") as server, connect(server.url) as watch:
        daemon = start_daemon(server.url, **LEASE)
        daemon.wait_for("hold_ended")
        client = Client.from_url(server.url)
        client.schedule(FUNC, id="lost", after=3600)

        watch.flushall()
        client.schedule(FUNC, id="new", after=0)

        eventually(lambda: queued(watch))
        assert ["new"] == [run.rpartition("-")[0] for run in queued(watch)]
        daemon.wait_for("hold_ended", 2)
        assert 1 == len(daemon.of("term_lost"))
        assert 2 == len(daemon.of("fire_held"))
