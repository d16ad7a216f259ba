"""
Schedules were cancelled and runs ended while a daemon was away. It returns after FLUSHALL, when the other daemon has
restored everything and is slow or paused. The ended schedules and runs must stay ended.

``ZSCHED_TEST_REPEAT=50`` plays each case 50 times, and two cases that are left out otherwise.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.faults.archives import await_caught_up, has_caught_up, held_in, is_leader, stop
from tests.faults.ledger import entries, queued
from tests.faults.processes import DaemonProcess, Start, eventually
from tests.faults.proxy import Proxy
from zsched import Client
from zsched.daemon.recovery import PATIENCE_MS
from zsched.embedded import EmbeddedRedis

REPEAT = int(os.environ.get("ZSCHED_TEST_REPEAT", "1"))
SLOW_S = [0.12, 0.3] if REPEAT > 1 else [0.12]
PAUSED_S = [4.0, 6.0] if REPEAT > 1 else [4.0]
PAUSED_TOO_LONG_S = PATIENCE_MS / 1000 + 3
CANCELLED, ENDED, OPEN = ["X0", "X1", "X2"], ["E0", "E1", "E2"], ["O0", "O1"]
RULE = "cancelled-rule"
SOON = {"DAEMON_LEASE_MS": "2000"}  # B leads while A is paused; any term may end earlier


class Scene:
    """Daemon A behind *proxy*, alone, with a flushed Redis into which A restored its data; B may return."""

    def __init__(self, start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, proxy: Proxy, tmp: Path) -> None:
        self.watch, self.proxy, self.server = watch, proxy, server
        self.came_back: set[str] = set()  # with B, before A goes on
        self.paths = [tmp / "a.db", tmp / "b.db"]
        self._start = start_daemon
        self.a = start_daemon(proxy.url, ARCHIVE_PATH=str(self.paths[0]), **SOON)
        b = self._start_b()
        client = Client.from_url(server.url)
        for id in ["kept", *CANCELLED]:
            client.schedule("app.task", id=id, after=3600)
        client.schedule("app.task", id=RULE, every=1)
        await_caught_up(server.url, *self.paths)
        for id in OPEN:
            client.schedule("app.task", id=id, after=0)
        eventually(lambda: self._has_fired(OPEN))
        for id in ENDED:
            client.schedule("app.task", id=id, after=3)
        await_caught_up(server.url, *self.paths)
        stop(b)
        eventually(lambda: self._has_fired(ENDED))
        client.cancel(RULE)
        for id in CANCELLED:
            client.cancel(id)
        for run_id in queued(watch):
            client.cancel_run(run_id)
        await_caught_up(server.url, self.paths[0])
        watch.flushall()
        self.a.wait_for("recovery_done")
        await_caught_up(server.url, self.paths[0])
        assert {"kept"} == self.ids

    def _start_b(self) -> DaemonProcess:
        return self._start(self.server.url, ARCHIVE_PATH=str(self.paths[1]), **SOON)

    def _has_fired(self, ids: list[str]) -> bool:
        return {run.rpartition("-")[0] for run in queued(self.watch)} >= set(ids)

    @property
    def ids(self) -> set[str]:
        """Return the schedules in Redis and the runs that have not ended."""
        return {id for id, _ in held_in(self.server.url)}

    def b_returns(self, a_pauses_s: float = 0) -> DaemonProcess:
        """
        Start B; A is paused from before B's start until *a_pauses_s* after B noticed the loss. Return when B follows.
        """
        if a_pauses_s:
            self.a.send_to_all(signal.SIGSTOP)
        b = self._start_b()
        b.wait_for("redis_history_lost")
        timer = threading.Timer(a_pauses_s, self.a.send_to_all, [signal.SIGCONT])
        timer.start()
        try:
            eventually(lambda: has_caught_up(self.server.url, self.paths[1]), 60)
            self.came_back = self.ids - {"kept"}
        finally:
            timer.join()
        return b

    def restored(self) -> list[str]:
        """Return the reasons of restores since the flush, except A's first restore."""
        return [entry.fields["reason"] for entry in entries(self.watch, "restore")][1:]

    def assert_nothing_came_back(self, b: DaemonProcess) -> None:
        """Check that both daemons are well, that one leads and fires, and that no ended schedule is back."""
        await_caught_up(self.server.url, *self.paths, within_s=60)
        eventually(lambda: is_leader(self.a, self.watch) or is_leader(b, self.watch))
        Client.from_url(self.server.url).schedule("app.task", id="probe", after=0)
        eventually(lambda: self._has_fired(["probe"]), 60)
        await_caught_up(self.server.url, *self.paths)
        assert {"kept", "probe"} == self.ids
        assert ["probe"] == [run.rpartition("-")[0] for run in queued(self.watch)]
        assert [] == self.restored()
        assert [] == [row for entry in entries(self.watch, "advance") for row in entry.rows if RULE in row]


@pytest.fixture(params=range(REPEAT))
def scene(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, tmp_path: Path) -> Iterator[Scene]:
    with Proxy(int(server.port or 0)) as proxy:
        yield Scene(start_daemon, server, watch, proxy, tmp_path)


@pytest.mark.parametrize("slow_s", SLOW_S)
def test_ended_schedules_stay_ended_when_a_daemon_returns_while_the_other_is_slow(scene: Scene, slow_s: float) -> None:
    scene.proxy.delay_s = slow_s
    b = scene.b_returns()
    scene.proxy.mend()

    scene.assert_nothing_came_back(b)


@pytest.mark.parametrize("for_s", PAUSED_S)
def test_ended_schedules_stay_ended_when_a_daemon_returns_while_the_other_is_paused(scene: Scene, for_s: float) -> None:
    b = scene.b_returns(a_pauses_s=for_s)

    scene.assert_nothing_came_back(b)


def test_restored_schedules_are_corrected_when_a_daemon_returns_from_too_long_a_pause(scene: Scene) -> None:
    scene.b_returns(a_pauses_s=PAUSED_TOO_LONG_S)

    assert {*CANCELLED, RULE} <= scene.came_back
    scene.a.wait_for("restore_corrected")
    await_caught_up(scene.server.url, *scene.paths)
    assert {"kept"} == {id for (id, _), (place, *_) in held_in(scene.server.url).items() if place != "open"}
