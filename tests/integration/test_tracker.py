"""
Runs that end: a leader records it, every archive learns it, and the story tells it. With real workers; and its steps
by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.faults.leader import KEYS, Leader
from tests.faults.processes import archive_of_its_own, eventually
from tests.faults.threads import DaemonThread, know
from zsched import Client
from zsched.archive import Archive
from zsched.archive.openruns import OpenRuns
from zsched.config import ArchiveSettings
from zsched.core.changes import What
from zsched.core.clock import SystemClock
from zsched.core.log import Entry, Position
from zsched.daemon import tracker
from zsched.daemon.follower import Follower
from zsched.daemon.tracker import Tracker
from zsched.embedded.guard import Guard
from zsched.errors import Stale
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.log import Log

pytestmark = pytest.mark.redis
FUNC = "app.tasks.run"
STEADY = {"lease_ms": 60_000, "renew_ms": 20_000}  # no other term, however busy the machine is
BURST_S = 60
ALL = 1_000_000
TASKS = """
def run():
    pass

def fail():
    raise ValueError("on purpose")
"""


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> Client:
    know(redis_client)
    return Client.from_url(redis_url)


@pytest.fixture
def link(redis_url: str) -> Iterator[Link]:
    link = Link.from_url(redis_url, 5)
    yield link
    link.pool.disconnect()


def opened(path: str | Path) -> set[str]:
    """Ids of the schedules whose runs the archive has as open."""
    with OpenRuns(Path(path)) as runs:
        return {id for id, _ in runs.open_among(None, ALL, ALL)[0]}


def ends(link: Link) -> list[str]:
    """Every line of every ``end`` entry in the log."""
    return [line for entry in entries(link) for line in entry.fields()[b"rows"].decode().split("\n")]


def entries(link: Link) -> list[Entry]:
    return [entry for entry in Log(link, KEYS).entries() if entry.kind == "end"]


# -- a daemon and workers -----------------------------------------------------------------------------


def test_what_becomes_of_runs_is_recorded_and_told(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path), **STEADY), Guard() as guard:
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule("tasks.run", id="good", after=0)
        client.schedule("tasks.run", id="rule", every=0.2, count=1)
        client.schedule("tasks.fail", id="bad", after=0)
        client.schedule("tasks.run", id="waits", after=0, queue="nobody")
        lost = client.enqueue("tasks.run", id="lost", queue="nobody").run_id
        eventually(lambda: len(opened(path)) == 5)

        work(guard, redis_url, tmp_path)
        redis_client.delete(KEYS.job(lost))
        eventually(lambda: opened(path) == {"waits"})

        told = {line.split(" ")[0].rpartition("-")[0]: line.split(" ")[1:] for line in ends(link)}
        stories = {id: client.why(id) for id in ("good", "rule", "bad", "lost", "waits")}

    assert {"good": "finished", "rule": "finished", "bad": "failed", "lost": "gone"} == {
        id: status for id, (status, *_) in told.items()
    }
    assert told["lost"][1:] == ["-", "-"]
    assert all(began < ended for id, (_, began, ended) in told.items() if id != "lost")
    gone = "it is not scheduled any more: it "
    assert gone + "fired, and its run succeeded" == stories["good"].now
    assert gone + "fired, and its run failed" == stories["bad"].now
    assert gone + "fired; that its run ended is not recorded yet" == stories["waits"].now
    assert stories["lost"].now.endswith("its run is not in RQ any more: nobody recorded what became of it")
    assert stories["rule"].now.startswith("ended")
    assert What.RUN_ENDED is stories["rule"].changes[-1].what
    assert f"run {stories['bad'].changes[-1].run_id} failed" == stories["bad"].lines[-1][1]


def work(guard: Guard, url: str, folder: Path) -> None:
    """A worker does what is in the queue default, then ends."""
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--url", url, "default"]
    env = os.environ | {"PYTHONPATH": str(folder), "PYTHONWARNINGS": "default"}
    with (folder / "worker.log").open("wb") as log:
        worker = guard.spawn(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        assert 0 == worker.wait(BURST_S), (folder / "worker.log").read_text()


def test_a_standby_learns_what_the_leader_records_and_records_nothing(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis
) -> None:
    first, second = archive_of_its_own(), archive_of_its_own()
    with (
        DaemonThread(redis_url, archive=ArchiveSettings(path=first), **STEADY),
        DaemonThread(redis_url, archive=ArchiveSettings(path=second), **STEADY),
    ):
        eventually(lambda: Archivers(link, KEYS).alive() == 2)
        runs = [client.enqueue(FUNC, id=f"s{number}").run_id for number in range(5)]
        eventually(lambda: len(opened(first)) == len(opened(second)) == 5)
        for run in runs:
            redis_client.hset(KEYS.job(run), "status", "finished")
        eventually(lambda: not opened(first) and not opened(second))

    assert sorted(f"{run} finished - -" for run in runs) == sorted(ends(link))


def test_a_daemon_that_takes_over_records_what_ended_when_nobody_led(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis
) -> None:
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: Archivers(link, KEYS).alive())
        run = client.enqueue(FUNC, id="a").run_id
        eventually(lambda: opened(path))
    redis_client.hset(KEYS.job(run), "status", "stopped")

    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: not opened(path))

    assert [f"{run} stopped - -"] == ends(link)


def test_after_a_flush_no_run_is_recorded_as_gone(client: Client, link: Link, redis_url: str) -> None:
    redis_client = redis.Redis.from_url(redis_url)
    path = archive_of_its_own()
    with redis_client, DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: Archivers(link, KEYS).alive())
        for number in range(20):
            client.enqueue(FUNC, id=f"s{number}")
        eventually(lambda: len(opened(path)) == 20)

        redis_client.flushall()
        eventually(lambda: Archivers(link, KEYS).alive())
        client.enqueue(FUNC, id="after")
        eventually(lambda: "after" in opened(path))

    assert [] == ends(link)


# -- step by step -------------------------------------------------------------------------------------


class Tracking:
    """A leader with a tracker by hand, and the archive that it reads, which follows when it is told."""

    def __init__(self, url: str, path: Path) -> None:
        self.leader, self.path, self.follows = Leader(url), path, True
        self.link = Link.from_url(url, 5)
        self._wire = self.link.open()
        self._archive = Archive(path, "default")
        self._follower = Follower(self._archive, self._wire, KEYS, SystemClock())
        self.tracker = self.another()

    def another(self) -> Tracker:
        """One that knows nothing."""
        return Tracker(self, KEYS).over(self._wire)  # type: ignore[arg-type]  # it has what is asked of an archiver

    def wait_until(self, seen: Position | None, within_s: float) -> None:
        """As the archiver's, but it follows only now."""
        self.follow()

    def follow(self) -> None:
        while self.follows and not self._follower.step():
            pass

    def rebuild(self) -> None:
        """The archive begins again with what Redis holds."""
        self._archive.leave_behind()

    def as_of(self) -> Position:
        position = self._archive.position
        assert position is not None
        return position

    def step(self) -> bool:
        """After the archive followed."""
        self.follow()
        return self.tracker.step(self.leader.term)

    def close(self) -> None:
        self.leader.close()
        self._wire.close()
        self._archive.close()
        self.link.pool.disconnect()


@pytest.fixture
def tracking(client: Client, redis_url: str, tmp_path: Path) -> Iterator[Tracking]:
    with closing(Tracking(redis_url, tmp_path / "archive.db")) as tracking:
        tracking.follow()
        yield tracking


def test_an_end_is_recorded_once_also_while_the_archive_does_not_follow(
    tracking: Tracking, client: Client, redis_client: redis.Redis
) -> None:
    runs = [client.enqueue(FUNC, id=id).run_id for id in "ab"]
    tracking.step()
    tracking.follows = False
    redis_client.hset(KEYS.job(runs[0]), "status", "finished")
    tracking.step()
    redis_client.hset(KEYS.job(runs[1]), "status", "failed")
    tracking.step()
    assert [f"{runs[0]} finished - -"] == ends(tracking.link)

    tracking.follows = True
    tracking.step()

    assert [f"{runs[0]} finished - -", f"{runs[1]} failed - -"] == ends(tracking.link)
    assert set() == opened(tracking.path)


def test_a_new_leader_waits_until_its_archive_has_what_earlier_ones_recorded(
    tracking: Tracking, client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    run = client.enqueue(FUNC, id="a").run_id
    tracking.follow()
    redis_client.hset(KEYS.job(run), "status", "finished")
    tracking.follows = False
    redis_client.delete(KEYS.lease())
    with closing(Leader(redis_url)) as second:
        tracking.another().step(second.term)
        assert [] == ends(tracking.link)

        tracking.follows = True
        tracking.follow()
        tracking.another().step(second.term)

    assert [f"{run} finished - -"] == ends(tracking.link)


def test_a_leader_that_was_replaced_records_nothing(
    tracking: Tracking, client: Client, redis_client: redis.Redis
) -> None:
    run = client.enqueue(FUNC, id="a").run_id
    redis_client.hset(KEYS.job(run), "status", "finished")
    redis_client.delete(KEYS.lease())

    with pytest.raises(Stale):
        tracking.step()

    assert [] == ends(tracking.link)


def test_what_is_not_here_is_not_gone_while_the_archive_has_not_noticed_a_loss(
    tracking: Tracking, client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    runs = [client.enqueue(FUNC, id=id).run_id for id in "ab"]
    tracking.follow()
    as_of = tracking.as_of()
    tracking.follows = False
    redis_client.flushall()
    know(redis_client)
    for _ in range(as_of.seq):  # a log with the very same ids
        client.enqueue(FUNC, id="later")

    with closing(Leader(redis_url)) as again:
        assert again.dispatch.track(again.term, as_of, runs) is None
        assert not tracking.another().step(again.term)

    assert [] == entries(tracking.link)


def finish(redis_client: redis.Redis, *runs: str) -> None:
    for run in runs:
        redis_client.hset(KEYS.job(run), "status", "finished")


def ended(tracking: Tracking) -> set[str]:
    return {line.split(" ")[0] for line in ends(tracking.link)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of everything a little in one pass; nothing is found by looking through the state."""
    sizes = {
        "_REMEMBERED": 8,
        "_LEARNT": 4,
        "_OLDEST": 2,
        "_BEHIND": 2,
        "_LOOKED_AT": 0,
        "_LOOKED_AT_FIRST": 0,
        "_AT_ONCE": 3,
        "_MANY": 2,
    }
    for name, size in {**sizes, "_FEW": 1}.items():
        monkeypatch.setattr(tracker, name, size)


@pytest.mark.usefixtures("small")
def test_old_runs_that_never_end_do_not_hide_the_others(
    tracking: Tracking, client: Client, redis_client: redis.Redis
) -> None:
    tracking.step()
    runs = [client.enqueue(FUNC, id=f"s{number:02}").run_id for number in range(30)]
    finish(redis_client, *runs[20:])

    for _ in range(40):
        tracking.step()

    assert set(runs[20:]) == ended(tracking)
    assert {f"s{number:02}" for number in range(20)} == opened(tracking.path)


@pytest.mark.usefixtures("small")
def test_what_is_pushed_of_a_rule_is_noticed_too(tracking: Tracking, client: Client, redis_client: redis.Redis) -> None:
    tracking.step()
    client.schedule(FUNC, id="r", every=0.001)
    client.schedule(FUNC, id="a", after=0)
    now = client.run_now("r")
    fired = eventually(lambda: (fired := tracking.leader.fire()).recurring and fired)
    tracking.leader.advance(fired.recurring, fired.now_ms)
    runs = {run.decode() for run in redis_client.lrange("rq:queue:default", 0, -1)}
    finish(redis_client, *runs)

    for _ in range(5):
        tracking.step()

    assert now in runs
    assert runs == ended(tracking)
    assert set() == opened(tracking.path)


def test_what_was_pushed_before_it_led_is_found_round_after_round(
    tracking: Tracking, client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "_LOOKED_AT_FIRST", 4)
    monkeypatch.setattr(tracker, "_LOOKED_AT", 3)
    monkeypatch.setattr(tracker, "_AROUND", 2)
    runs = [client.enqueue(FUNC, id=f"s{number}").run_id for number in range(20)]
    client.schedule_many({"func": FUNC, "id": f"waits{number}", "after": 3600} for number in range(20))
    tracking.follow()
    finish(redis_client, *runs[::2])

    for _ in range(20):
        tracking.step()
    assert set(runs[::2]) == ended(tracking)

    finish(redis_client, *runs)
    for _ in range(20):
        tracking.step()
    assert sorted(runs) == sorted(line.split(" ")[0] for line in ends(tracking.link))


def test_when_many_ended_the_next_pass_follows_at_once(
    tracking: Tracking, client: Client, redis_client: redis.Redis
) -> None:
    tracking.step()
    runs = [client.enqueue(FUNC, id=f"s{number}").run_id for number in range(tracker._MANY)]
    assert not tracking.step()

    finish(redis_client, *runs)

    assert [True, False] == [tracking.step(), tracking.step()]
    assert 1 == len(entries(tracking.link))


def test_with_a_new_state_it_begins_anew(tracking: Tracking, client: Client, redis_client: redis.Redis) -> None:
    tracking.step()
    run = client.enqueue(FUNC, id="a").run_id
    tracking.step()
    last = Log(tracking.link, KEYS).last()
    assert last is not None
    redis_client.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    tracking.rebuild()

    finish(redis_client, run)
    tracking.step()

    assert {run} == ended(tracking)
