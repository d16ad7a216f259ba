"""The messages of a daemon to a service manager, read from its socket; and the text of its status."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zsched.core.clock import ManualClock
from zsched.core.options.choices import Priority
from zsched.daemon.process import text_of
from zsched.daemon.supervisor import Supervisor
from zsched.health.facts import DaemonHealth
from zsched.storage.archivers import ArchiveState, Report
from zsched.storage.overview import Overview
from zsched.storage.server import Server


class Manager:
    """A service manager's socket. ``heard`` returns the messages since its last call."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def manager(address: str) -> Iterator[Manager]:
    manager = Manager(address)
    yield manager
    manager.close()


@pytest.fixture
def supervisor(address: str) -> Supervisor:
    return Supervisor(ManualClock(), address)


def test_ready_is_sent_to_the_supervisor_once(manager: Manager, supervisor: Supervisor) -> None:
    supervisor.ready()
    supervisor.ready()

    assert ["READY=1"] == manager.heard()


def test_a_ready_that_was_not_received_is_sent_again_after_a_pass(address: str, supervisor: Supervisor) -> None:
    supervisor.ready()  # nobody is at that socket yet: as when it is full
    manager = Manager(address)

    supervisor.beat()
    supervisor.beat()

    assert ["READY=1"] == manager.heard()
    manager.close()


@pytest.mark.parametrize(
    ("texts", "heard"),
    [
        (["leading", "leading", "standing by"], ["STATUS=leading", "STATUS=standing by"]),
        (["ZSCHED_\udcff is not a setting\nREADY=1"], ["STATUS=ZSCHED_\\udcff is not a setting READY=1"]),
    ],
)
def test_a_status_is_sent_in_one_line_when_it_changes(
    manager: Manager, supervisor: Supervisor, texts: list[str], heard: list[str]
) -> None:
    for text in texts:
        supervisor.status(text)

    assert heard == manager.heard()


def test_the_last_status_sent_is_the_reason_of_the_failure(manager: Manager, supervisor: Supervisor) -> None:
    supervisor.status("leading")

    supervisor.failed("no such key")
    supervisor.status("leading again")

    assert ["STATUS=leading", "STATUS=no such key"] == manager.heard()


def test_a_reload_after_ready_is_announced_at_its_start_and_its_end(manager: Manager, address: str) -> None:
    supervisor = Supervisor(ManualClock(elapsed_ms=12.5), address)
    with supervisor.reloading():
        pass
    assert [] == manager.heard()
    supervisor.ready()

    with supervisor.reloading():
        assert ["READY=1", "RELOADING=1\nMONOTONIC_USEC=12500"] == manager.heard()

    assert ["READY=1"] == manager.heard()


def test_the_watchdog_is_fed_by_passes_but_not_by_every_pass(manager: Manager, address: str) -> None:
    clock = ManualClock()
    supervisor = Supervisor(clock, address, watchdog_ms=1000)

    supervisor.beat()
    assert ["WATCHDOG=1"] == manager.heard()

    for _ in range(99):
        clock.advance(1)
        supervisor.beat()
    assert [] == manager.heard()

    clock.advance(1)
    supervisor.beat()
    assert ["WATCHDOG=1"] == manager.heard()


def test_a_beat_touches_the_file_that_the_probe_of_a_container_looks_at(tmp_path: Path) -> None:
    clock, file = ManualClock(), tmp_path / "alive"
    supervisor = Supervisor.from_environment({"ZSCHED_ALIVE_FILE": str(file), "WATCHDOG_USEC": "60000000"}, clock)
    assert not file.exists()

    supervisor.beat()
    assert file.exists()

    for ms, is_touched in [(5999, False), (1, True)]:
        os.utime(file, (0, 0))
        clock.advance(ms)
        supervisor.beat()
        assert is_touched == (file.stat().st_mtime > 0)


def test_a_file_that_cannot_be_touched_stops_nothing(tmp_path: Path) -> None:
    Supervisor.from_environment(
        {"ZSCHED_ALIVE_FILE": f"{tmp_path}/no/alive", "WATCHDOG_USEC": "1"}, ManualClock()
    ).beat()


def test_a_daemon_without_a_watchdog_feeds_none_and_has_no_sleep_limit(
    manager: Manager, supervisor: Supervisor
) -> None:
    supervisor.beat()

    assert [] == manager.heard()
    assert float("inf") == supervisor.longest_sleep_ms
    assert supervisor.impatience(timeout_s=300) is None
    assert 250 == Supervisor(ManualClock(), watchdog_ms=1000).longest_sleep_ms, "a quarter of the watchdog's time"


@pytest.mark.parametrize(("timeout_s", "is_too_long"), [(5, False), (6, False), (6.1, True)])
def test_a_watchdog_shorter_than_the_timeout_of_redis_is_logged(timeout_s: float, is_too_long: bool) -> None:
    supervisor = Supervisor(ManualClock(), watchdog_ms=30_000)

    impatience = supervisor.impatience(timeout_s)

    assert is_too_long == (impatience is not None)
    if impatience:
        assert "WatchdogSec is 30 s and [redis] timeout_s is 6.1" in impatience
        assert "give WatchdogSec 30.5 s or more" in impatience


def test_a_stopped_or_stuck_service_manager_does_not_raise(address: str, supervisor: Supervisor) -> None:
    manager = Manager(address)
    for number in range(10_000):  # more than a socket keeps
        supervisor.status(str(number))
    assert "STATUS=0" == manager.heard()[0]

    manager.close()
    supervisor.ready()
    os.unlink(address)
    supervisor.stopping()


def test_a_socket_may_have_an_abstract_name() -> None:
    manager = Manager(f"\0zsched-test-{os.getpid()}")

    Supervisor.from_environment({"NOTIFY_SOCKET": f"@zsched-test-{os.getpid()}"}, ManualClock()).ready()

    assert ["READY=1"] == manager.heard()
    manager.close()


@pytest.mark.parametrize(
    ("env", "listens", "watchdog_ms"),
    [
        ({}, False, None),
        ({"NOTIFY_SOCKET": ""}, False, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, False, None),
        ({"NOTIFY_SOCKET": "/run/systemd/notify"}, True, None),
        ({"WATCHDOG_USEC": "30000000"}, False, 30_000),
        ({"WATCHDOG_USEC": "1500", "WATCHDOG_PID": "this"}, False, 1.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, False, None),  # meant for another process
        ({"WATCHDOG_USEC": "0"}, False, None),
        ({"WATCHDOG_USEC": "soon"}, False, None),
    ],
)
def test_the_environment_configures_a_supervisor(env: dict[str, str], listens: bool, watchdog_ms: float | None) -> None:
    pid = {"WATCHDOG_PID": str(os.getpid())} if env.get("WATCHDOG_PID") == "this" else {}

    supervisor = Supervisor.from_environment(env | pid, ManualClock())

    assert listens == supervisor.listens
    assert watchdog_ms == supervisor.watchdog_ms


NOW_MS = 1_767_225_600_000
NONE = dict.fromkeys(Priority, 0)


def overview(**changes: Any) -> Overview:
    zeros = dict.fromkeys(["recurring", "paused", "quarantined", "log_length", "hold_ms"], 0)
    unknown = dict.fromkeys(["oldest_due_ms", "led_since_ms", "log_last"])
    quiet = {"now_ms": NOW_MS, "waiting": NONE, "overdue": NONE, "leader": "me", "lease_ms": 15_000, "epoch": 7}
    archives = [Report("a", None, NOW_MS, ArchiveState.FOLLOWING, {})]
    return Overview(**zeros | unknown | quiet | {"archives": archives, "held_back": []} | changes)


def health(trouble: str | None) -> DaemonHealth:
    health = DaemonHealth(ManualClock())
    health.trouble = trouble
    return health


@pytest.mark.parametrize(
    ("changes", "trouble", "text"),
    [
        ({}, None, "leading in epoch 7; 0 due; 0 waiting"),
        ({"leader": "other"}, None, "standing by for other; 0 due; 0 waiting"),
        ({"leader": None}, None, "no daemon is leading; 0 due; 0 waiting"),
        ({"hold_ms": NOW_MS + 1500}, None, "leading in epoch 7, held for 1s500ms; 0 due; 0 waiting"),
        ({"hold_ms": NOW_MS}, None, "leading in epoch 7; 0 due; 0 waiting"),
        (
            {"waiting": NONE | {Priority.LOW: 1200, Priority.HIGH: 34}, "oldest_due_ms": NOW_MS + 5000},
            None,
            "leading in epoch 7; 0 due; 1,234 waiting",
        ),
        (
            {
                "waiting": NONE | {Priority.LOW: 1200},
                "overdue": NONE | {Priority.LOW: 1000, Priority.NORMAL: 5},
                "oldest_due_ms": NOW_MS - 62_000,
            },
            None,
            "leading in epoch 7; 1,005 due, the oldest 1m2s late; 1,200 waiting",
        ),
        ({"leader": "other"}, "may not lead: it is a slave", "may not lead: it is a slave; 0 due; 0 waiting"),
        ({"leader": None}, "may not lead: it is a slave", "may not lead: it is a slave; 0 due; 0 waiting"),
        ({}, "Redis refused: OOM", "leading in epoch 7, but Redis refused: OOM; 0 due; 0 waiting"),
        (
            {"server": Server({"role": "slave", "master_host": "b", "master_port": "1"}), "leader": None},
            "Redis refused: READONLY",
            "Redis refuses writes: it is a replica of b:1; 0 due; 0 waiting",
        ),
    ],
)
def test_the_status_has_leader_due_runs_and_lateness(changes: dict[str, Any], trouble: str | None, text: str) -> None:
    assert text == text_of(overview(**changes), "me", health(trouble))


def test_the_status_line_ends_with_the_worst_problem_not_yet_named() -> None:
    ill = overview(archives=[], leader="other", oldest_due_ms=NOW_MS - 62_000)

    assert "standing by for other; 0 due; 0 waiting; no archive follows the log" == text_of(ill, "me", health(None))
