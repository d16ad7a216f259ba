"""A whole daemon on a real Redis: when it fires, when it leads, and what it says and does about trouble."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from rq.job import Job

from tests.faults.ledger import connect, doubles, entries, fired, queued
from tests.faults.overdue import put_due
from tests.faults.processes import DaemonProcess, eventually
from tests.faults.threads import DaemonThread, know
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.redis
NAP_MS = 60_000  # lease and idle time with which nothing but a wake-up ends a sleep
FUNC = "app.tasks.run"


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> Client:
    know(redis_client)
    redis_client.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    redis_client.config_resetstat()
    return Client.from_url(redis_url)


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that the test may restart, mistreat and reconfigure."""
    with EmbeddedRedis(appendonly=True) as server:
        yield server


def now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def nominal_ms(run: str) -> int:
    return int(run.rpartition("-")[2])


def wait_for_runs(client: redis.Redis, number: int) -> list[str]:
    eventually(lambda: client.llen("rq:queue:default") >= number)
    return queued(client)


# -- firing -------------------------------------------------------------------------------------------


def test_one_shots_fire_in_order_never_early_and_soon(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url, lease_ms=NAP_MS, renew_ms=NAP_MS // 3, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        begin_ms = now_ms(redis_client) + 500
        rows = ({"func": FUNC, "id": f"s{n}", "at": from_ms(begin_ms + 5 * n), "allow_past": True} for n in range(200))
        assert 200 == client.schedule_many(rows).created
        runs = wait_for_runs(redis_client, 200)

    assert [f"s{n}-{begin_ms + 5 * n}" for n in range(200)] == runs
    late_ms = [t / 1000 - nominal_ms(run) for run, t in fired(redis_client)]
    assert min(late_ms) >= 0
    assert min(late_ms) < 50  # one of them, in a second; the others as soon as a busy machine lets them


def test_recurring_ones_fire_at_every_occurrence_and_never_early(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url):
        client.schedule(FUNC, id="tick", every=0.1, count=8)
        eventually(lambda: client.get("tick").state.value == "ended")

    rows = [line.split() for entry in entries(redis_client, "advance") for line in entry.fields["moves"].splitlines()]
    nominals = [int(row[2]) for row in rows]
    assert [nominals[0] + 100 * n for n in range(8)] == _with_coalesced(rows)
    assert sorted(set(nominals)) == nominals
    assert [] == [run for run, t in fired(redis_client) if t < nominal_ms(run) * 1000]


def _with_coalesced(rows: list[list[str]]) -> list[int]:
    """Nominal times of *rows*, those in coalesced ranges included (a busy machine may be late)."""
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
    client.schedule(FUNC, id="later", after=3600)
    with DaemonThread(redis_url, lease_ms=NAP_MS, renew_ms=NAP_MS // 3, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: redis_client.pubsub_numsub("zsched:{default}:wake")[0][1] == 1)

        client.schedule(FUNC, id="sooner", after=0.05)

        [run] = wait_for_runs(redis_client, 1)  # within less than a nap
    assert run.startswith("sooner-")


def test_ten_thousand_on_one_millisecond_fire_once_each(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    due_ms = now_ms(redis_client) + 1_500
    many = client.schedule_many({"func": FUNC, "id": f"s{n}", "at": from_ms(due_ms)} for n in range(10_000))
    assert 10_000 == many.created

    with DaemonThread(redis_url):
        runs = wait_for_runs(redis_client, 10_000)

    assert [] == doubles(runs)
    assert {f"s{n}-{due_ms}" for n in range(10_000)} == set(runs)
    assert all(t >= due_ms * 1000 for _, t in fired(redis_client))


def test_thousands_of_recurring_ones_on_one_millisecond_fire_once_each(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    due_ms, next_ms = put_due(client, redis_client, [f"r{n}" for n in range(4_000)], {"func": FUNC})

    with DaemonThread(redis_url):
        runs = wait_for_runs(redis_client, 4_000)

    assert {f"r{n}-{due_ms}" for n in range(4_000)} == set(runs)
    assert [] == doubles(runs)
    assert 4_000 == redis_client.zcount("zsched:{default}:due:normal", next_ms, next_ms)


def test_a_schedule_late_by_several_occurrences_fires_the_latest_and_records_the_others_in_one_range(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.schedule(FUNC, id="tick", every=0.05)
    first_ms = int(redis_client.zscore("zsched:{default}:due:normal", "tick"))
    eventually(lambda: now_ms(redis_client) > first_ms + 400)

    with DaemonThread(redis_url) as daemon:
        run = wait_for_runs(redis_client, 1)[0]

    _, word, nominal, _, _, passed, _ = entries(redis_client, "advance")[0].fields["moves"].splitlines()[0].split()
    why, first, last, count = passed.split(":")
    assert ("fired", "coalesced") == (word, why)
    assert run == f"tick-{nominal}"
    assert str(first_ms) == first
    assert int(nominal) - 50 == int(last)
    assert (int(nominal) - first_ms) // 50 == int(count) >= 8
    assert int(count) == daemon.of("runs_coalesced")[0]["count"]


def test_a_paused_one_shot_fires_late_when_it_is_resumed(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        one = client.schedule(FUNC, id="one", after=0.15)
        client.pause("one")
        two = client.schedule(FUNC, id="two", after=0.15)
        assert [two.run_id] == wait_for_runs(redis_client, 1)

        client.resume("one")

        assert [two.run_id, one.run_id] == wait_for_runs(redis_client, 2)


def test_a_paused_one_shot_is_gone_when_it_is_resumed_without_what_was_missed(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        client.schedule(FUNC, id="one", after=0.15)
        client.pause("one")
        client.schedule(FUNC, id="two", after=0.15)
        wait_for_runs(redis_client, 1)

        assert client.resume("one", missed="skip") is None
        client.schedule(FUNC, id="three", after=0.05)

        assert ["two", "three"] == [run.rpartition("-")[0] for run in wait_for_runs(redis_client, 2)]
    assert ["skip"] == [entry.fields["missed"] for entry in entries(redis_client, "resume")]


# -- one bad schedule ---------------------------------------------------------------------------------

SCHEDULE, TEMPLATE = "zsched:{default}:schedule:bad", "zsched:{default}:template:bad"


def _make_list(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.rpush(key, "1")


def _make_queue_a_string(client: redis.Redis) -> None:
    client.hset(TEMPLATE, "origin", "odd")
    client.set("rq:queue:odd", "1")


BROKEN: dict[str, Callable[[redis.Redis], Any]] = {
    "trigger is no json": lambda r: r.hset(SCHEDULE, "trigger", "every day"),
    "trigger is no text": lambda r: r.hset(SCHEDULE, "trigger", b"\xff\xfe{"),
    "trigger is gone": lambda r: r.hdel(SCHEDULE, "trigger"),
    "anchor is no number": lambda r: r.hset(SCHEDULE, "anchor", "yesterday"),
    "nominal is gone": lambda r: r.hdel(SCHEDULE, "nominal"),
    "version is gone": lambda r: r.hdel(SCHEDULE, "version"),
    "version is no text": lambda r: r.hset(SCHEDULE, "version", b"\xff"),
    "hash is gone": lambda r: r.delete(SCHEDULE),
    "hash is a list": lambda r: _make_list(r, SCHEDULE),
    "template is gone": lambda r: r.delete(TEMPLATE),
    "template is a list": lambda r: _make_list(r, TEMPLATE),
    "queue is a string": _make_queue_a_string,
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_schedule_broken_by_hand_stops_no_other(
    client: Client, redis_client: redis.Redis, redis_url: str, what: str
) -> None:
    rule = {"every": 3600, "starts": from_ms(now_ms(redis_client) + 300)}
    for id in ("a", "bad", "c"):
        client.schedule(FUNC, id=id, **rule)
    BROKEN[what](redis_client)

    with DaemonThread(redis_url, idle_ms=50) as daemon:
        runs = {run.rpartition("-")[0] for run in wait_for_runs(redis_client, 2)}
        daemon.wait_for("schedule_quarantined")
        client.schedule(FUNC, id="d", after=0)
        wait_for_runs(redis_client, 3)

    assert {"a", "c"} == runs
    assert [b"bad"] == redis_client.hkeys("zsched:{default}:quarantine")
    assert redis_client.zscore("zsched:{default}:due:normal", "bad") is None
    assert ["bad"] == [event["schedule_id"] for event in daemon.of("schedule_quarantined")]


@pytest.mark.parametrize("id", ["a b", "a\nb", "a b c d e f g", "\udcff"])
def test_a_rule_with_an_id_that_none_can_have_stops_no_other(
    client: Client, redis_client: redis.Redis, redis_url: str, id: str
) -> None:
    foreign = id.encode(errors="surrogateescape")
    client.schedule(FUNC, id="good", every=3600, starts=from_ms(now_ms(redis_client) + 300))
    for prefix in (b"zsched:{default}:schedule:", b"zsched:{default}:template:"):
        redis_client.copy(prefix + b"good", prefix + foreign)
    redis_client.zadd("zsched:{default}:due:normal", {foreign: 5})

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("schedule_quarantined")
        runs = wait_for_runs(redis_client, 1)

    assert ["good"] == [run.rpartition("-")[0] for run in runs]
    assert [foreign] == redis_client.hkeys("zsched:{default}:quarantine")
    assert [] == daemon.of("redis_refused")


@pytest.mark.parametrize("member", [b"\xff\xfe", b"a b", b"a\nb", b"", b"x" * 100_000])
def test_a_foreign_member_of_a_lane_stops_nothing(
    client: Client, redis_client: redis.Redis, redis_url: str, member: bytes
) -> None:
    redis_client.zadd("zsched:{default}:due:normal", {member: 5})
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("schedule_quarantined")
        client.schedule(FUNC, id="good", after=0)
        wait_for_runs(redis_client, 1)

    assert redis_client.zcard("zsched:{default}:due:normal") == 0
    assert [member] == redis_client.hkeys("zsched:{default}:quarantine")


@pytest.mark.parametrize("score", ["+inf", "1e300", "-inf", "-5", "1.5"])
def test_a_foreign_score_does_not_keep_the_leader_busy(
    client: Client, redis_client: redis.Redis, redis_url: str, score: str
) -> None:
    redis_client.zadd("zsched:{default}:due:normal", {"odd": float(score)})
    with DaemonThread(redis_url, lease_ms=NAP_MS, renew_ms=NAP_MS // 3, idle_ms=NAP_MS) as daemon:
        daemon.wait_for("term_began")
        client.schedule(FUNC, id="good", after=0)
        wait_for_runs(redis_client, 1)
        client.schedule(FUNC, id="later", after=0.1)
        wait_for_runs(redis_client, 2)
        since_ms, calls = now_ms(redis_client), redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
        eventually(lambda: redis_client.incr("looks") > 100)

        calls = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls
        assert calls <= 10 + 10 * (now_ms(redis_client) - since_ms) / 1000  # other chores ask a few times a second


def test_a_one_shot_that_rq_cancelled_is_not_fired_and_said(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    one = client.schedule(FUNC, id="one", after=0.2)
    assert one.run_id is not None
    Job.fetch(one.run_id, connection=redis_client).cancel()

    with DaemonThread(redis_url) as daemon:
        assert one.run_id == daemon.wait_for("run_cancelled")["run_id"]
        client.schedule(FUNC, id="two", after=0)
        runs = wait_for_runs(redis_client, 1)

    assert ["two"] == [run.rpartition("-")[0] for run in runs]


def test_a_rule_that_took_the_place_of_a_one_shot_run_at_once_goes_on(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    due_ms = now_ms(redis_client) + 400
    client.schedule(FUNC, id="one", at=from_ms(due_ms))
    client.run_now("one")
    client.schedule(FUNC, id="one", every=timedelta(hours=1), starts=from_ms(due_ms))

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("duplicate_suppressed")
        eventually(lambda: redis_client.zscore("zsched:{default}:due:normal", "one") == due_ms + 3_600_000)

    assert "active" == client.get("one").state.value


# -- Redis in trouble ---------------------------------------------------------------------------------


def test_redis_restarted_is_said_once_and_everything_goes_on(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        know(watch)
        daemon.wait_for("term_began")
        before = client.schedule(FUNC, id="before", after=0.01)
        wait_for_runs(watch, 1)
        waiting = client.schedule(FUNC, id="waiting", after=1)

        own_redis.stop()
        daemon.wait_for("redis_lost")
        own_redis.start()
        daemon.wait_for("redis_back")

        daemon.wait_for("term_began", 2)
        after = client.schedule(FUNC, id="after", after=0.01)
        assert [before.run_id, after.run_id, waiting.run_id] == _by_id(wait_for_runs(watch, 3), "before after waiting")
    assert 1 == len(daemon.of("redis_lost"))
    assert 1 == len(daemon.of("redis_back"))
    assert 1 <= len(daemon.of("fire_held"))


def _by_id(runs: list[str], order: str) -> list[str]:
    return sorted(runs, key=lambda run: order.split().index(run.rpartition("-")[0]))


def test_a_redis_that_loads_its_data_is_said_once(own_redis: EmbeddedRedis) -> None:
    with connect(own_redis.url) as watch:
        pipe = watch.pipeline(transaction=False)
        for n in range(6_000):
            pipe.set(f"k{n}", n)
        pipe.execute()
    slow = own_redis.folder / "redis.conf"
    own_redis._settings["key-load-delay"] = "250"  # µs per key: 1.5 s in all
    with DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("term_began")
        own_redis.stop()
        own_redis.start()
        daemon.wait_for("term_began", 2)

    assert "key-load-delay 250" in slow.read_text()
    assert 1 == len(daemon.of("redis_lost"))
    assert 1 == len(daemon.of("redis_back"))


def test_forgotten_scripts_are_loaded_again(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        client.schedule(FUNC, id="tick", every=0.05)
        wait_for_runs(redis_client, 1)

        redis_client.script_flush()
        client.schedule(FUNC, id="one", after=0.01)

        eventually(lambda: [run for run in queued(redis_client) if run.startswith("one-")])
    assert ["term_began"] == [event["event"] for event in daemon.events if "term" in event["event"]][:1]
    assert [] == daemon.of("term_lost") + daemon.of("redis_lost")


def test_a_leader_whose_server_becomes_a_replica_stops_and_leads_again_when_it_is_a_master(
    own_redis: EmbeddedRedis,
) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("hold_ended")
        client.schedule(FUNC, id="one", after=0.3)

        watch.replicaof("127.0.0.1", "1")  # nobody is there, so the data stays
        refused = daemon.wait_for("leading_refused")
        for _ in range(3):
            look_again(watch)
        watch.replicaof("NO", "ONE")
        eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and len(daemon.of("term_began")) == 2)

        assert [run.rpartition("-")[0] for run in wait_for_runs(watch, 1)] == ["one"]
    assert "slave" in refused["reason"]
    assert 1 == len(daemon.of("leading_refused"))
    assert 1 == len(daemon.of("redis_lost"))  # READONLY


def look_again(watch: redis.Redis) -> None:
    """End the pause of a daemon that may not lead, and wait until it has connected once more."""
    before = watch.info("stats")["total_connections_received"]
    eventually(lambda: watch.publish("zsched:{default}:wake", "lease"))
    eventually(lambda: watch.info("stats")["total_connections_received"] > before)


def test_it_does_not_lead_where_keys_may_be_evicted_until_that_is_mended(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch:
        client.schedule(FUNC, id="one", after=0)
        watch.config_set("maxmemory", "1gb")
        watch.config_set("maxmemory-policy", "allkeys-lru")
        with DaemonThread(own_redis.url) as daemon:
            refused = daemon.wait_for("leading_refused")
            for _ in range(3):
                look_again(watch)
            assert 0 == watch.exists("zsched:{default}:lease")

            watch.config_set("maxmemory-policy", "noeviction")
            eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and daemon.of("term_began"))
            wait_for_runs(watch, 1)

    assert "allkeys-lru" in refused["reason"]
    assert 1 == len(daemon.of("leading_refused"))
    assert [] == daemon.of("redis_lost")


def test_it_leads_where_keys_may_be_evicted_if_that_is_allowed(own_redis: EmbeddedRedis) -> None:
    with connect(own_redis.url) as watch:
        watch.config_set("maxmemory", "1gb")
        watch.config_set("maxmemory-policy", "allkeys-lru")
    with DaemonThread(own_redis.url, allow_eviction=True) as daemon:
        daemon.wait_for("term_began")


def test_out_of_memory_nothing_is_half_done_and_it_goes_on_when_there_is_some(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("hold_ended")
        one = client.schedule(FUNC, id="one", after=0.3)
        watch.config_set("maxmemory", "1")

        daemon.wait_for("redis_refused")
        assert 1 == watch.zcard("zsched:{default}:due:normal")
        assert b"scheduled" == watch.hget(f"rq:job:{one.run_id}", "status")
        assert 0 == watch.llen("rq:queue:default")
        watch.config_set("maxmemory", "0")
        daemon.daemon._waker.wake()

        assert [one.run_id] == wait_for_runs(watch, 1)
    assert 1 == len(daemon.of("redis_refused"))


def test_a_redis_that_cannot_save_is_waited_for(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("hold_ended")
        one = client.schedule(FUNC, id="one", after=0.6)
        (own_redis.folder / "dump.rdb").mkdir()  # a folder: every save fails
        watch.config_set("save", "3600 1")
        watch.bgsave()
        eventually(lambda: watch.info("persistence")["rdb_last_bgsave_status"] == "err")

        daemon.wait_for("redis_refused")
        watch.config_set("stop-writes-on-bgsave-error", "no")
        daemon.daemon._waker.wake()

        assert [one.run_id] == wait_for_runs(watch, 1)
        watch.config_set("save", "")  # else it would not end without having saved
    assert 1 == len(daemon.of("redis_refused"))


def test_a_redis_that_is_busy_with_a_script_is_waited_for(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("hold_ended")
        watch.config_set("lua-time-limit", "20")
        busy = threading.Thread(target=_run_for_ever, args=(own_redis.url,))
        busy.start()
        daemon.wait_for("redis_lost")
        watch.script_kill()
        busy.join()

        daemon.wait_for("redis_back")
        client.schedule(FUNC, id="one", after=0)
        wait_for_runs(watch, 1)
    assert 1 == len(daemon.of("redis_lost"))


def _run_for_ever(url: str) -> None:
    with connect(url) as client, pytest.raises(redis.ResponseError, match="killed"):
        client.eval("while true do end", 0)


def test_a_missing_password_is_said_and_ends_the_daemon(own_redis: EmbeddedRedis, guard: Guard) -> None:
    with connect(own_redis.url) as watch:
        watch.config_set("requirepass", "secret")
    daemon = DaemonProcess(guard, own_redis.url)

    assert 1 == daemon.wait()
    assert "password" in daemon.of("daemon_failed")[0]["reason"]


def test_a_lost_connection_does_not_cost_the_leader_its_lease(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url, lease_ms=NAP_MS, renew_ms=NAP_MS // 3, idle_ms=50) as daemon:
        daemon.wait_for("term_began")

        redis_client.client_kill_filter(_type="normal", skipme=True)
        daemon.wait_for("redis_lost")
        client.schedule(FUNC, id="one", after=0)

        wait_for_runs(redis_client, 1)
    assert 1 == len(daemon.of("redis_back"))


def test_another_daemons_lease_is_an_obstacle(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.set("zsched:{default}:lease", f"other:7:{NAP_MS}:nonce", px=NAP_MS)
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("daemon_started")
        eventually(lambda: redis_client.info("commandstats").get("cmdstat_evalsha"))
        assert [] == daemon.of("term_began")

        redis_client.delete("zsched:{default}:lease")
        eventually(lambda: redis_client.publish("zsched:{default}:wake", "lease") and daemon.of("term_began"))


# -- processes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_leader_and_standby_with_exit_code_0_and_no_lease_is_left(
    redis_url: str, redis_client: redis.Redis, guard: Guard, name: str
) -> None:
    know(redis_client)
    leader = DaemonProcess(guard, redis_url)
    leader.wait_for("term_began")
    standby = DaemonProcess(guard, redis_url)
    standby.wait_for("daemon_started")

    leader.send(signal.Signals[name])
    standby.wait_for("term_began")
    standby.send(signal.Signals[name])

    assert [0, 0] == [leader.wait(), standby.wait()]
    assert 0 == redis_client.exists("zsched:{default}:lease")
    for daemon in (leader, standby):  # their archivers tell what they do from threads of their own
        names = (event["event"] for event in daemon.events)
        told = [name for name in names if not name.startswith("archive_") and name != "zone_rules_noted"]
        assert ["daemon_started", "term_began", "term_ended", "daemon_stopped"] == told


def test_a_signal_ends_a_daemon_without_redis(own_redis: EmbeddedRedis, guard: Guard) -> None:
    own_redis.stop()
    daemon = DaemonProcess(guard, own_redis.url)
    daemon.wait_for("redis_lost")

    daemon.send(signal.SIGTERM)

    assert 0 == daemon.wait()
