"""A whole daemon under a service manager: its messages, the watchdog, and SIGHUP."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonProcess
from tests.builders.leaders import know
from tests.builders.proxies import Proxy
from tests.integration.service_manager import Manager
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once

WATCHDOG_S = 2.0
NAPS = {"DAEMON_IDLE_MS": "60000"}  # far above WATCHDOG_S, as is the lease


@pytest.fixture
def managers(tmp_path: Path, guard: Guard) -> Iterator[Callable[[], Manager]]:
    """A function that makes managers, each of a separate daemon."""
    made: list[Manager] = []

    def make() -> Manager:
        made.append(Manager(tmp_path / f"manager-{len(made)}", guard))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def manager(managers: Callable[[], Manager]) -> Manager:
    return managers()


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that the test may mistreat."""
    with EmbeddedRedis() as server:
        yield server


# -- ready, and the end -------------------------------------------------------------------------------


@pytest.mark.true_start
def test_a_daemon_is_ready_when_redis_has_answered_and_not_before(manager: Manager, own_redis: EmbeddedRedis) -> None:
    own_redis.stop()
    daemon = manager.start(own_redis.url)
    daemon.wait_for("redis_lost")
    manager.wait_for_status("cannot reach Redis at")
    daemon.send(signal.SIGHUP)
    daemon.wait_for("settings_reloaded")
    assert [] == manager.names("READY", "RELOADING")

    own_redis.start()
    manager.wait_for("READY")
    manager.wait_for_status("leading in epoch 1")
    daemon.stop()

    manager.wait_for("STOPPING")
    assert ["READY", "STOPPING"] == manager.names("READY", "RELOADING", "STOPPING")


def test_the_status_line_names_the_leader_and_a_hold(
    managers: Callable[[], Manager], redis_url: str, redis_client: redis.Redis
) -> None:
    Client.from_url(redis_url).schedule("app.tasks.run", id="later", after=3600)
    leads, stands_by = managers(), managers()

    leader = leads.start(redis_url, **NAPS)
    leads.wait_for_status("leading in epoch 1, held for")
    stands_by.start(redis_url, **NAPS)

    stands_by.wait_for_status(f"standing by for {leader.wait_for('daemon_started')['daemon']}")
    assert leads.of("STATUS")[-1]["value"].endswith("; 0 due; 1 waiting")


# -- the watchdog -------------------------------------------------------------------------------------


def test_the_leader_and_a_standby_feed_the_watchdog(
    managers: Callable[[], Manager], redis_url: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    leads, stands_by = managers(), managers()
    leads.start(redis_url, WATCHDOG_S, **NAPS).wait_for("term_began")
    stands_by.start(redis_url, WATCHDOG_S, **NAPS)

    leads.wait_for_beats()
    stands_by.wait_for_beats()

    assert b"1" == redis_client.hget("zsched:{default}:meta", "epoch")


def test_the_watchdog_is_fed_while_fire_is_held(manager: Manager, redis_url: str, redis_client: redis.Redis) -> None:
    daemon = manager.start(redis_url, WATCHDOG_S, **NAPS)
    daemon.wait_for("fire_held")

    manager.wait_for_beats()

    assert [] == daemon.of("hold_ended")


def test_a_daemon_that_may_not_lead_feeds_the_watchdog(manager: Manager) -> None:
    with EmbeddedRedis(config={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}) as evicting:
        manager.start(evicting.url, WATCHDOG_S, **NAPS).wait_for("leading_refused")

        manager.wait_for_beats(6)  # sleeps of five seconds but for the watchdog


@pytest.mark.parametrize("gone", [EmbeddedRedis.stop, EmbeddedRedis.suspend], ids=["refuses", "hangs"])
def test_a_daemon_survives_an_outage_of_redis_and_leads_afterwards(
    manager: Manager, own_redis: EmbeddedRedis, gone: Callable[[EmbeddedRedis], None]
) -> None:
    daemon = manager.start(own_redis.url, WATCHDOG_S, REDIS_TIMEOUT_S="0.3", **NAPS)
    daemon.wait_for("term_began")

    gone(own_redis)
    daemon.wait_for("redis_lost")
    manager.wait_for_beats()
    own_redis.start()
    if gone is EmbeddedRedis.suspend:
        own_redis.resume()
    daemon.wait_for("redis_back")

    daemon.stop()
    manager.wait_for("STOPPING")
    assert ["READY", "STOPPING"] == manager.names("READY", "STOPPING")  # one process, ready once


def test_a_stuck_loop_does_not_feed_the_watchdog(
    manager: Manager, redis_server: EmbeddedRedis, redis_client: redis.Redis
) -> None:
    know(redis_client)
    assert redis_server.port is not None
    with Proxy(redis_server.port) as proxy:
        daemon = manager.start(proxy.url, 0.6, REDIS_TIMEOUT_S="300")
        warning = daemon.wait_for("watchdog_too_short")
        daemon.wait_for("term_began")
        manager.wait_for_beats()

        proxy.half_open = True  # the loop waits for a reply, minutes if it must
        eventually(lambda: time.monotonic() - manager.of("WATCHDOG")[-1]["at_s"] > 2 * 0.6)  # timing: late never fails

        proxy.mend()
        manager.wait_for_beats()
    assert "give WatchdogSec 1500 s or more" in warning["reason"]


# -- SIGHUP -------------------------------------------------------------------------------------------


class Configured:
    """A configuration file that is rewritten, and the daemon that reads it."""

    def __init__(self, manager: Manager, file: Path) -> None:
        self._manager, self._file = manager, file
        self._reloads = 0

    def write(self, rest: str, archive: str = "first.db") -> None:
        self._file.write_text(f'[archive]\npath = "{self._file.parent / archive}"\n{rest}\n')

    def start(self, url: str) -> DaemonProcess:
        return self._manager.start(url, CONFIG=str(self._file), ARCHIVE_PATH="", **NAPS)

    def reload(self, daemon: DaemonProcess) -> None:
        """
        Send SIGHUP; wait for the messages to the manager and for the daemon's event, which may arrive in either order.
        """
        self._reloads += 1
        daemon.send(signal.SIGHUP)
        self._manager.wait_for("READY", 1 + self._reloads)
        assert ["READY", *["RELOADING", "READY"] * self._reloads] == self._manager.names("READY", "RELOADING")
        outcomes = "settings_reloaded", "reload_failed"
        eventually(lambda: sum(len(daemon.of(each)) for each in outcomes) == self._reloads)


@pytest.fixture
def configured(manager: Manager, tmp_path: Path) -> Configured:
    return Configured(manager, tmp_path / "zsched.toml")


def due_now(url: str, client: redis.Redis, count: int) -> None:
    rows = (
        {"func": "app.tasks.run", "id": f"s{n}", "at": from_ms(1), "queue": "email", "allow_past": True}
        for n in range(count)
    )
    assert count == Client.from_url(url).schedule_many(rows).created


@pytest.fixture
def limited(configured: Configured, redis_url: str, redis_client: redis.Redis) -> DaemonProcess:
    """A daemon that has pushed one of 500 due runs; the next would be pushed in a hundred seconds."""
    know(redis_client)
    configured.write("[queues.email]\nmax_per_second = 0.01")
    daemon = configured.start(redis_url)
    daemon.wait_for("term_began")
    due_now(redis_url, redis_client, 500)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 1)
    return daemon


def test_sighup_reloads_queue_limits_and_the_log_level(
    configured: Configured, limited: DaemonProcess, redis_client: redis.Redis
) -> None:
    configured.write('[queues.email]\nmax_per_second = 1000\n[log]\nlevel = "debug"')
    configured.reload(limited)

    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 500)
    limited.wait_for("runs_fired")  # told at debug
    assert ["log.level", "queues"] == limited.of("settings_reloaded")[0]["changed"]
    assert [] == limited.of("restart_needed")
    assert 1 == len(limited.of("term_began"))


def test_sighup_removes_a_limit_that_is_no_longer_in_the_file(
    configured: Configured, limited: DaemonProcess, redis_client: redis.Redis
) -> None:
    configured.write("")
    configured.reload(limited)

    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 500)


def test_a_reload_names_what_needs_a_restart_and_a_broken_file_changes_nothing(
    configured: Configured, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    know(redis_client)
    configured.write("[queues.email]\nmax_per_second = 0.01")
    daemon = configured.start(redis_url)
    daemon.wait_for("term_began")

    configured.write("[queues.email]\nmax_per_second = 0.01", archive="second.db")
    configured.reload(daemon)
    assert ["archive.path"] == daemon.wait_for("restart_needed")["keys"]

    configured.write("[queues.email]\nmax_per_second = lots")
    configured.reload(daemon)
    assert "zsched.toml" in daemon.wait_for("reload_failed")["reason"]

    due_now(redis_url, redis_client, 2)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:email") == 1)
    configured.write("[queues.email]\nmax_per_second = 0.01")
    configured.reload(daemon)
    assert [[], []] == [one["changed"] for one in daemon.of("settings_reloaded")]
    assert 1 == redis_client.llen(f"{RQ}:queue:email")
    assert (tmp_path / "first.db").exists()
    assert not (tmp_path / "second.db").exists()
    daemon.stop()
