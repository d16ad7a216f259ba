"""Runs whose worker died: with real workers that are killed, and step by step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import structlog.testing

from tests.faults.leader import KEYS, Leader
from tests.faults.processes import archive_of_its_own, eventually
from tests.faults.threads import STEADY, DaemonThread
from zsched import Client
from zsched.archive import Archive
from zsched.config import ArchiveSettings
from zsched.core.clock import SystemClock
from zsched.core.entries import Again, again
from zsched.core.entries import ended as told
from zsched.core.log import Entry, Position
from zsched.core.runs import Run, of_row
from zsched.daemon import lost, tracker
from zsched.daemon.follower import Follower
from zsched.daemon.lost import LostRuns, Patience
from zsched.daemon.tracker import Tracker
from zsched.embedded.guard import Guard
from zsched.storage import registries
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.log import Log
from zsched.storage.registries import Registries

pytestmark = pytest.mark.redis
FUNC = "app.tasks.run"
TASKS = """
import os, pathlib, time

def hang_once(path):
    \"\"\"The first time for ever, then not at all.\"\"\"
    if not pathlib.Path(path).exists():
        pathlib.Path(path).write_text(f"{os.getpid()} ")
        time.sleep(600)

def fail_while(path):
    if pathlib.Path(path).exists():
        raise ValueError("on purpose")

def fail_second(path):
    with open(path, "a") as log:
        log.write("x")
    if os.path.getsize(path) != 2:
        raise ValueError("on purpose")
"""
LEFT = "it left its queue and no worker has it"


def entries(link: Link, kind: str) -> list[Entry]:
    return [entry for entry in Log(link, KEYS).entries() if entry.kind == kind]


def ends(link: Link) -> list[Run]:
    """What every line of every ``end`` entry tells."""
    return [of_row(*row) for entry in entries(link, "end") for row in told(entry)]


def agains(link: Link) -> list[Again]:
    """Every line of every ``again`` entry."""
    return [row for entry in entries(link, "again") for row in again(entry)]


# -- workers that are killed --------------------------------------------------------------------------


class Workers:
    """Real workers of the queue default, which find the module ``tasks`` in *folder*."""

    def __init__(self, guard: Guard, url: str, folder: Path, client: redis.Redis) -> None:
        self._guard, self._url, self.folder, self._redis = guard, url, folder, client
        (folder / "tasks.py").write_text(TASKS)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rq.cli", "worker", "--url", self._url, *more, "default"]
        env = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONWARNINGS": "default"}
        with (self.folder / "worker.log").open("ab") as log:
            return self._guard.spawn(command, cwd=self.folder, env=env, stdout=log, stderr=subprocess.STDOUT)

    def work(self) -> None:
        """Everything that waits is done."""
        assert 0 == self.start("--burst").wait(60), (self.folder / "worker.log").read_text()

    def die_in_the_middle_of(self, run_id: str) -> None:
        """A worker begins *run_id* and is killed with all of its processes; then its heartbeat lapses."""
        worker = self.start()
        began = self.folder / "began"
        eventually(lambda: began.exists() and began.read_text().endswith(" "))
        worker.kill()  # the worker first: it would notice that its work horse died
        worker.wait(10)
        os.kill(int(began.read_text()), signal.SIGKILL)
        assert b"started" == self._redis.hget(KEYS.job(run_id), "status")
        lapse(self._redis, run_id)


def lapse(client: redis.Redis, run_id: str) -> None:
    """Two minutes pass for what RQ knows of the worker of *run_id*."""
    for member in client.zrange("rq:wip:default", 0, -1):
        if member.startswith(run_id.encode()):
            client.zadd("rq:wip:default", {member: client.time()[0] - 60})
            client.delete(b"rq:execution:" + member)
    earlier = datetime.now(UTC) - timedelta(minutes=2)
    client.hset(KEYS.job(run_id), "last_heartbeat", earlier.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


@pytest.fixture
def workers(redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Workers]:
    with Guard() as guard:
        yield Workers(guard, redis_url, tmp_path, redis_client)


@contextmanager
def daemon(url: str, link: Link) -> Iterator[DaemonThread]:
    with DaemonThread(url, archive=ArchiveSettings(path=archive_of_its_own()), **STEADY) as running:
        eventually(lambda: Archivers(link, KEYS).alive())
        yield running


def test_a_run_whose_worker_was_killed_is_run_again_and_ends_with_its_second_attempt(
    client: Client, link: Link, redis_url: str, workers: Workers
) -> None:
    with daemon(redis_url, link) as running:
        run_id = client.enqueue("tasks.hang_once", args=(str(workers.folder / "began"),), id="a", retry=1).run_id or ""
        workers.die_in_the_middle_of(run_id)

        [row] = eventually(lambda: agains(link))
        workers.work()
        [run] = eventually(lambda: ends(link))

        lines = client.why("a").lines
    assert (run_id, 2) == (row.run_id, row.attempt)
    assert row.why.startswith("its worker ")
    assert " died: no heartbeat since 20" in row.why
    assert (run_id, "succeeded", 2) == (run.id, run.status.value, run.attempt)
    assert (run_id, True) == (running.wait_for("run_lost")["run_id"], running.wait_for("run_lost")["goes_on"])
    assert any("died" in line for _, line in lines)


@pytest.mark.parametrize("options", [{"on_lost": "fail", "retry": 3}, {}])
def test_a_run_that_is_not_to_be_tried_again_ends_as_lost(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, workers: Workers, options: dict[str, Any]
) -> None:
    with daemon(redis_url, link):
        args = (str(workers.folder / "began"),)
        run_id = client.enqueue("tasks.hang_once", args=args, id="a", **options).run_id or ""
        workers.die_in_the_middle_of(run_id)
        [run] = eventually(lambda: ends(link))
        workers.work()

    assert (run_id, "lost", 1) == (run.id, run.status.value, run.attempt)
    assert run.error.startswith(f"its worker {run.worker} died: no heartbeat since ")
    assert None not in (run.heartbeat_ms, run.started_ms, run.ended_ms)
    assert (run.duration_ms or 0) == max((run.heartbeat_ms or 0) - (run.started_ms or 0), 0)
    assert (b"failed", True) == (
        redis_client.hget(KEYS.job(run_id), "status"), redis_client.zscore("rq:failed:default", run_id) is not None,
    )  # fmt: skip
    assert ([], 0) == (agains(link), redis_client.zcard("rq:wip:default"))
    assert [run] == ends(link)


def test_a_rule_whose_runs_fail_one_after_the_other_is_paused_until_it_is_resumed(
    client: Client, link: Link, redis_url: str, workers: Workers
) -> None:
    broken = workers.folder / "broken"
    broken.touch()
    with daemon(redis_url, link) as running:
        client.schedule("tasks.fail_while", args=(str(broken),), id="r", every=3600, pause_after_failures=2)
        runs = []
        for _ in range(2):
            assert "active" == client.get("r").state.value
            runs.append(client.run_now("r"))
            workers.work()
            eventually(lambda: len(ends(link)) == len(runs))
        eventually(lambda: client.get("r").state.value == "paused")

        assert f"2 failures in a row, the last of run {runs[-1]}" == client.get("r").note
        assert "r" == running.wait_for("schedule_paused")["schedule_id"]
        client.resume("r")
        client.run_now("r")
        workers.work()
        eventually(lambda: len(ends(link)) == 3)
        broken.unlink()
        client.run_now("r")
        workers.work()
        eventually(lambda: len(ends(link)) == 4)
        assert "active" == client.get("r").state.value

    assert ["failed", "failed", "failed", "succeeded"] == [run.status.value for run in ends(link)]


def test_a_success_between_two_failures_pauses_nothing(
    client: Client, link: Link, redis_url: str, workers: Workers
) -> None:
    with daemon(redis_url, link):
        client.schedule(
            "tasks.fail_second", args=(str(workers.folder / "log"),), id="r", every=3600, pause_after_failures=2
        )
        for _ in range(3):  # they end together, between two looks of the tracker
            client.run_now("r")
        workers.work()
        eventually(lambda: len(ends(link)) == 3)

        assert "active" == client.get("r").state.value
    assert ["failed", "failed", "succeeded"] == sorted(run.status.value for run in ends(link))


# -- step by step -------------------------------------------------------------------------------------


class Losing:
    """A leader with a tracker and its lost runs by hand, and the archive that they read."""

    def __init__(self, url: str, path: Path, patience: Patience) -> None:
        self.leader, self.path, self.follows = Leader(url), path, True
        self.link = Link.from_url(url, 5)
        self._wire = self.link.open()
        self._archive = Archive(path, "default")
        self._follower = Follower(self._archive, self._wire, KEYS, SystemClock())
        self.tracker = Tracker(self, KEYS).over(self._wire)  # type: ignore[arg-type]  # it has what is asked of an archiver
        self.lost = LostRuns(self, KEYS, self.tracker, patience).over(self._wire)  # type: ignore[arg-type]  # likewise

    def wait_until(self, seen: Position | None, within_s: float) -> None:
        """As the archiver's, but it follows only now."""
        self.follow()

    def follow(self) -> None:
        while self.follows and not self._follower.step():
            pass

    def step(self) -> None:
        """Both, after the archive followed."""
        self.follow()
        self.tracker.step(self.leader.term)
        self.lost.step(self.leader.term)

    def close(self) -> None:
        self.leader.close()
        self._wire.close()
        self._archive.close()
        self.link.pool.disconnect()


@pytest.fixture
def losing(client: Client, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Losing]:
    """At once, whatever seems lost is."""
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 0.0)
    with closing(Losing(redis_url, tmp_path / "archive.db", Patience(2, 0, 0))) as losing:
        losing.follow()
        yield losing


def taken(client: redis.Redis, run_id: str | None) -> str:
    """A worker took *run_id* from its queue and died."""
    client.lrem("rq:queue:default", 1, run_id or "")
    return run_id or ""


def ago(client: redis.Redis, *run_ids: str | None) -> None:
    """They were pushed an hour ago, one after the other."""
    then = datetime.now(UTC) - timedelta(hours=1)
    for number, run_id in enumerate(run_ids):
        at = then + timedelta(seconds=number)
        client.hset(KEYS.job(run_id or ""), "enqueued_at", at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def test_a_lost_run_at_the_head_of_its_queue_keeps_no_other_from_being_recorded(
    losing: Losing, client: Client, redis_client: redis.Redis
) -> None:
    runs = [client.enqueue(FUNC, id=id).run_id or "" for id in "abc"]
    ago(redis_client, *runs)
    head = taken(redis_client, runs[0])
    taken(redis_client, runs[1])
    redis_client.hset(KEYS.job(runs[1]), "status", "finished")

    losing.step()

    assert [(runs[1], "succeeded", ""), (head, "lost", LEFT)] == [
        (run.id, run.status.value, run.error) for run in ends(losing.link)
    ]
    assert [runs[2].encode()] == redis_client.lrange("rq:queue:default", 0, -1)


def test_a_run_that_left_its_queue_is_pushed_again_while_retries_are_left(
    losing: Losing, client: Client, redis_client: redis.Redis
) -> None:
    runs = [client.enqueue(FUNC, id=id, retry=1).run_id or "" for id in "ab"]
    ago(redis_client, *runs)
    taken(redis_client, runs[0])

    losing.step()
    assert [Again(runs[0], 2, LEFT)] == agains(losing.link)
    assert [runs[1].encode(), runs[0].encode()] == redis_client.lrange("rq:queue:default", 0, -1)

    ago(redis_client, *runs)
    taken(redis_client, runs[0])
    losing.step()
    assert [(runs[0], "lost", 2)] == [(run.id, run.status.value, run.attempt) for run in ends(losing.link)]


@pytest.mark.parametrize("why_not", ["in the queue", "on its way", "begun", "behind the head", "pushed just now"])
def test_a_run_that_may_still_be_run_is_left_alone(
    losing: Losing, client: Client, redis_client: redis.Redis, why_not: str, tmp_path: Path
) -> None:
    first, second = (client.enqueue(FUNC, id=id, retry=1).run_id or "" for id in "ab")
    ago(redis_client, first, second)
    if why_not == "on its way":
        redis_client.rpush("rq:queue:default:intermediate", taken(redis_client, first))
    elif why_not == "begun":
        redis_client.zadd(f"rq:executions:{taken(redis_client, first)}", {"x": 1})
    elif why_not == "behind the head":
        taken(redis_client, second)
    elif why_not == "pushed just now":
        losing.lost = LostRuns(losing, KEYS, losing.tracker, Patience(2, 4000, 0)).over(losing.link.open())  # type: ignore[arg-type]  # likewise
        taken(redis_client, first)

    losing.step()

    assert ([], []) == (agains(losing.link), ends(losing.link))


def test_it_is_missed_for_a_while_before_it_counts_as_lost(
    losing: Losing, client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = losing.link.open()
    losing.lost = LostRuns(losing, KEYS, losing.tracker, Patience(2, 60, 5)).over(wire)  # type: ignore[arg-type]  # likewise
    now_s = redis_client.time()[0]
    runs = [client.enqueue(FUNC, id=id).run_id or "" for id in "ab"]
    ago(redis_client, *runs)
    for run_id in runs:
        taken(redis_client, run_id)

    for passed_s in (0, 4):
        monkeypatch.setattr(Registries, "now_s", lambda self, passed_s=passed_s: now_s + passed_s)
        losing.step()
    redis_client.rpush("rq:queue:default:intermediate", runs[1])  # a worker has it after all
    assert [] == ends(losing.link)
    monkeypatch.setattr(Registries, "now_s", lambda self: now_s + 5)
    losing.step()

    assert [(runs[0], LEFT)] == [(run.id, run.error) for run in ends(losing.link)]


def test_of_a_queue_that_is_too_long_to_look_through_only_what_must_have_been_taken_is_lost(
    losing: Losing, client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "_LINE", 4)
    early, *waiting = (client.enqueue(FUNC, id=f"s{number}").run_id or "" for number in range(8))
    ago(redis_client, early, *waiting)
    front = [client.enqueue(FUNC, id=f"f{number}", at_front=True).run_id or "" for number in range(5)]
    taken(redis_client, early)

    losing.step()
    assert [] == ends(losing.link)  # five are in front, newest first: the others cannot be seen

    for run_id in front:
        taken(redis_client, run_id)
        redis_client.delete(KEYS.job(run_id))
    losing.tracker.step(losing.leader.term)
    losing.step()

    assert early in {run.id for run in ends(losing.link)}
    assert not {run.id for run in ends(losing.link)} & set(waiting)


def test_a_worker_whose_clock_is_behind_is_not_dead(losing: Losing, client: Client, redis_client: redis.Redis) -> None:
    run_id = taken(redis_client, client.enqueue(FUNC, id="a", retry=1).run_id)
    redis_client.hset(KEYS.job(run_id), "status", "started")
    redis_client.zadd("rq:wip:default", {f"{run_id}:x": redis_client.time()[0]})
    lapse(redis_client, run_id)
    redis_client.set(f"rq:execution:{run_id}:x", "lives", ex=60)

    losing.step()
    assert ([], []) == (agains(losing.link), ends(losing.link))

    redis_client.delete(f"rq:execution:{run_id}:x")
    losing.step()
    assert [run_id] == [row.run_id for row in agains(losing.link)]


def test_an_end_is_recorded_once_also_while_the_archive_does_not_follow(
    losing: Losing, client: Client, redis_client: redis.Redis
) -> None:
    run_id = taken(redis_client, client.enqueue(FUNC, id="a").run_id)
    ago(redis_client, run_id)
    losing.follow()
    losing.tracker.step(losing.leader.term)
    losing.follows = False

    losing.lost.step(losing.leader.term)
    for _ in range(3):
        losing.step()
    losing.follows = True
    for _ in range(2 * tracker._PATIENCE):
        losing.tracker.step(losing.leader.term)
        losing.step()

    assert [run_id] == [run.id for run in ends(losing.link)]


def test_an_end_is_recorded_once_also_by_a_leader_that_was_slow(
    losing: Losing, client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = taken(redis_client, client.enqueue(FUNC, id="a").run_id)
    ago(redis_client, run_id)
    losing.follow()
    losing.tracker.step(losing.leader.term)
    now_s = Registries.now_s

    with monkeypatch.context() as slow:  # it looked three seconds before it writes
        slow.setattr(Registries, "now_s", lambda self: now_s(self) - 3)
        losing.lost.step(losing.leader.term)
    for _ in range(2 * tracker._PATIENCE):
        losing.follow()
        losing.tracker.step(losing.leader.term)

    assert [run_id] == [run.id for run in ends(losing.link)]


def test_a_number_of_retries_that_is_none_keeps_nobody_else_from_being_found(
    losing: Losing, client: Client, redis_client: redis.Redis
) -> None:
    odd, good = (taken(redis_client, client.enqueue(FUNC, id=id, retry=1).run_id) for id in ("odd", "good"))
    redis_client.hset(KEYS.job(odd), "retries_left", "²")
    for run_id in (odd, good):
        redis_client.hset(KEYS.job(run_id), "status", "started")
        redis_client.zadd("rq:wip:default", {f"{run_id}:x": redis_client.time()[0]})
        lapse(redis_client, run_id)

    losing.step()

    assert ([good], [odd]) == ([row.run_id for row in agains(losing.link)], [run.id for run in ends(losing.link)])


def test_others_jobs_that_lapsed_are_left_to_rq(losing: Losing, redis_client: redis.Redis) -> None:
    members = {f"{uuid}:x": 1 for uuid in ("1c4e", "mail-1767225600000", "1c4e-1767225600000-nother")}
    redis_client.zadd("rq:wip:default", members)
    redis_client.sadd("rq:queues", "rq:queue:default")

    with structlog.testing.capture_logs() as events:
        losing.step()

    assert ([], 3) == (events, redis_client.zcard("rq:wip:default"))


def test_the_usual_patience_is_longer_than_a_worker_needs_to_begin() -> None:
    assert Patience(grace_s=2, queued_s=60, missing_s=5) == lost.USUAL
