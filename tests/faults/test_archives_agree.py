"""
Two daemons with separate archives, one of them killed again and again: both archives have the whole log, once.

Short by default; ``ZSCHED_TEST_LONG=1`` makes it 100,000 schedules in 60 s, with a kill every 3 s.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.faults.archives import (
    KEYS,
    await_caught_up,
    differences,
    held_in,
    history,
    is_leader,
    log_in,
    repeated,
    state_of,
    stop_standby_first,
)
from tests.faults.leases import lapse
from tests.faults.life import Life
from tests.ledger import assert_dense
from tests.prefix import RQ
from tests.waiting import eventually
from zsched.archive import START, History

IS_LONG = os.environ.get("ZSCHED_TEST_LONG") == "1"
SCHEDULES = 100_000 if IS_LONG else 2_000
FOR_S = 60 if IS_LONG else 6
KILL_EVERY_S = 3.0 if IS_LONG else 1.5


class Pair:
    """
    Two daemons; inside the block one of them is killed every KILL_EVERY_S and started again. *trims*: the log loses all
    but its end while one is away.
    """

    def __init__(self, start: Start, url: str, watch: redis.Redis, paths: list[Path], *, trims: bool = False) -> None:
        self._trims, self.left_behind = trims, 0
        self.kills, self.kills_of_leader = 0, 0
        self._start, self._url, self._watch, self._paths = start, url, watch, paths
        self._random, self._ending = random.Random(11), threading.Event()
        self.daemons = [self._started(path) for path in paths]
        self._killer = threading.Thread(target=self._kill_on)
        self._error: BaseException | None = None

    def __enter__(self) -> Pair:
        for daemon in self.daemons:
            daemon.wait_for("archive_opened")
        self._killer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._killer.join()
        if self._error is not None:
            raise self._error

    def times_left_behind(self) -> int:
        """Return how often an archive found that the log had lost entries which it did not have."""
        return self.left_behind + sum(len(daemon.of("archive_left_behind")) for daemon in self.daemons)

    def _seq(self) -> int:
        """Return the seq of the last entry of the log."""
        return int(self._watch.hget(KEYS.meta(), "seq") or 0)

    def _started(self, path: Path) -> DaemonProcess:
        settings = {"DAEMON_LEASE_MS": "5000"} if self._trims else {}  # as long is a hold of a trimmed log
        return self._start(self._url, ARCHIVE_PATH=str(path), ARCHIVE_LOG_KEEP_MIB="4096", **settings)

    def _kill_on(self) -> None:
        try:
            while not self._ending.wait(KILL_EVERY_S):
                leaders = [number for number in (0, 1) if is_leader(self.daemons[number], self._watch)]
                number = leaders[0] if leaders and self.kills % 2 else self._random.randrange(2)
                self.daemons[number].send(signal.SIGKILL)
                assert -signal.SIGKILL == self.daemons[number].wait()
                self.kills += 1
                if is_leader(self.daemons[number], self._watch):
                    self.kills_of_leader += 1
                    lapse(self._watch)
                self.left_behind += len(self.daemons[number].of("archive_left_behind"))
                if self._trims:
                    killed_at = self._seq()
                    eventually(lambda at=killed_at: self._seq() > at + 5)  # type: ignore[misc]
                    self._watch.xtrim(KEYS.log(), maxlen=3, approximate=False)
                self.daemons[number] = self._started(self._paths[number])
        except BaseException as error:
            self._error = error


def test_two_archives_have_the_whole_log_although_their_daemons_are_killed(
    start_daemon: Start,
    redis_url: str,
    redis_client: redis.Redis,
    tmp_path: Path,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    know(redis_client)
    paths, began = [tmp_path / "one.db", tmp_path / "two.db"], time.monotonic()
    pair = Pair(start_daemon, redis_url, redis_client, paths)
    life = Life(redis_url, redis_client, seed=7, rules=400 if IS_LONG else 40, bulk=150 if IS_LONG else 60)

    with pair:
        life.live(SCHEDULES, FOR_S)
        eventually(lambda: pair.kills >= FOR_S / KILL_EVERY_S / 2 and pair.kills_of_leader)
    life.settle()
    await_caught_up(redis_url, *paths, within_s=60)
    stop_standby_first(pair.daemons, redis_client)

    log, archived = log_in(redis_url), [history(path) for path in paths]
    figures = {"schedules": life.scheduled, "entries": len(log), "kills": pair.kills, "of_leader": pair.kills_of_leader}
    figures |= {"runs": redis_client.llen(f"{RQ}:queue:default")}
    for name, value in (figures | {"seconds": round(time.monotonic() - began, 1)}).items():
        record_testsuite_property(name, value)
    assert_dense(redis_client)
    assert [] == [entry.position for entry, kept in zip(log, archived[0], strict=True) if entry != kept]
    assert [] == [entry.position for entry, kept in zip(log, archived[1], strict=True) if entry != kept]
    assert [] == repeated(archived[0])
    held = held_in(redis_url)
    record_testsuite_property("rows of state", len(held))
    assert [{}, {}] == [differences(held, state_of(path)) for path in paths]
    for path in paths:
        with History(path) as told:
            assert (START, log[-1].position) == (told.complete_since, told.position)


def test_two_archives_have_the_state_of_redis_although_the_log_is_trimmed(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    know(redis_client)
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    pair = Pair(start_daemon, redis_url, redis_client, paths, trims=True)
    life = Life(redis_url, redis_client, seed=8, rules=100, bulk=150 if IS_LONG else 20, soon_ms=2_000)

    with pair:
        life.live(SCHEDULES // (5 if IS_LONG else 2), FOR_S)
        eventually(lambda: pair.times_left_behind() >= 2, within_s=60)
    life.settle()
    await_caught_up(redis_url, *paths, within_s=60)
    stop_standby_first(pair.daemons, redis_client)

    held, archived = held_in(redis_url), [history(path) for path in paths]
    assert [{}, {}] == [differences(held, state_of(path)) for path in paths]
    assert [[], []] == [repeated(entries) for entries in archived]
    assert [sorted(entries, key=lambda entry: entry.position.order) for entries in archived] == archived
    assert [] == [event for daemon in pair.daemons for event in daemon.of("archive_failed")]
