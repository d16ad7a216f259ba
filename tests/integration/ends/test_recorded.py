"""Ends of runs with a real daemon and real workers: they are recorded, archived, and shown in the story."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import redis

from tests.faults.leader import KEYS
from tests.faults.processes import ENDS_S, archive_of_its_own, eventually
from tests.faults.threads import DaemonThread
from tests.integration.ends.ground import FUNC, ends, opened, recorded
from zsched import Client
from zsched.config.settings import ArchiveSettings
from zsched.core.changes import What
from zsched.core.runs import GONE
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link

TASKS = """
def run():
    pass

def fail():
    raise ValueError("on purpose")
"""


def test_ends_of_runs_are_recorded_and_shown(
    client: Client, link: Link, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)), Guard() as guard:
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule("tasks.run", id="good", after=0)
        client.schedule("tasks.run", id="rule", every=0.2, count=1)
        client.schedule("tasks.fail", id="bad", after=0)
        client.schedule("tasks.run", id="waits", after=0, queue="nobody")
        lost = client.enqueue("tasks.run", id="lost", queue="nobody").run_id
        eventually(lambda: len(opened(path)) == 5)

        work(guard, redis_url, tmp_path)
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


def work(guard: Guard, url: str, folder: Path) -> None:
    """Let a worker empty the queue default, then end."""
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--url", url, "default"]
    env = os.environ | {"PYTHONPATH": str(folder), "PYTHONWARNINGS": "default"}
    with (folder / "worker.log").open("wb") as log:
        worker = guard.spawn(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        assert 0 == worker.wait(ENDS_S), (folder / "worker.log").read_text()


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
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: Archivers(link, KEYS).alive())
        run = client.enqueue(FUNC, id="a").run_id
        eventually(lambda: opened(path))
    redis_client.hset(KEYS.rq.job(run), "status", "stopped")

    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)):
        eventually(lambda: not opened(path))

    assert [f"{run} cancelled"] == ends(link)


def test_runs_are_not_recorded_as_gone_after_a_flush(client: Client, link: Link, redis_url: str) -> None:
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
