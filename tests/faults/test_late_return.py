"""
Schedules were cancelled and runs ended while a daemon was away. It returns after FLUSHALL, when the other daemon has
restored everything and is slow or paused. The ended schedules and runs must stay ended.

``ZSCHED_TEST_REPEAT=50`` plays each case 50 times, and one that is left out otherwise.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import STEADY_MS, DaemonProcess, Start
from tests.builders.proxies import Proxy
from tests.clocks import now_ms
from tests.faults.archives import KEYS, await_caught_up, has_caught_up, held_in, is_leader, stop
from tests.faults.leases import end_hold, eventually_without_hold, lapse
from tests.ledger import entries, queued
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis

REPEAT = int(os.environ.get("ZSCHED_TEST_REPEAT", "1"))
SLOW_S = [0.12, 0.3] if REPEAT > 1 else [0.12]
CANCELLED, ENDED, OPEN = ["X0", "X1", "X2"], ["E0", "E1", "E2"], ["O0", "O1"]
RULE = "cancelled-rule"


class Scene:
    """Daemon A behind *proxy*, alone, with a flushed Redis into which A restored its data; B may return."""

    def __init__(self, start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, proxy: Proxy, tmp: Path) -> None:
        self.watch, self.proxy, self.server = watch, proxy, server
        self.came_back: set[str] = set()  # with B, before A goes on
        self.paths = [tmp / "a.db", tmp / "b.db"]
        self._start = start_daemon
        self.a = start_daemon(proxy.url, ARCHIVE_PATH=str(self.paths[0]))
        self.a.wait_for("term_began")
        b = self._start_b()
        client = Client.from_url(server.url)
        for id in ["kept", *CANCELLED]:
            client.schedule("app.task", id=id, after=3600)
        client.schedule("app.task", id=RULE, every=1)
        await_caught_up(server.url, *self.paths)
        for id in OPEN:
            client.schedule("app.task", id=id, after=0)
        eventually(lambda: self._has_fired(OPEN))
        watch.hset(KEYS.meta(), "hold", now_ms(watch) + STEADY_MS)  # they fire when B is gone
        for id in ENDED:
            client.schedule("app.task", id=id, after=0)
        self.a.wait_for("fire_held")
        await_caught_up(server.url, *self.paths)
        stop(b)
        end_hold(watch, self.a)
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
        return self._start(self.server.url, ARCHIVE_PATH=str(self.paths[1]))

    def _has_fired(self, ids: list[str]) -> bool:
        return {run.rpartition("-")[0] for run in queued(self.watch)} >= set(ids)

    @property
    def ids(self) -> set[str]:
        """Return the schedules in Redis and the runs that have not ended."""
        return {id for id, _ in held_in(self.server.url)}

    def b_returns(self, a_pauses_until: Callable[[DaemonProcess], object] | None = None) -> DaemonProcess:
        """
        Start B, and return when it follows. A is paused from before until *a_pauses_until*, called with B after B
        noticed the loss, returns; B leads then.
        """
        if a_pauses_until is not None:
            self.a.send_to_all(signal.SIGSTOP)
        b = self._start_b()
        b.wait_for("redis_history_lost")
        if a_pauses_until is not None:
            lapse(self.watch)
            a_pauses_until(b)
            self.came_back = self.ids - {"kept"}
            self.a.send_to_all(signal.SIGCONT)
        eventually(lambda: has_caught_up(self.server.url, self.paths[1]))
        return b

    def await_waiting(self, _: DaemonProcess) -> None:
        """Return when B waits for A's archive: it has read the reports of archives some times."""
        before = self._reads()
        eventually(lambda: self._reads() >= before + 5)

    def _reads(self) -> int:
        return int(self.watch.info("commandstats")["cmdstat_hgetall"]["calls"])

    def restored(self) -> list[str]:
        """Return the reasons of restores since the flush, except A's first restore."""
        return [entry.fields["reason"] for entry in entries(self.watch, "restore")][1:]

    def assert_nothing_came_back(self, b: DaemonProcess) -> None:
        """Check that both daemons are well, that one leads and fires, and that no ended schedule is back."""
        await_caught_up(self.server.url, *self.paths)
        eventually(lambda: is_leader(self.a, self.watch) or is_leader(b, self.watch))
        Client.from_url(self.server.url).schedule("app.task", id="probe", after=0)
        eventually_without_hold(lambda: self.server, lambda: self._has_fired(["probe"]))
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


def test_ended_schedules_stay_ended_when_a_daemon_returns_while_the_other_is_paused(scene: Scene) -> None:
    b = scene.b_returns(scene.await_waiting)

    scene.assert_nothing_came_back(b)


def test_restored_schedules_are_corrected_when_a_daemon_returns_from_too_long_a_pause(scene: Scene) -> None:
    scene.b_returns(lambda b: b.wait_for("recovery_done"))

    assert {*CANCELLED, RULE} <= scene.came_back
    scene.a.wait_for("restore_corrected")
    await_caught_up(scene.server.url, *scene.paths)
    assert {"kept"} == {id for (id, _), (place, *_) in held_in(scene.server.url).items() if place != "open"}
