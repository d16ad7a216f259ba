"""
Redis itself is killed, restarted or replaced under the leader: nothing is lost or pushed twice, and doubt is recorded.
"""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis

from tests.builders.daemons import STEADY_MS, DaemonProcess, Start
from tests.builders.redises import own_server
from tests.faults.leases import end_hold
from tests.faults.overdue import become_due
from tests.ledger import assert_dense, await_queued, doubles, entries, fired, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.storage.archivers import ArchiveState

RUNS = 20_000 if os.environ.get("ZSCHED_TEST_LONG") == "1" else 2_000
FUNC = "app.run"


@pytest.fixture(params=["always"])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedRedis]:
    """A server with an append-only file, as often synced as the parameter says."""
    with own_server(appendonly=True, config={"appendfsync": request.param}) as server:
        yield server


@pytest.fixture
def daemon(start_daemon: Start, server: EmbeddedRedis) -> DaemonProcess:
    """A daemon that leads."""
    daemon = start_daemon(server.url)
    daemon.wait_for("term_began")
    return daemon


def restart(server: EmbeddedRedis, daemon: DaemonProcess) -> None:
    """Kill Redis and start it again; the daemon knows that it was away, and is suspended."""
    server.kill()  # the process alone: what it wrote is with the kernel, so everysec loses nothing either
    daemon.wait_for("redis_lost")
    daemon.send_to_all(signal.SIGSTOP)
    server.start()


def archived(server: EmbeddedRedis) -> None:
    """Put a schedule, and wait until an archive has it."""
    client = Client.from_url(server.url)
    eventually(lambda: [one for one in client._overview().archives if one.state is ArchiveState.FOLLOWING])
    client.schedule(FUNC, id="before", after=3600, durable=True)


def put_in_the_past(server: EmbeddedRedis) -> str:
    """Put a one-shot that should have run two hours ago, but not twice; return its run's id."""
    at = datetime.now(UTC) - timedelta(hours=2)
    put = Client.from_url(server.url).schedule(FUNC, id="late", at=at, allow_past=True, on_uncertain="skip")
    return str(put.run_id)


def test_a_one_shot_put_in_the_past_after_a_restart_without_loss_is_certain(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    archived(server)
    server.kill()
    daemon.wait_for("redis_lost")
    server.start()
    daemon.wait_for("doubt_ended")
    end_hold(watch, daemon)

    run = put_in_the_past(server)

    assert [run] == await_queued(watch, 1)
    assert watch.hget(f"{RQ}:job:{run}", "zs_uncertain") is None
    assert not [entry for entry in entries(watch, "fire") if "skipped" in entry.fields]


def test_a_one_shot_put_again_after_a_loss_stays_in_doubt(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    archived(server)
    first = put_in_the_past(server)
    assert [first] == await_queued(watch, 1)
    watch.flushall()
    daemon.wait_for("recovery_done")
    end_hold(watch, daemon)
    server.kill()  # and once more, without a loss
    daemon.wait_for("redis_lost")
    server.start()
    daemon.wait_for("doubt_ended")
    end_hold(watch, daemon)

    again = Client.from_url(server.url).schedule(
        FUNC, id="late", at=from_ms(int(first.rpartition("-")[2])), allow_past=True, on_uncertain="skip"
    )

    eventually(lambda: any("skipped" in entry.fields for entry in entries(watch, "fire")))
    assert first == again.run_id


@pytest.mark.parametrize("server", ["always", "everysec"], indirect=True)
def test_kill_9_of_redis_loses_no_run_and_repeats_none(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    ids = [f"s{n}" for n in range(RUNS)]
    assert (
        RUNS == Client.from_url(server.url).schedule_many({"func": FUNC, "id": id, "after": 3600} for id in ids).created
    )
    before = become_due(watch, *ids[: RUNS // 2])
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

    restart(server, daemon)
    pushed = set(queued(watch))
    after = become_due(watch, *ids[RUNS // 2 :])
    daemon.send_to_all(signal.SIGCONT)
    end_hold(watch, daemon)

    runs = await_queued(watch, RUNS)
    assert [] == doubles(runs)
    assert {*before, *after} == set(runs)
    marked = {run for entry in entries(watch, "fire") for run in entry.fields.get("uncertain", "").split()}
    assert set(runs) - pushed == marked  # due before the restart, pushed after it: they may have been pushed before
    assert marked == {run for run in runs if watch.hget(f"{RQ}:job:{run}", "zs_uncertain") == b"1"}
    assert_dense(watch)
    daemon.wait_for("redis_back")
    assert 1 == len(daemon.of("redis_lost"))
    assert daemon.of("term_began")[1]["hold_ms"] > 0


def test_an_uncertain_run_is_fired_or_skipped_by_on_uncertain_and_recorded(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    client = Client.from_url(server.url)
    for mode in ("refire", "skip"):
        client.schedule(FUNC, id=f"once-{mode}", after=3600, on_uncertain=mode)
        client.schedule(FUNC, id=f"rule-{mode}", every=3600, on_uncertain=mode)

    restart(server, daemon)
    become_due(watch, *(schedule.id for schedule in client.list()))
    daemon.send_to_all(signal.SIGCONT)
    end_hold(watch, daemon)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 2)
    client.schedule(FUNC, id="later", after=0)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") >= 3)

    assert {"once-refire", "rule-refire", "later"} == {run.rpartition("-")[0] for run in queued(watch)}
    skipped = " ".join(entry.fields.get("skipped", "") for entry in entries(watch, "fire")).split()
    assert ["once-skip"] == [run.rpartition("-")[0] for run in skipped]
    rows = [line.split() for entry in entries(watch, "advance") for line in entry.rows]
    assert {("rule-refire", "uncertain"), ("rule-skip", "skipped")} == {(row[0], row[1]) for row in rows}
    assert 0 == watch.exists(f"{RQ}:job:{skipped[0]}")
    assert [b"rule-refire", b"rule-skip"] == sorted(watch.zrange("zsched:{default}:due:normal", 0, -1))
    assert 0 < daemon.of("fire_held")[0]["for_ms"] <= STEADY_MS


def test_a_leader_does_not_wait_for_its_own_old_lease_after_a_restart_of_redis(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    restart(server, daemon)
    assert watch.pttl("zsched:{default}:lease") > 0

    daemon.send_to_all(signal.SIGCONT)

    daemon.wait_for("term_began", 2)
    assert watch.pttl("zsched:{default}:lease") > 0


def test_a_leader_acquires_its_lease_again_when_the_server_changes_under_a_connection(
    daemon: DaemonProcess, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    client = Client.from_url(server.url)
    daemon.send_to_all(signal.SIGSTOP)
    client.schedule(FUNC, id="skipped", after=0, on_uncertain="skip")

    watch.hset("zsched:{default}:meta", "server", "a promoted replica led in between")
    daemon.send_to_all(signal.SIGCONT)

    lost = daemon.wait_for("term_lost")
    daemon.wait_for("term_began", 2)
    end_hold(watch, daemon)
    client.schedule(FUNC, id="after", after=0)
    eventually(lambda: queued(watch))
    assert "not the one on which the term began" in lost["reason"]
    assert [] == daemon.of("redis_lost")
    assert ["after"] == [run.rpartition("-")[0] for run, _ in fired(watch)]
