"""The processes of a daemon (daemon and archivist): each is killed, stopped or hangs, and both get signals."""

import os
import signal
from pathlib import Path

import pytest
import redis
from rq import Queue

from tests.builders.daemons import DaemonProcess, HeldArchivist, Start
from tests.builders.leaders import know
from tests.builders.workers import work_off
from tests.faults.archives import KEYS, assert_state_is_redis_own, await_caught_up, history, log_in, repeated
from tests.faults.identities import BRIEF, begin, fill_held, gen, ids
from tests.integration.asking import ask, pages_of
from tests.ledger import entries, queued
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis

pytestmark = pytest.mark.once

FUNC = "app.task"


@pytest.fixture
def daemon(start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path) -> DaemonProcess:
    """A daemon that leads, with an archive that follows."""
    know(redis_client)
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path), METRICS_LISTEN="127.0.0.1:0")
    daemon.wait_for("term_began")
    await_caught_up(redis_url, path)
    return daemon


@pytest.fixture
def client(redis_url: str) -> Client:
    return Client.from_url(redis_url)


def is_complete(url: str, path: Path) -> bool:
    """Return True if the archive at *path*, which has no writer now, has the whole log, once."""
    archived = history(path)
    assert [] == repeated(archived)
    return {entry.position for entry in log_in(url)} == {entry.position for entry in archived}


def fire(client: Client, watch: redis.Redis, id: str) -> None:
    """Schedule a run, and wait until it is in its queue."""
    before = len(queued(watch))
    client.schedule(FUNC, id=id, after=0)
    eventually(lambda: len(queued(watch)) == before + 1)


def test_an_archivist_that_is_killed_is_started_again_and_misses_nothing(
    daemon: DaemonProcess, client: Client, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    first = daemon.archivist_pid
    client.schedule(FUNC, id="before", after=3600)

    os.kill(first, signal.SIGKILL)
    fire(client, redis_client, "meanwhile")
    died = daemon.wait_for("archivist_died")
    await_caught_up(redis_url, path)
    client.schedule(FUNC, id="durable", after=3600, durable=True)

    assert -signal.SIGKILL == died["exit_code"]
    assert first != daemon.archivist_pid
    assert 1 == len(daemon.of("term_began"))
    daemon.stop()
    assert is_complete(redis_url, path)
    assert_state_is_redis_own(redis_url, path)


def test_the_next_archivist_does_the_chores_of_the_term(
    daemon: DaemonProcess, client: Client, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    os.kill(daemon.archivist_pid, signal.SIGKILL)
    daemon.wait_for("archivist_died")
    await_caught_up(redis_url, path)

    client.enqueue("builtins.len", id="a", args=("abc",))
    eventually(lambda: queued(redis_client))
    work_off(Queue("default", connection=redis_client), redis_client)

    eventually(lambda: entries(redis_client, "end"))
    daemon.stop()


def test_the_metrics_of_the_next_archivist_begin_at_zero(
    daemon: DaemonProcess, client: Client, redis_client: redis.Redis, redis_url: str, path: Path
) -> None:
    where = pages_of(daemon)
    fire(client, redis_client, "one")
    fire(client, redis_client, "two")
    eventually(lambda: 'fires_total{outcome="fired"} 2.0' in ask(where, "/metrics").text)

    os.kill(daemon.archivist_pid, signal.SIGKILL)
    daemon.wait_for("archivist_died")
    await_caught_up(redis_url, path)
    fire(client, redis_client, "three")

    eventually(lambda: 'fires_total{outcome="fired"} 1.0' in ask(where, "/metrics").text)
    daemon.stop()


def test_a_killed_daemon_leaves_no_process_and_the_next_daemon_has_its_archive(
    daemon: DaemonProcess, start_daemon: Start, client: Client, redis_url: str, path: Path
) -> None:
    archivist = HeldArchivist(daemon)
    client.schedule(FUNC, id="before", after=3600)

    daemon.send(signal.SIGKILL)
    daemon.wait()
    next_one = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    eventually(archivist.has_ended)
    next_one.wait_for("archive_opened")
    await_caught_up(redis_url, path)
    next_one.stop()
    assert is_complete(redis_url, path)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_hanging_archivist_ends_as_well(daemon: DaemonProcess, redis_client: redis.Redis, is_killed: bool) -> None:
    archivist = HeldArchivist(daemon)
    os.kill(archivist.pid, signal.SIGSTOP)

    if is_killed:
        daemon.send(signal.SIGKILL)
        daemon.wait()
    else:
        daemon.stop()

    eventually(archivist.has_ended)
    assert is_killed or not redis_client.exists(KEYS.lease())


def test_a_daemon_fires_while_its_archivist_hangs_and_the_archive_catches_up(
    daemon: DaemonProcess, client: Client, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    archivist = daemon.archivist_pid
    os.kill(archivist, signal.SIGSTOP)

    for n in range(5):
        fire(client, redis_client, f"run-{n}")
    os.kill(archivist, signal.SIGCONT)

    await_caught_up(redis_url, path)
    assert archivist == daemon.archivist_pid
    daemon.stop()
    assert is_complete(redis_url, path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_without_its_archivist_keeps_the_name_and_the_hold_of_a_flushed_redis(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, path: Path, number: signal.Signals
) -> None:
    daemon = begin(start_daemon, server.url, ARCHIVE_PATH=str(path), **BRIEF)
    fill_held(server.url)
    await_caught_up(server.url, path)
    name, archivist = gen(watch), daemon.archivist_pid

    os.kill(archivist, number)
    watch.flushall()
    held = daemon.wait_for("fire_held")
    Client.from_url(server.url).schedule(FUNC, id="due", after=0)
    fired = queued(watch)
    eventually(lambda: gen(watch))
    if number == signal.SIGSTOP:
        os.kill(archivist, signal.SIGCONT)

    assert ([], name) == (fired, gen(watch))
    assert 0 < held["for_ms"]
    daemon.wait_for("recovery_done")
    assert {"mail-bob", "mail-cron"} <= ids(server.url)
    daemon.stop()


def test_an_archivist_archives_while_its_daemon_hangs(
    daemon: DaemonProcess, client: Client, redis_url: str, path: Path
) -> None:
    daemon.send(signal.SIGSTOP)

    for n in range(500):
        client.schedule(FUNC, id=f"later-{n}", after=3600, durable=n % 20 == 0)
    await_caught_up(redis_url, path)

    daemon.send(signal.SIGCONT)
    daemon.stop()
    assert [] == daemon.of("archive_failed")
    assert is_complete(redis_url, path)


def test_a_failing_thread_of_daemon_or_archivist_is_in_status_and_in_the_metrics(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    watch.execute_command("ACL", "SETUSER", "default", "-subscribe", "-blpop")  # here, and there
    daemon = start_daemon(server.url, METRICS_LISTEN="127.0.0.1:0")
    where, client = pages_of(daemon), Client.from_url(server.url)
    here, there = ["thread waker"], ["thread answerer"]

    eventually(lambda: [sorted(here + there)] == [sorted(one.failing) for one in client._overview().daemons])
    eventually(lambda: "zsched_failing 2.0" in ask(where, "/metrics").text)

    watch.execute_command("ACL", "SETUSER", "default", "+@all")
    daemon.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_stops_the_daemon_in_order_and_the_last_entries_are_archived(
    daemon: DaemonProcess, client: Client, redis_client: redis.Redis, redis_url: str, path: Path, number: signal.Signals
) -> None:
    archivist = HeldArchivist(daemon)
    client.schedule_many([{"func": FUNC, "id": f"s{n}", "after": 3600} for n in range(2000)])

    daemon.send_to_all(number)

    assert 0 == daemon.wait()
    assert archivist.has_ended()
    assert [] == [each for each in daemon.events if each["level"] == "error"]
    assert not redis_client.exists(KEYS.lease())
    assert is_complete(redis_url, path)


def test_sighup_to_all_processes_reloads_the_log_level_of_all(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path, tmp_path: Path
) -> None:
    know(redis_client)
    file = tmp_path / "zsched.toml"
    file.write_text('[log]\nlevel = "info"\n')
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path), CONFIG=str(file))
    await_caught_up(redis_url, path)
    archivist = daemon.archivist_pid

    file.write_text('[log]\nlevel = "warning"\n[archive]\nretention_days = 7\n')
    daemon.send_to_all(signal.SIGHUP)
    daemon.wait_for("restart_needed")
    os.kill(archivist, signal.SIGKILL)
    daemon.wait_for("archivist_died")
    await_caught_up(redis_url, path)

    daemon.stop()
    assert 1 == len(daemon.of("archive_opened"))  # the next archivist's was not worth a warning


def test_a_daemon_that_stops_while_its_archivist_is_away_archives_the_last_entries(
    daemon: DaemonProcess, client: Client, redis_url: str, path: Path
) -> None:
    os.kill(daemon.archivist_pid, signal.SIGKILL)
    client.schedule(FUNC, id="last", after=3600)

    daemon.stop()

    assert is_complete(redis_url, path)


def test_an_archivist_has_a_name_for_ps_and_top(daemon: DaemonProcess) -> None:
    assert "zsched-archive\n" == Path("/proc", str(daemon.archivist_pid), "comm").read_text()


def test_a_daemon_killed_ten_times_leads_again_with_its_archive(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, path: Path
) -> None:
    daemon = begin(start_daemon, server.url, ARCHIVE_PATH=str(path))

    for _ in range(10):
        daemon.send(signal.SIGKILL)
        watch.delete(KEYS.lease())
        daemon = start_daemon(server.url, ARCHIVE_PATH=str(path))
        daemon.wait_for("term_began")
        assert [] == daemon.of("daemon_failed")

    await_caught_up(server.url, path)
    daemon.stop()
    assert is_complete(server.url, path)
