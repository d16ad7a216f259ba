"""A whole daemon while Redis is in trouble or refuses it: its messages, its behaviour, and its recovery."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.builders.daemons import NAP_MS, DaemonProcess, DaemonThread
from tests.builders.redises import connect, own_server
from tests.faults.leases import end_hold
from tests.faults.overdue import become_due
from tests.ledger import await_queued, queued
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.daemon import daemon as daemon_module
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.dispatch import Dispatch, FireResult, Stopped

pytestmark = pytest.mark.redis

FUNC = "app.tasks.run"


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server without a hold, that the test may restart, mistreat and reconfigure."""
    with own_server(appendonly=True) as server:
        yield server


@pytest.fixture
def may_fire(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Leaders in this process fire only when this is set."""
    event, fire = threading.Event(), Dispatch.fire

    def fire_when_set(self: Dispatch, *given: Any) -> FireResult | Stopped:
        event.wait(WITHIN_S)
        return fire(self, *given)

    monkeypatch.setattr(Dispatch, "fire", fire_when_set)
    return event


def test_a_restart_of_redis_is_logged_once_and_firing_continues(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("term_began")
        client.schedule(FUNC, id="waiting", after=3600)
        before = client.schedule(FUNC, id="before", after=0)
        await_queued(watch, 1)

        own_redis.stop()
        daemon.wait_for("redis_lost")
        own_redis.start()
        daemon.wait_for("redis_back")

        end_hold(watch, daemon)
        after, [waiting] = client.schedule(FUNC, id="after", after=0), become_due(watch, "waiting")
        assert {before.run_id, after.run_id, waiting} == set(await_queued(watch, 3))
    assert 1 == len(daemon.of("redis_lost"))
    assert 1 == len(daemon.of("redis_back"))
    assert 2 == len(daemon.of("term_began"))


def test_a_leader_fires_in_a_new_redis_when_its_archive_has_followed(
    client: Client, redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_followed, asked = threading.Event(), list[object]()
    monkeypatch.setattr(daemon_module, "AWAITED_MS", 60_000.0)
    monkeypatch.setattr(Archivers, "has_followed", lambda *of: asked.append(of) or has_followed.is_set())
    redis_client.hdel("zsched:{default}:meta", "server")  # so that it is another one now
    with DaemonThread(redis_url) as daemon:
        run = client.schedule(FUNC, id="a", after=0)
        daemon.wait_for("term_began")
        redis_client.hset("zsched:{default}:meta", "hold", 0)
        number = len(asked)
        eventually(lambda: len(asked) > number + 3)
        assert [] == queued(redis_client)

        has_followed.set()

        assert [run.run_id] == await_queued(redis_client, 1)


def test_a_leader_does_not_wait_for_ever_for_an_archive_that_does_not_follow(
    client: Client, redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "AWAITED_MS", 300.0)
    monkeypatch.setattr(Archivers, "has_followed", lambda *_: False)
    redis_client.hdel("zsched:{default}:meta", "server")  # so that it is another one now
    with DaemonThread(redis_url, lease_ms=5_000):  # as long as it waits before
        run = client.schedule(FUNC, id="a", after=0)

        assert [run.run_id] == await_queued(redis_client, 1)


def test_a_redis_that_loads_its_data_is_logged_once(own_redis: EmbeddedRedis) -> None:
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
        await_queued(redis_client, 1)

        redis_client.script_flush()
        client.schedule(FUNC, id="one", after=0)

        eventually(lambda: [run for run in queued(redis_client) if run.startswith("one-")])
    assert ["term_began"] == [event["event"] for event in daemon.events if "term" in event["event"]][:1]
    assert [] == daemon.of("term_lost") + daemon.of("redis_lost")


def test_a_leader_stops_while_its_server_is_a_replica(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url, renew_ms=50) as daemon:
        daemon.wait_for("term_began")
        client.schedule(FUNC, id="one", after=3600)

        watch.replicaof("127.0.0.1", "1")  # nobody is there, so the data stays
        refused = daemon.wait_for("leading_refused")
        for _ in range(3):
            look_again(watch)
        watch.replicaof("NO", "ONE")
        eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and len(daemon.of("term_began")) == 2)
        become_due(watch, "one")
        end_hold(watch, daemon)

        assert [run.rpartition("-")[0] for run in await_queued(watch, 1)] == ["one"]
    assert "it is a replica" in refused["reason"]
    assert 1 == len(daemon.of("leading_refused"))
    assert 1 == len(daemon.of("redis_lost"))  # READONLY


def look_again(watch: redis.Redis) -> None:
    """End the pause of a daemon that may not lead, and wait until it has connected once more."""
    before = watch.info("stats")["total_connections_received"]
    eventually(lambda: watch.publish("zsched:{default}:wake", "lease"))
    eventually(lambda: watch.info("stats")["total_connections_received"] > before)


def test_a_daemon_does_not_lead_while_keys_may_be_evicted(own_redis: EmbeddedRedis) -> None:
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
            await_queued(watch, 1)

    assert "allkeys-lru" in refused["reason"]
    assert 1 == len(daemon.of("leading_refused"))
    assert [] == daemon.of("redis_lost")


def test_a_daemon_leads_with_an_evicting_policy_if_configured(own_redis: EmbeddedRedis) -> None:
    with connect(own_redis.url) as watch:
        watch.config_set("maxmemory", "1gb")
        watch.config_set("maxmemory-policy", "allkeys-lru")
    with DaemonThread(own_redis.url, allow_eviction=True) as daemon:
        daemon.wait_for("term_began")


def test_a_daemon_fires_after_redis_was_out_of_memory(own_redis: EmbeddedRedis, may_fire: threading.Event) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("term_began")
        one = client.schedule(FUNC, id="one", after=0)
        watch.config_set("maxmemory", "1")

        may_fire.set()
        daemon.wait_for("redis_refused")
        assert 1 == watch.zcard("zsched:{default}:due:normal")
        assert b"scheduled" == watch.hget(f"{RQ}:job:{one.run_id}", "status")
        assert 0 == watch.llen(f"{RQ}:queue:default")
        watch.config_set("maxmemory", "0")
        daemon.daemon._waker.wake()

        assert [one.run_id] == await_queued(watch, 1)
    assert 1 == len(daemon.of("redis_refused"))


def test_a_daemon_waits_for_a_redis_that_cannot_save(own_redis: EmbeddedRedis, may_fire: threading.Event) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("term_began")
        one = client.schedule(FUNC, id="one", after=0)
        (own_redis.folder / "dump.rdb").mkdir()  # a folder: every save fails
        watch.config_set("save", "3600 1")
        watch.bgsave()
        eventually(lambda: watch.info("persistence")["rdb_last_bgsave_status"] == "err")

        may_fire.set()
        daemon.wait_for("redis_refused")
        watch.config_set("stop-writes-on-bgsave-error", "no")
        daemon.daemon._waker.wake()

        assert [one.run_id] == await_queued(watch, 1)
        watch.config_set("save", "")  # else it would not end without having saved
    assert 1 == len(daemon.of("redis_refused"))


def test_a_daemon_waits_for_a_redis_that_is_busy_with_a_script(own_redis: EmbeddedRedis) -> None:
    client = Client.from_url(own_redis.url)
    with connect(own_redis.url) as watch, DaemonThread(own_redis.url) as daemon:
        daemon.wait_for("term_began")
        watch.config_set("lua-time-limit", "20")
        busy = threading.Thread(target=_run_for_ever, args=(own_redis.url,))
        busy.start()
        daemon.wait_for("redis_lost")
        watch.script_kill()
        busy.join()

        daemon.wait_for("redis_back")
        client.schedule(FUNC, id="one", after=0)
        await_queued(watch, 1)
    assert 1 == len(daemon.of("redis_lost"))


def _run_for_ever(url: str) -> None:
    with connect(url) as client, pytest.raises(redis.ResponseError, match="killed"):
        client.eval("while true do end", 0)


def test_a_missing_password_is_logged_and_ends_the_daemon(own_redis: EmbeddedRedis, guard: Guard) -> None:
    with connect(own_redis.url) as watch:
        watch.config_set("requirepass", "secret")
    daemon = DaemonProcess(guard, own_redis.url)

    assert 1 == daemon.wait()
    assert "password" in daemon.of("daemon_failed")[0]["reason"]


def test_a_lost_connection_does_not_cost_the_leader_its_lease(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    with DaemonThread(redis_url, idle_ms=50) as daemon:
        daemon.wait_for("term_began")

        redis_client.client_kill_filter(_type="normal", skipme=True)
        daemon.wait_for("redis_lost")
        client.schedule(FUNC, id="one", after=0)

        await_queued(redis_client, 1)
    assert 1 == len(daemon.of("redis_back"))


def test_a_lease_of_another_daemon_prevents_leading(client: Client, redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.config_resetstat()
    redis_client.set("zsched:{default}:lease", f"other:7:{NAP_MS}:nonce", px=NAP_MS)
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("daemon_started")
        eventually(lambda: redis_client.info("commandstats").get("cmdstat_evalsha"))
        assert [] == daemon.of("term_began")

        redis_client.delete("zsched:{default}:lease")
        eventually(lambda: redis_client.publish("zsched:{default}:wake", "lease") and daemon.of("term_began"))


def test_a_signal_ends_a_daemon_without_redis(own_redis: EmbeddedRedis, guard: Guard) -> None:
    own_redis.stop()
    daemon = DaemonProcess(guard, own_redis.url)
    daemon.wait_for("redis_lost")

    daemon.send(signal.SIGTERM)

    assert 0 == daemon.wait()
