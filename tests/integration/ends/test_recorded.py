"""Ends of runs with real daemons and workers: they are recorded and shown, also if a worker is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonThread, archive_of_its_own, leading_daemon
from tests.builders.leaders import KEYS
from tests.builders.workers import RqWorkers
from tests.integration.ends.tracking import FUNC, agains, ends, lapse, opened, recorded
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.config.settings import ArchiveSettings
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import GONE
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link

TASKS = """
def run():
    pass

def fail():
    raise ValueError("on purpose")
"""
HANGING = """
import os, pathlib, signal

def hang_once(path):
    \"\"\"The first time for ever, then not at all.\"\"\"
    if not pathlib.Path(path).exists():
        pathlib.Path(path).write_text(f"{os.getpid()} ")
        signal.pause()

def fail_while(path):
    if pathlib.Path(path).exists():
        raise ValueError("on purpose")

def fail_second(path):
    with open(path, "a") as log:
        log.write("x")
    if os.path.getsize(path) != 2:
        raise ValueError("on purpose")
"""


def test_ends_of_runs_are_recorded_and_shown(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    path = archive_of_its_own()
    with leading_daemon(redis_url, path), Guard() as guard:
        client.schedule("tasks.run", id="good", after=0)
        client.schedule("tasks.run", id="rule", every=0.2, count=1)
        client.schedule("tasks.fail", id="bad", after=0)
        client.schedule("tasks.run", id="waits", after=0, queue="nobody")
        lost = client.enqueue("tasks.run", id="lost", queue="nobody").run_id
        eventually(lambda: len(opened(path)) == 5)

        RqWorkers(guard, redis_url, tmp_path, TASKS).work()
        redis_client.delete(KEYS.rq.job(lost))
        eventually(lambda: opened(path) == {"waits"})

        runs = {run.schedule_id: run for run in recorded(link)}
        stories = {id: client.why(id) for id in ("good", "rule", "bad", "lost", "waits")}

    assert {"good": "succeeded", "rule": "succeeded", "bad": "failed", "lost": "lost"} == {
        id: run.status.value for id, run in runs.items()
    }
    assert GONE == runs["lost"].error
    assert "ValueError: on purpose" == runs["bad"].error
    for id in ("good", "rule", "bad"):
        run = runs[id]
        assert None not in (run.lateness_ms, run.queue_wait_ms, run.duration_ms)
        assert run.worker
        assert 1 == run.attempt
    assert What.RUN_ENDED is stories["rule"].changes[-1].what
    assert f"run {runs['bad'].id} failed" in stories["bad"].lines[-1][1]


def test_a_standby_follows_recorded_ends_and_records_none(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis
) -> None:
    first, second = archive_of_its_own(), archive_of_its_own()
    with (
        DaemonThread(redis_url, archive=ArchiveSettings(path=first)),
        DaemonThread(redis_url, archive=ArchiveSettings(path=second)),
    ):
        eventually(lambda: Archivers(link, KEYS).alive() == 2)
        runs = [client.enqueue(FUNC, id=f"s{number}").run_id for number in range(5)]
        eventually(lambda: len(opened(first)) == len(opened(second)) == 5)
        for run in runs:
            redis_client.hset(KEYS.rq.job(run), "status", "finished")
        eventually(lambda: not opened(first) and not opened(second))

    assert sorted(f"{run} succeeded" for run in runs) == sorted(ends(link))


def test_a_new_leader_records_runs_that_ended_without_a_leader(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis
) -> None:
    path = archive_of_its_own()
    with leading_daemon(redis_url, path):
        run = client.enqueue(FUNC, id="a").run_id
        eventually(lambda: opened(path))
    redis_client.hset(KEYS.rq.job(run), "status", "stopped")

    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: not opened(path))

    assert [f"{run} cancelled"] == ends(link)


def test_runs_are_not_recorded_as_gone_after_a_flush(client: Client, link: Link, redis_url: str) -> None:
    redis_client = redis.Redis.from_url(redis_url)
    path = archive_of_its_own()
    with redis_client, leading_daemon(redis_url, path):
        for number in range(20):
            client.enqueue(FUNC, id=f"s{number}")
        eventually(lambda: len(opened(path)) == 20)

        redis_client.flushall()
        eventually(lambda: Archivers(link, KEYS).alive())
        client.enqueue(FUNC, id="after")
        eventually(lambda: "after" in opened(path))

    assert [] == ends(link)


class Workers(RqWorkers):
    """Real workers of the queue default."""

    def __init__(self, guard: Guard, url: str, folder: Path, client: redis.Redis) -> None:
        super().__init__(guard, url, folder, HANGING)
        self._redis = client

    def die_in_the_middle_of(self, run_id: str) -> None:
        """Let a worker begin *run_id*, and kill it with all of its processes; then its heartbeat lapses."""
        worker = self.start()
        began = self.folder / "began"
        eventually(lambda: began.exists() and began.read_text().endswith(" "))
        worker.kill()  # the worker first: it would notice that its work horse died
        worker.wait(WITHIN_S)
        os.kill(int(began.read_text()), signal.SIGKILL)
        assert b"started" == self._redis.hget(KEYS.rq.job(run_id), "status")
        lapse(self._redis, run_id)


@pytest.fixture
def workers(redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Workers]:
    with Guard() as guard:
        yield Workers(guard, redis_url, tmp_path, redis_client)


def test_a_run_whose_worker_was_killed_is_run_again_and_ends_with_its_second_attempt(
    client: Client, link: Link, redis_url: str, workers: Workers
) -> None:
    with leading_daemon(redis_url) as running:
        run_id = client.enqueue("tasks.hang_once", args=(str(workers.folder / "began"),), id="a", retry=1).run_id or ""
        workers.die_in_the_middle_of(run_id)

        [row] = eventually(lambda: agains(link))
        workers.work()
        [run] = eventually(lambda: recorded(link))

        lines = client.why("a").lines
    assert (run_id, 2) == (row.run_id, row.count)
    assert row.why.startswith("its worker ")
    assert " died: no heartbeat since 20" in row.why
    assert (run_id, "succeeded", 2) == (run.id, run.status.value, run.attempt)
    assert (run_id, True) == (running.wait_for("run_lost")["run_id"], running.wait_for("run_lost")["goes_on"])
    assert any("died" in line for _, line in lines)


@pytest.mark.parametrize("options", [{"on_lost": "fail", "retry": 3}, {}])
def test_a_run_of_a_killed_worker_without_retries_ends_as_lost(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, workers: Workers, options: dict[str, Any]
) -> None:
    with leading_daemon(redis_url):
        args = (str(workers.folder / "began"),)
        run_id = client.enqueue("tasks.hang_once", args=args, id="a", **options).run_id or ""
        workers.die_in_the_middle_of(run_id)
        [run] = eventually(lambda: recorded(link))
        workers.work()

    assert (run_id, "lost", 1) == (run.id, run.status.value, run.attempt)
    assert run.error.startswith(f"its worker {run.worker} died: no heartbeat since ")
    assert None not in (run.heartbeat_ms, run.started_ms, run.ended_ms)
    assert (run.duration_ms or 0) == max((run.heartbeat_ms or 0) - (run.started_ms or 0), 0)
    assert (b"failed", True) == (
        redis_client.hget(KEYS.rq.job(run_id), "status"),
        redis_client.zscore(f"{RQ}:failed:default", run_id) is not None,
    )  # fmt: skip
    assert ([], 0) == (agains(link), redis_client.zcard(f"{RQ}:wip:default"))
    assert [run] == recorded(link)


def test_a_rule_whose_runs_keep_failing_is_paused(client: Client, link: Link, redis_url: str, workers: Workers) -> None:
    broken = workers.folder / "broken"
    broken.touch()
    with leading_daemon(redis_url) as running:
        client.schedule("tasks.fail_while", args=(str(broken),), id="r", every=3600, pause_after_failures=2)
        runs = []
        for _ in range(2):
            assert "active" == client.get("r").state.value
            runs.append(client.run_now("r"))
            workers.work()
            eventually(lambda: len(recorded(link)) == len(runs))
        eventually(lambda: client.get("r").state.value == "paused")

        assert f"2 failures in a row, the last of run {runs[-1]}" == client.get("r").note
        assert "r" == running.wait_for("schedule_paused")["schedule_id"]
        client.resume("r")
        client.run_now("r")
        workers.work()
        eventually(lambda: len(recorded(link)) == 3)
        broken.unlink()
        client.run_now("r")
        workers.work()
        eventually(lambda: len(recorded(link)) == 4)
        assert "active" == client.get("r").state.value

    assert ["failed", "failed", "failed", "succeeded"] == [run.status.value for run in recorded(link)]


def test_a_success_between_failures_avoids_pauses(client: Client, link: Link, redis_url: str, workers: Workers) -> None:
    with leading_daemon(redis_url):
        client.schedule(
            "tasks.fail_second", args=(str(workers.folder / "log"),), id="r", every=3600, pause_after_failures=2
        )
        for _ in range(3):  # they end together, between two looks of the tracker
            client.run_now("r")
        workers.work()
        eventually(lambda: len(recorded(link)) == 3)

        assert "active" == client.get("r").state.value
    assert ["failed", "failed", "succeeded"] == sorted(run.status.value for run in recorded(link))
