"""
Redis loses its data while a client writes all the time: acknowledged changes come back, and new changes stay.

Short by default; ``ZSCHED_TEST_LONG=1`` makes it 100,000 schedules and an RDB of 30 s ago; a test then takes two
minutes (``-o faulthandler_timeout=600``). For a master that is killed while one-shots come due see test_sentinel.py.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tests import waiting
from tests.builders.daemons import DaemonProcess, Start
from tests.builders.redises import connect, own_server, put_back
from tests.faults.archives import (
    assert_state_is_redis_own,
    await_caught_up,
    history,
    log_in,
    report_of,
    stop_standby_first,
)
from tests.faults.setbacks import archiving_daemons, put_back_by
from tests.ledger import doubles, queued
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client, NotArchived, RedisUnavailable
from zsched.core.clock import from_ms
from zsched.core.entry import Entry
from zsched.core.log.kinds import changes, touches
from zsched.core.log.puts import restored
from zsched.core.occurrences.outcomes import PUSHES, What

IS_LONG = os.environ.get("ZSCHED_TEST_LONG") == "1"
SCHEDULES = 100_000 if IS_LONG else 3_000
RDB_AGE_S = 30.0 if IS_LONG else 3.0
PAUSE_S = 1 / 200  # between two writes
BUSY_S = 10.0 if IS_LONG else 2.5  # of writing before a loss
SOON_S = 0.5
WITHIN_S = ENDS_S if IS_LONG else waiting.WITHIN_S
IN_DOUBT = 30  # runs that wait in the queue when it is lost, of each kind


class Act(NamedTuple):
    """
    A client's change of schedule *id*, with the times of request and answer (monotonic clock). ``next_at``: the answer;
    None for a cancel, or when the schedule will have fired, with ``run_id``. ``is_known``: the call was answered.
    """

    id: str
    began_s: float
    ended_s: float
    next_at: datetime | None = None
    run_id: str | None = None
    is_durable: bool = False
    is_known: bool = True


class Loss(NamedTuple):
    """
    The time of a loss: between two instants of the monotonic clock. An archive had all that was acknowledged before
    *archived_s*.
    """

    archived_s: float
    began_s: float
    ended_s: float

    def spares(self, act: Act) -> bool:
        """Return True if the change of *act* must exist in the end."""
        is_safe = act.is_durable or act.ended_s < self.archived_s or act.began_s > self.ended_s
        return act.is_known and is_safe


class Writer:
    """
    A client that writes inside the block, one call after the other, PAUSE_S between them: new schedules, every 20th
    call a durable one, one-shots that are due soon, and other times for or cancels of *ids*. Each id is touched once.
    """

    def __init__(self, url: str, ids: Iterable[str]) -> None:
        self.acts: list[Act] = []
        self._client = Client.from_url(url, durable_timeout_s=0.5)  # timing: short, to write while nobody archives
        self._ids = iter(ids)
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._write_on)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def go_on(self, for_s: float) -> None:
        """Return after the client has written for *for_s* more seconds."""
        until_s = time.monotonic() + for_s
        eventually(lambda: self._error or (self.acts and self.acts[-1].ended_s > until_s), for_s + WITHIN_S)

    def go_on_until_archived(self, url: str, paths: list[Path]) -> float:
        """
        Return an instant whose changes all archives have, after a durable change later than that. The client goes on.
        """
        archived_s, last = time.monotonic(), log_in(url)[-1].position
        for path in paths:
            eventually(lambda path=path: (told := report_of(url, path)) and told.position.order >= last.order)  # type: ignore[misc]
        eventually(lambda: self._error or any(act.is_durable and act.ended_s > archived_s for act in self.acts))
        return archived_s

    def allowed(self, before: dict[str, datetime | None], loss: Loss) -> dict[str, set[datetime | None]]:
        """
        Return by id the next times that it may have in the end, None: it may not exist. An undoubted schedule has one.
        """
        may: dict[str, set[datetime | None]] = {id: {next_at} for id, next_at in before.items()}
        for act in self.acts:
            old = set() if loss.spares(act) else may.get(act.id, {None})
            may[act.id] = {*old, act.next_at}
        return may

    def unknown(self) -> set[str]:
        """Return the ids of calls that were not answered."""
        return {act.id for act in self.acts if not act.is_known}

    def due(self, loss: Loss) -> set[str]:
        """Return the runs that must be in the queue in the end."""
        return {act.run_id for act in self.acts if act.run_id and loss.spares(act)}

    def _write_on(self) -> None:
        try:
            for number in itertools.count():
                self._act(number)
                if self._ending.wait(PAUSE_S):  # timing: the pace of a load
                    return
        except BaseException as error:
            self._error = error

    def _act(self, number: int) -> None:
        began_s, later = time.monotonic(), in_an_hour()
        id, is_durable, run_id, next_at = f"new-{number}", number % 20 == 0, None, None
        try:
            if number % 10 == 3:
                id = next(self._ids, id)
                next_at = self._client.schedule("app.task", id=id, at=later + timedelta(hours=1)).next_at
            elif number % 10 == 6:
                id = next(self._ids, id)
                if self._client.cancel(id) != "cancelled":  # Redis has lost it, and it will be put back
                    return
            elif number % 10 == 9:
                run_id = self._client.schedule("app.task", id=id, after=SOON_S).run_id
            elif number % 2:
                next_at = self._client.schedule("app.task", id=id, every=3600).next_at
            else:
                next_at = self._client.schedule("app.task", id=id, at=later, durable=is_durable).next_at
        except (RedisUnavailable, NotArchived):
            self.acts.append(Act(id, began_s, time.monotonic(), is_known=False))
        else:
            self.acts.append(Act(id, began_s, time.monotonic(), next_at, run_id, is_durable))


def in_an_hour() -> datetime:
    return from_ms(time.time_ns() // 1_000_000 + 3_600_000)


def fill(client: Client) -> dict[str, datetime | None]:
    """Put SCHEDULES, half of them recurring, all due in an hour; return the schedules as Redis has them."""
    at = in_an_hour()
    rules = [{"every": 3600}, {"cron": f"{at.minute} {at.hour} * * *"}]
    times = itertools.cycle([{"at": at}, rules[0], {"at": at}, rules[1]])
    rows = ({"func": "app.task", "id": f"s{n}", **next(times)} for n in range(SCHEDULES))
    assert SCHEDULES == client.schedule_many(rows).created
    return next_times(client)


def next_times(client: Client) -> dict[str, datetime | None]:
    return {one.id: one.next_at for one in client.list()}


def assert_all_back(client: Client, writer: Writer, before: dict[str, datetime | None], loss: Loss) -> None:
    """Check that every schedule is in an allowed state."""
    may, now = writer.allowed(before, loss), next_times(client)
    assert any(act.is_durable and loss.archived_s < act.ended_s < loss.began_s for act in writer.acts)
    ids = (may.keys() | now.keys()) - writer.unknown()
    wrong = {id: (may.get(id), now.get(id)) for id in ids if now.get(id) not in may.get(id, ())}
    assert {} == wrong, f"{len(wrong)} of {len(may)}"


def pushes(entries: list[Entry]) -> list[tuple[str, bool]]:
    """Return the runs that *entries* say were pushed, in order, and whether each is marked uncertain."""
    pushed = PUSHES - {What.HELD, What.RAN_AGAIN}
    told = itertools.chain.from_iterable(map(changes, entries))
    return [(change.run_id or "", change.why == "uncertain") for change in told if change.what in pushed]


def unmarked_doubles(entries: list[Entry]) -> set[str]:
    """Return runs that were pushed a second time without a mark."""
    seen, wrong = set[str](), set[str]()
    for run_id, is_marked in pushes(entries):
        if run_id in seen and not is_marked:
            wrong.add(run_id)
        seen.add(run_id)
    return wrong


def rows_put_back(url: str) -> int:
    return sum(len(restored(entry)) for entry in log_in(url) if entry.kind == "restore")


def test_an_emptied_redis_gets_every_acknowledged_write_back_under_load(start_daemon: Start, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    with own_server() as server, connect(server.url) as watch:
        daemons = archiving_daemons(start_daemon, server.url, paths)
        client = Client.from_url(server.url, timeout_s=2 * WITHIN_S)
        for policy in ("refire", "skip"):
            rows = [{"func": "app.task", "id": f"{policy}-{n}", "after": 0} for n in range(IN_DOUBT)]
            client.schedule_many({**row, "on_uncertain": policy} for row in rows)
        before = fill(client)
        eventually(lambda: watch.llen(f"{RQ}:queue:default") == 2 * IN_DOUBT)
        waiting = queued(watch)
        await_caught_up(server.url, *paths, within_s=WITHIN_S)

        with Writer(server.url, (f"s{n}" for n in range(100, SCHEDULES))) as writer:
            writer.go_on(BUSY_S)
            archived_s, began_s = writer.go_on_until_archived(server.url, paths), time.monotonic()
            watch.flushall()
            loss = Loss(archived_s, began_s, time.monotonic())
            put_back_by(watch, daemons, WITHIN_S)
            writer.go_on(1)
        eventually(lambda: writer.due(loss) <= set(queued(watch)), WITHIN_S)
        await_caught_up(server.url, *paths, within_s=WITHIN_S)
        stories = [client.why(id) for id in ("s0", "s1", "refire-0", "skip-0")]
        again = client.history(status="pushed_again", limit=1000)
        skipped = client.history(status="skipped", limit=1000)

        assert_all_back(client, writer, before, loss)
        now_queued = queued(watch)
        assert [] == doubles(now_queued)
        refired = {run for run in waiting if run.startswith("refire-")}
        assert refired == {run for run in now_queued if run.startswith("refire-")}
        assert {b"1"} == {watch.hget(f"{RQ}:job:{run}", "zs_uncertain") for run in refired}
        assert refired <= {change.run_id for change in again}
        assert [] == [run for run in now_queued if run.startswith("skip-")]
        assert {f"skip-{n}" for n in range(IN_DOUBT)} == {change.id for change in skipped}
        for story in stories[:2]:
            assert [What.PUT, What.RESTORED] == [change.what for change in story.changes]
            assert "created by" in story.lines[0][1]
            assert "restored, due" in story.lines[1][1]
        assert "pushed again" in stories[2].lines[-1][1]
        assert "a lost Redis may have pushed it already" in stories[3].lines[-1][1]
        stop_standby_first(daemons, watch)
        for path in paths:
            assert set() == unmarked_doubles(history(path))
            assert_state_is_redis_own(server.url, path)


def test_a_redis_with_an_older_rdb_gets_only_later_changes_back_under_load(start_daemon: Start, tmp_path: Path) -> None:
    paths, saved = [tmp_path / "one.db", tmp_path / "two.db"], tmp_path / "old.rdb"
    with own_server() as server, connect(server.url) as watch:
        daemons, client = archiving_daemons(start_daemon, server.url, paths), Client.from_url(server.url)
        before = fill(client)
        with Writer(server.url, (f"s{n}" for n in range(100, SCHEDULES))) as writer:
            writer.go_on(1)
            watch.save()
            shutil.copy(server.folder / "dump.rdb", saved)
            writer.go_on(RDB_AGE_S)
            archived_s, began_s = writer.go_on_until_archived(server.url, paths), time.monotonic()
            put_back(server, saved)
            loss = Loss(archived_s, began_s, time.monotonic())
            put_back_by(watch, daemons, WITHIN_S)
            writer.go_on(1)
        eventually(lambda: writer.due(loss) <= set(queued(watch)), WITHIN_S)
        await_caught_up(server.url, *paths, within_s=WITHIN_S)
        stop_standby_first(daemons, watch)

        assert_all_back(client, writer, before, loss)
        rows, touched = rows_put_back(server.url), max(map(lost_keys, paths, daemons))
        assert 0 < rows <= touched < len(before)
        assert [] == doubles(queued(watch))
        for path in paths:
            assert set() == unmarked_doubles(history(path))
            assert_state_is_redis_own(server.url, path)


def lost_keys(path: Path, daemon: DaemonProcess) -> int:
    """Return the number of schedules and runs in the lost part of the log, by the archive at *path*."""
    told, entries = daemon.of("redis_history_lost")[0], history(path)
    ids = [entry.position.id for entry in entries]
    lost = entries[ids.index(told["common"]) + 1 : ids.index(told["had"]) + 1]
    return len({key for entry in lost for key, _ in touches(entry, "")})
