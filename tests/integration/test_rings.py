"""Workers of ``zsched.rq`` ring when a run is over for which others may wait, and the leader starts the next one."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError
from rq import Queue

from tests.builders.daemons import NAP_MS, DaemonThread
from tests.builders.namespaces import Namespace
from tests.builders.workers import RqWorkers
from tests.faults.leases import await_listeners
from tests.faults.overlap import KEYS, Stage
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.daemon import releases
from zsched.daemon.releases import Native
from zsched.embedded.guard import Guard
from zsched.rq import SimpleWorker
from zsched.storage.keys import Keys

TASKS = """
import os, signal

def succeed():
    pass

def fail():
    raise ValueError("no")

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
OURS, SIMPLE, PLAIN = "zsched.rq.Worker", "zsched.rq.SimpleWorker", "rq.Worker"
Work = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def work(rq_python: str, redis_url: str, guard: Guard, tmp_path: Path) -> Work:
    """Let a worker of a class execute all that waits."""
    workers = RqWorkers(guard, redis_url, tmp_path, TASKS, rq_python)
    return lambda kind: workers.start("--burst", "--worker-class", kind)


@pytest.fixture
def rung(redis_url: str, redis_client: redis.Redis) -> Iterator[Namespace]:
    ns = Namespace(redis_client, redis_url)
    yield ns
    ns.close()


def push(client: Client, task: str, overlap: str = "queue", id: str = "r") -> str:
    """Push a run of a schedule with a policy; return its id."""
    client.schedule(f"tasks.{task}", id=id, every=3600, overlap=overlap)
    return client.run_now(id)


@pytest.mark.parametrize(
    ("kind", "task", "status"),
    [(OURS, "succeed", b"finished"), (OURS, "fail", b"failed"), (OURS, "die", b"failed"),
     (SIMPLE, "succeed", b"finished"), (SIMPLE, "fail", b"failed")],
)  # fmt: skip
def test_a_worker_of_ours_rings_once_however_a_run_ends(
    work: Work, client: Client, rung: Namespace, kind: str, task: str, status: bytes
) -> None:
    run_id = push(client, task)

    with rung.heard(KEYS.wake()) as heard:
        assert 0 == work(kind).wait(ENDS_S)

    assert ([b"0"], status) == (heard, rung.redis.hget(KEYS.rq.job(run_id), "status"))


def test_a_worker_rings_for_the_namespace_of_the_run(work: Work, redis_url: str, rung: Namespace) -> None:
    push(Client.from_url(redis_url, "mail"), "succeed")

    with rung.heard(KEYS.wake()) as elsewhere, rung.heard(Keys("mail").wake()) as heard:
        assert 0 == work(OURS).wait(ENDS_S)

    assert ([], [b"0"]) == (elsewhere, heard)


@pytest.mark.parametrize("kind", [OURS, PLAIN])
def test_a_worker_does_not_ring_for_runs_that_nobody_waits_for_and_for_jobs_of_others(
    work: Work, client: Client, rung: Namespace, kind: str
) -> None:
    for overlap in ("skip", "allow", "cancel_previous", *(["queue"] if kind == PLAIN else [])):
        push(client, "succeed", overlap, overlap)
    client.enqueue("tasks.succeed", id="once")
    Queue(connection=rung.redis).enqueue("tasks.succeed", job_id="theirs")

    with rung.heard(KEYS.wake()) as heard:
        assert 0 == work(kind).wait(ENDS_S)

    assert [] == heard
    assert b"finished" == rung.redis.hget(KEYS.rq.job("theirs"), "status")


# -- in this process ---------------------------------------------------------------------------------


def succeed() -> None:
    """Succeed."""


def fail() -> None:
    """Fail."""
    raise ValueError("no")


def work_here(client: redis.Redis) -> None:
    SimpleWorker([Queue(connection=client)], connection=client).work(burst=True)


@pytest.mark.parametrize(("task", "status"), [(succeed, b"finished"), (fail, b"failed")])
def test_a_worker_rings_after_the_end_is_in_redis(
    client: Client,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    task: Callable[[], None],
    status: bytes,
) -> None:
    client.schedule(task, id="r", every=3600, overlap="queue")
    run_id, rung, publish = client.run_now("r"), list[Any](), redis.Redis.publish

    def ring(self: redis.Redis, *given: Any) -> Any:
        rung.append(redis_client.hget(KEYS.rq.job(run_id), "status"))
        return publish(self, *given)

    monkeypatch.setattr(redis.Redis, "publish", ring)

    work_here(redis_client)

    assert [status] == rung


def test_a_worker_without_the_right_to_ring_works_on(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule(succeed, id="r", every=3600, overlap="queue")
    runs = [client.run_now("r") for _ in range(2)]
    tried = list[str]()

    def refuse(self: redis.Redis, channel: str, message: str) -> int:
        tried.append(channel)
        raise NoPermissionError("No permissions to access a channel")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(redis.Redis, "publish", refuse)
        work_here(redis_client)

    assert [KEYS.wake()] * 2 == tried
    assert [b"finished"] * 2 == [redis_client.hget(KEYS.rq.job(run), "status") for run in runs]


# -- with a leader -----------------------------------------------------------------------------------


@pytest.fixture
def stage(guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(guard, redis_url, tmp_path)
    yield stage
    stage.close()


@pytest.mark.once
@pytest.mark.parametrize("kind", [OURS, SIMPLE])
def test_the_next_runs_start_by_rings_alone_while_the_leader_sleeps(
    stage: Stage, redis_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No round begins by itself, and the leader sleeps for so long that two runs without a ring would end too late."""
    for name in ("_ROUND_MS", "_CALM_MS"):
        monkeypatch.setattr(releases, name, 1e9)
    monkeypatch.setattr(Native, "look_if_due", lambda *given, **named: None)
    stage.redis.client_kill_filter(_type="pubsub")  # listeners of daemons of earlier tests
    stage.worker("w0", "--worker-class", kind)
    eventually(lambda: stage.listeners("w0"))
    with DaemonThread(redis_url, idle_ms=NAP_MS) as leader:
        leader.wait_for("term_began")
        await_listeners(stage.redis, 1)
        stage.schedule("r", "queue", every=0.3, seconds=60.0, gate="over")
        runs = eventually(lambda: len(stage.runs("r")) >= 4 and stage.runs("r"))
        stage.client.pause("r")
        stage.pid(runs[0])

        stage.redis.rpush("over", "")
        eventually(lambda: {"finished"} == {*map(stage.status, stage.runs("r"))})

    spans = stage.spans("r")
    assert stage.runs("r") == [span.run_id for span in spans]
    assert [span.run_id for span in spans[1:]] == [one.run_id for one in stage.released("r")]
