"""A whole daemon on a real Redis: its fires, the effect of a bad schedule on others, and its end."""

import os
import re
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq.job import Job

from tests.builders.daemons import NAP_MS, DaemonProcess, DaemonThread
from tests.builders.leaders import know
from tests.clocks import now_ms, set_back
from tests.faults.leases import await_listeners
from tests.faults.overdue import become_due, put_due
from tests.ledger import await_queued, doubles, entries, fired
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.dispatch import Dispatch, FireResult, Stopped, Window
from zsched.storage.lease import Lease, Term

pytestmark = pytest.mark.redis

FUNC = "app.tasks.run"


def nominal_ms(run: str) -> int:
    return int(run.rpartition("-")[2])


# -- firing -------------------------------------------------------------------------------------------


def test_one_shots_fire_in_order_and_never_early(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    with DaemonThread(redis_url, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        await_listeners(redis_client, 1)
        begin_ms = now_ms(redis_client) + 500  # timing: early would be wrong, late never is
        rows = ({"func": FUNC, "id": f"s{n}", "at": from_ms(begin_ms + 5 * n), "allow_past": True} for n in range(200))
        assert 200 == client.schedule_many(rows).created
        runs = await_queued(redis_client, 200)

    assert [f"s{n}-{begin_ms + 5 * n}" for n in range(200)] == runs
    assert [] == [run for run, t in fired(redis_client) if t < nominal_ms(run) * 1000]


def test_recurring_schedules_fire_at_every_occurrence_and_never_early(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url):
        client.schedule(FUNC, id="tick", every=0.1, count=8)
        eventually(lambda: client.get("tick").state.value == "ended")

    rows = [line.split() for entry in entries(redis_client, "advance") for line in entry.rows]
    nominals = [int(row[2]) for row in rows]
    found = _with_coalesced(rows)
    assert [found[0] + 100 * n for n in range(8)] == found
    assert sorted(set(nominals)) == nominals
    assert [] == [run for run, t in fired(redis_client) if t < nominal_ms(run) * 1000]


def _with_coalesced(rows: list[list[str]]) -> list[int]:
    """Return the nominal times of *rows*, including coalesced ranges (a busy machine may be late)."""
    found = []
    for row in rows:
        if row[5] != "-":
            _, first, last, _ = row[5].split(":")
            found += range(int(first), int(last) + 1, 100)
        found.append(int(row[2]))
    return found


def test_a_sleeping_daemon_is_woken_by_an_earlier_put(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    redis_client.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    client.schedule(FUNC, id="later", after=3600)
    with DaemonThread(redis_url, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        await_listeners(redis_client, 1)

        client.schedule(FUNC, id="sooner", after=0.05)  # timing: not due yet when it wakes the daemon

        [run] = await_queued(redis_client, 1)  # within less than a nap
    assert run.startswith("sooner-")


def test_a_renewal_of_the_lease_causes_no_pass(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, renew, fire = list[str](), Lease.renew, Dispatch.fire

    def renewed(self: Lease, term: Term) -> Term:
        calls.append("renew")
        return renew(self, term)

    def fired_once(self: Dispatch, term: Term, window: Window, limit: int) -> FireResult | Stopped:
        calls.append("fire")
        return fire(self, term, window, limit)

    monkeypatch.setattr(Lease, "renew", renewed)
    monkeypatch.setattr(Dispatch, "fire", fired_once)
    with DaemonThread(redis_url, renew_ms=20, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: calls.count("renew") >= 100)

    assert calls.count("fire") < 50  # one a second, for RQ's own jobs


def test_ten_thousand_one_shots_due_in_one_millisecond_fire_once_each(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    ids = [f"s{n}" for n in range(10_000)]
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("archive_bootstrapped")  # of nothing: in this process it would keep the leader from its work
        assert 10_000 == client.schedule_many({"func": FUNC, "id": id, "after": 3600} for id in ids).created
        expected = become_due(redis_client, *ids)

        runs = await_queued(redis_client, 10_000)

    assert [] == doubles(runs)
    assert 1 == len({nominal_ms(run) for run in expected})
    assert set(expected) == set(runs)


def test_thousands_of_recurring_schedules_due_in_one_millisecond_fire_once_each(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("archive_bootstrapped")  # of nothing: in this process it would keep the leader from its work
        due_ms, next_ms = put_due(client, redis_client, [f"r{n}" for n in range(4_000)], {"func": FUNC})

        runs = await_queued(redis_client, 4_000)

    assert {f"r{n}-{due_ms}" for n in range(4_000)} == set(runs)
    assert [] == doubles(runs)
    assert 4_000 == redis_client.zcount("zsched:{default}:due:normal", next_ms, next_ms)


def test_an_overdue_schedule_fires_its_latest_occurrence_and_records_the_others_as_a_range(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.schedule(FUNC, id="tick", every=0.05)
    first_ms = int(redis_client.zscore("zsched:{default}:due:normal", "tick"))
    eventually(lambda: now_ms(redis_client) > first_ms + 400)

    with DaemonThread(redis_url) as daemon:
        run = await_queued(redis_client, 1)[0]

    _, word, nominal, _, _, passed = entries(redis_client, "advance")[0].rows[0].split()
    why, first, last, count = passed.split(":")
    assert ("fired", "coalesced") == (word, why)
    assert run == f"tick-{nominal}"
    assert str(first_ms) == first
    assert int(nominal) - 50 == int(last)
    assert (int(nominal) - first_ms) // 50 == int(count) >= 8
    assert int(count) == daemon.of("runs_coalesced")[0]["count"]


def due_and_the_first_paused(client: Client, redis_client: redis.Redis) -> list[str]:
    """Put two one-shots that are due, the first of them paused. Return their run ids."""
    for id in ("one", "two"):
        client.schedule(FUNC, id=id, after=3600)
    runs = become_due(redis_client, "one", "two")
    client.pause("one")
    return runs


def test_a_paused_one_shot_fires_late_when_it_is_resumed(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    one, two = due_and_the_first_paused(client, redis_client)
    with DaemonThread(redis_url):
        assert [two] == await_queued(redis_client, 1)

        client.resume("one")

        assert [two, one] == await_queued(redis_client, 2)


def test_an_overdue_paused_one_shot_is_removed_when_resumed_with_skip(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    due_and_the_first_paused(client, redis_client)
    with DaemonThread(redis_url):
        await_queued(redis_client, 1)

        assert client.resume("one", missed="skip") is None
        client.schedule(FUNC, id="three", after=0)

        assert ["two", "three"] == [run.rpartition("-")[0] for run in await_queued(redis_client, 2)]
    [resumed] = entries(redis_client, "resume")
    assert ["one"] == [row.split(" ")[0] for row in resumed.rows if " paused:" in row]


# -- one bad schedule ---------------------------------------------------------------------------------

SCHEDULE, TEMPLATE = "zsched:{default}:schedule:bad", "zsched:{default}:template:bad"


def _make_list(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.rpush(key, "1")


BROKEN: dict[str, Callable[[redis.Redis], Any]] = {
    "trigger is no json": lambda r: r.hset(SCHEDULE, "trigger", "every day"),
    "trigger is not text": lambda r: r.hset(SCHEDULE, "trigger", b"\xff\xfe{"),
    "trigger is gone": lambda r: r.hdel(SCHEDULE, "trigger"),
    "anchor is no number": lambda r: r.hset(SCHEDULE, "anchor", "yesterday"),
    "progress is gone": lambda r: r.hdel(SCHEDULE, "progress"),
    "progress is not text": lambda r: r.hset(SCHEDULE, "progress", b"\xff"),
    "progress has no nominal time": lambda r: r.hset(SCHEDULE, "progress", "- - - 1-1-1"),
    "progress has an empty word": lambda r: r.hset(SCHEDULE, "progress", "1767225600000  - 1-1-1"),
    "progress has no version": lambda r: r.hset(SCHEDULE, "progress", "1767225600000 - -"),
    "hash is gone": lambda r: r.delete(SCHEDULE),
    "hash is a list": lambda r: _make_list(r, SCHEDULE),
    "template is gone": lambda r: r.delete(TEMPLATE),
    "template is a list": lambda r: _make_list(r, TEMPLATE),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_schedule_corrupted_by_hand_stops_no_other_schedule(
    client: Client, redis_client: redis.Redis, redis_url: str, what: str
) -> None:
    put_due(client, redis_client, ["a", "bad", "c"], {"func": FUNC})
    BROKEN[what](redis_client)

    with DaemonThread(redis_url, idle_ms=50) as daemon:
        runs = {run.rpartition("-")[0] for run in await_queued(redis_client, 2)}
        daemon.wait_for("schedule_quarantined")
        client.schedule(FUNC, id="d", after=0)
        await_queued(redis_client, 3)

    assert {"a", "c"} == runs
    assert [b"bad"] == redis_client.hkeys("zsched:{default}:quarantine")
    assert redis_client.zscore("zsched:{default}:due:normal", "bad") is None
    assert ["bad"] == [event["schedule_id"] for event in daemon.of("schedule_quarantined")]


@pytest.mark.parametrize("id", ["a b", "a\nb", "a b c d e f g", "\udcff"])
def test_a_rule_with_a_malformed_id_stops_no_other_schedule(
    client: Client, redis_client: redis.Redis, redis_url: str, id: str
) -> None:
    foreign = id.encode(errors="surrogateescape")
    put_due(client, redis_client, ["good"], {"func": FUNC})
    for prefix in (b"zsched:{default}:schedule:", b"zsched:{default}:template:"):
        redis_client.copy(prefix + b"good", prefix + foreign)
    redis_client.zadd("zsched:{default}:due:normal", {foreign: 5})

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("schedule_quarantined")
        runs = await_queued(redis_client, 1)

    assert ["good"] == [run.rpartition("-")[0] for run in runs]
    assert [foreign] == redis_client.hkeys("zsched:{default}:quarantine")
    assert [] == daemon.of("redis_refused")


@pytest.mark.parametrize("member", [b"\xff\xfe", b"a b", b"a\nb", b"", b"x" * 100_000])
def test_a_foreign_member_of_a_lane_stops_no_schedule(
    client: Client, redis_client: redis.Redis, redis_url: str, member: bytes
) -> None:
    redis_client.zadd("zsched:{default}:due:normal", {member: 5})
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("schedule_quarantined")
        client.schedule(FUNC, id="good", after=0)
        await_queued(redis_client, 1)

    assert redis_client.zcard("zsched:{default}:due:normal") == 0
    assert [member] == redis_client.hkeys("zsched:{default}:quarantine")


@pytest.mark.parametrize("score", ["+inf", "1e300", "-inf", "-5", "1.5"])
def test_a_corrupted_score_does_not_keep_the_leader_busy(
    client: Client, redis_client: redis.Redis, redis_url: str, score: str
) -> None:
    redis_client.zadd("zsched:{default}:due:normal", {"odd": float(score)})
    redis_client.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    with DaemonThread(redis_url, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        await_listeners(redis_client, 1)
        client.schedule(FUNC, id="good", after=0)
        await_queued(redis_client, 1)
        client.schedule(FUNC, id="later", after=3600)
        become_due(redis_client, "later")
        await_queued(redis_client, 2)
        since_ms, calls = now_ms(redis_client), redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
        eventually(lambda: redis_client.incr("looks") > 100)

        calls = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls
        assert calls <= 10 + 10 * (now_ms(redis_client) - since_ms) / 1000  # other chores ask a few times a second


def test_a_one_shot_that_rq_cancelled_is_logged_and_not_fired(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    one = client.schedule(FUNC, id="one", after=0)
    assert one.run_id is not None
    Job.fetch(one.run_id, connection=redis_client).cancel()

    with DaemonThread(redis_url) as daemon:
        assert one.run_id == daemon.wait_for("run_cancelled")["run_id"]
        client.schedule(FUNC, id="two", after=0)
        runs = await_queued(redis_client, 1)

    assert ["two"] == [run.rpartition("-")[0] for run in runs]


def test_a_rule_that_replaced_a_one_shot_run_early_continues(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    due_ms = now_ms(redis_client) - 1_800_000
    with set_back(redis_client, 3_600_000):
        client.schedule(FUNC, id="one", at=from_ms(due_ms))
        client.run_now("one")
        client.schedule(FUNC, id="one", every=timedelta(hours=1), starts=from_ms(due_ms))

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("duplicate_suppressed")
        eventually(lambda: redis_client.zscore("zsched:{default}:due:normal", "one") == due_ms + 3_600_000)

    assert "active" == client.get("one").state.value


# -- processes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_leader_and_standby_with_exit_code_0_and_no_lease_is_left(
    redis_url: str, redis_client: redis.Redis, guard: Guard, name: str
) -> None:
    know(redis_client)
    redis_client.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    leader = DaemonProcess(guard, redis_url)
    leader.wait_for("term_began")
    standby = DaemonProcess(guard, redis_url)
    await_listeners(redis_client, 2)

    leader.send(signal.Signals[name])
    standby.wait_for("term_began")
    standby.send(signal.Signals[name])

    assert [0, 0] == [leader.wait(), standby.wait()]
    assert 0 == redis_client.exists("zsched:{default}:lease")
    for daemon in (leader, standby):  # their archivers tell what they do from threads of their own
        names = (event["event"] for event in daemon.events)
        told = [name for name in names if not name.startswith("archive_") and name != "zone_rules_noted"]
        assert ["daemon_started", "term_began", "term_ended", "daemon_stopped"] == told


def test_a_second_signal_ends_a_daemon_whose_redis_hangs_at_once(guard: Guard) -> None:
    with EmbeddedRedis() as server:
        daemon = DaemonProcess(guard, server.url, REDIS_TIMEOUT_S="60")
        daemon.wait_for("term_began")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            daemon.send(signal.SIGTERM)
            eventually(lambda: not is_pending(daemon.pid, signal.SIGTERM))
            assert not daemon.has_ended

            daemon.send(signal.SIGTERM)

            assert -signal.SIGTERM == daemon.wait()
        finally:
            os.kill(server.pid, signal.SIGCONT)


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Return True if a process has not taken a signal yet."""
    [pending] = re.findall(r"ShdPnd:\t(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(pending, 16) >> number - 1 & 1)
