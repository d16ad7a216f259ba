"""Failed runs that are requeued with RQ's own command: they are what became of them at last, at every door."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link

TASKS = """
from rq import get_current_job

def once():
    job = get_current_job()
    if job.connection.incr("tries:" + job.id) == 1:
        raise ValueError("first time")

def wait():
    job = get_current_job()
    if job.connection.incr("tries:" + job.id) == 1:
        raise ValueError("first time")
    job.connection.blpop("go on", 60)
"""


class Stage:
    """Runs of a real worker, and RQ's command."""

    def __init__(self, client: Client, url: str, redis_client: redis.Redis, workers: RqWorkers) -> None:
        self.client, self.zsched, self.redis, self.workers, self._url = client, Zsched(url), redis_client, workers, url

    def failed(self, task: str, *ids: str) -> list[str]:
        runs = [self.client.enqueue(f"tasks.{task}", id=id).run_id or "" for id in ids]
        self.workers.work()
        return runs

    def requeue(self, *runs: str) -> None:
        command = [sys.executable, "-m", "rq.cli", "requeue", "--queue", "default", *(runs or ["--all"])]
        subprocess.run(command, check=True, timeout=ENDS_S, env=os.environ | {"RQ_REDIS_URL": self._url})

    def tries(self, *runs: str) -> list[int]:
        return [int(self.redis.get(f"tries:{run}") or 0) for run in runs]

    def asked(self, *arguments: str) -> Any:
        return json.loads(self.zsched(*arguments, "--json").stdout)


@pytest.fixture
def stage(redis_client: redis.Redis, link: Link, redis_url: str, guard: Guard, tmp_path: Path) -> Stage:
    know(redis_client)
    return Stage(Client(link), redis_url, redis_client, RqWorkers(guard, redis_url, tmp_path, TASKS))


@pytest.fixture
def daemon(redis_url: str) -> Iterator[DaemonThread]:
    with DaemonThread(redis_url) as daemon:
        yield daemon


def ended(stage: Stage, run: str, number: int) -> bool:
    """Return True if an archive has *number* ends of *run*."""
    story = stage.client.why(run)
    return story.source.archive is not None and number == sum(one.what.value == "run_ended" for one in story.changes)


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("when", ["at once", "recorded"])
def test_a_requeued_run_that_succeeded_is_succeeded_at_every_door(stage: Stage, when: str) -> None:
    [run] = stage.failed("once", "a")
    eventually(lambda: ended(stage, run, 1))
    stage.requeue()
    stage.workers.work()
    if when == "recorded":
        eventually(lambda: ended(stage, run, 2))

    retried = stage.client.retry_many("failed")
    shown = stage.asked("history", "a")["occurrences"][0]["run"]
    failed = stage.asked("history", "--status", "failed")["occurrences"]
    retried_again = stage.asked("retry", "--status", "failed", "--match", "*")
    stage.workers.work()

    assert (0, 0) == (retried.found, retried_again["found"])
    assert ("succeeded", 2, []) == (shown["status"], shown["attempt"], failed)
    assert [] == stage.client.runs(status="failed")
    assert ["succeeded"] == [one.status.value for one in stage.client.runs()]
    assert "RAN" == stage.client.why("a").verdict.word == stage.client.why(run).verdict.word
    assert [2] == stage.tries(run)


@pytest.mark.usefixtures("daemon")
def test_a_requeued_run_counts_once_in_status(stage: Stage) -> None:
    [run] = stage.failed("once", "a")
    eventually(lambda: ended(stage, run, 1))
    stage.requeue()
    stage.workers.work()
    eventually(lambda: ended(stage, run, 2))

    told = stage.asked("status")

    assert [] == told["failures"]
    assert {(0, 1)} == {(one["ended"]["failed"], one["ended"]["succeeded"]) for one in told["recent"]["stretches"]}


@pytest.mark.usefixtures("daemon")
def test_a_requeued_run_that_runs_is_running_and_not_retried(
    stage: Stage, redis_client: redis.Redis, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: redis_client.rpush("go on", "1"))
    [run] = stage.failed("wait", "a")
    eventually(lambda: ended(stage, run, 1))
    stage.requeue(run)
    stage.workers.start("--burst")
    eventually(lambda: [2] == stage.tries(run))

    retried = stage.client.retry_many("failed")

    assert (0, []) == (retried.found, stage.client.runs(status="failed"))
    assert ["running"] == [one.status.value for one in stage.client.runs()]
    assert "running" == stage.client.get_run(run)[0].status
    assert "RUNNING" == stage.client.why("a").verdict.word == stage.client.why(run).verdict.word


def test_a_bulk_retry_leaves_out_requeued_runs_whose_end_no_daemon_recorded(
    stage: Stage, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonThread(redis_url):
        runs = stage.failed("once", "a", "b")
        eventually(lambda: all(ended(stage, run, 1) for run in runs))
    stage.requeue(runs[0])
    stage.workers.work()

    found = stage.client.retry_many("failed", dry_run=True)
    monkeypatch.setattr(stage.client._history, "updated", lambda runs: list(runs))  # requeued after they were found
    retried = stage.client.retry_many("failed")

    assert (None, (runs[1],)) == (found.source and found.source.archive, found.sample)
    assert (2, 1, 1) == (retried.found, retried.done, retried.skipped)
