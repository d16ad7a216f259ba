"""Attempts of runs by real workers of ``zsched.rq``, and by plain ones of RQ, in every supported version of RQ."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from rq import Queue, Retry

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, DaemonThread
from tests.builders.workers import RqWorkers
from tests.integration.ends.tracking import lapse
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, RunNotFound, RunStatus
from zsched.cli.program import DONE, NOT_FOUND
from zsched.core.log.lives import EndEntry
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.run import Run
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")
TASKS = """
import os, signal
from rq import Retry, get_current_job

def count():
    job = get_current_job()
    job.connection.set("pid:" + job.id, os.getpid())
    return job.connection.incr("tries:" + job.id)

def fail():
    connect()

def connect():
    raise ConnectionRefusedError("no mail server, try %d" % count())

def recover():
    if count() == 1:
        raise ValueError("the first one")

def again():
    return Retry(max=1) if count() == 1 else None

def always_again():
    return Retry(max=1)

def wait():
    count()
    get_current_job().connection.blpop("go on", 60)

def die():
    count()
    os.kill(os.getpid(), signal.SIGKILL)
"""
OURS, PLAIN = "zsched.rq.Worker", "rq.Worker"
Work = Callable[..., subprocess.Popen[bytes]]
Ended = Callable[[str], Run]


@pytest.fixture
def work(rq_python: str, redis_url: str, guard: Guard, tmp_path: Path) -> Work:
    """Start a worker ``w`` of a class."""
    workers = RqWorkers(guard, redis_url, tmp_path, TASKS, rq_python)
    return lambda kind=OURS, *options, name="w": workers.start("--name", name, "--worker-class", kind, *options)


@pytest.fixture
def ended(daemon: DaemonThread, client: Client) -> Ended:
    """Wait until the end of a run is in the archive; return the run."""

    def has_ended(run_id: str) -> bool:
        story = client.why(run_id)
        return story.source.archive is not None and any(one.what.value == "run_ended" for one in story.changes)

    def wait(run_id: str) -> Run:
        eventually(lambda: has_ended(run_id))
        return client.get_run(run_id)[0]

    return wait


def enqueue(client: Client, task: str, **options: object) -> str:
    run_id = client.enqueue(f"tasks.{task}", id=task, **options).run_id  # type: ignore[arg-type]
    assert run_id is not None
    return run_id


@pytest.mark.parametrize("kind", [OURS, "zsched.rq.SimpleWorker"])
def test_every_failed_attempt_is_recorded_with_its_traceback(
    work: Work, client: Client, ended: Ended, zsched: Zsched, kind: str
) -> None:
    run_id = enqueue(client, "fail", retry=2)
    work(kind)

    run = ended(run_id)

    attempts = run.every_attempt
    assert (RunStatus.FAILED, 3) == (run.status, run.attempt)
    assert [1, 2, 3] == [one.number for one in attempts]
    assert [f"ConnectionRefusedError: no mail server, try {n}" for n in (1, 2, 3)] == [one.error for one in attempts]
    assert {"w"} == {one.worker for one in attempts}
    for one in attempts:
        assert one.traceback.endswith(one.error)
        assert "in connect" in one.traceback
        assert "perform_job" not in one.traceback  # RQ's own calls are left out
    assert [True, True, False] == [one.next_ms is not None for one in attempts]
    assert_in_order(attempts)
    assert run.queue_wait_ms == attempts[0].wait_ms

    assert 3 == zsched("show", run_id).stdout.count("in connect\n")
    value = zsched.json("show", run_id)
    assert [one.to_dict() for one in attempts] == value["attempts"]
    assert value["first_started_at"] == value["attempts"][0]["started_at"]


@pytest.mark.parametrize("kind", [OURS, PLAIN])
def test_a_function_that_a_worker_lacks_is_named_with_the_host_that_lacks_it(
    work: Work, client: Client, ended: Ended, zsched: Zsched, redis_client: redis.Redis, kind: str
) -> None:
    charge, news = enqueue(client, "charge"), client.enqueue("app_of_rq.tasks.news", id="news").run_id or ""
    work(kind)
    errors = {run_id: ended(run_id).error for run_id in (charge, news)}

    told = zsched("why", charge).stdout.splitlines()

    assert "ValueError: Invalid attribute name: charge (tasks has no charge)" == errors[charge]
    assert "ValueError: Invalid attribute name: app_of_rq.tasks.news (cannot import app_of_rq.tasks)" == errors[news]
    host = socket.gethostname()
    assert told[1].startswith(f"  → deploy tasks with its charge on {host}, and restart the worker; then run it")
    assert told[1].endswith(f" again: zsched retry {charge}")
    assert f", by worker w: {errors[charge]}; " in told[0]
    redis_client.delete(KEYS.rq.worker("w"))  # as RQ does some minutes after its death
    remedy = client.why(news).verdict.remedy
    assert remedy.startswith("deploy app_of_rq.tasks where its worker runs; if it is there, and yours, python -c 'imp")
    assert "runs it, and says why it fails" in remedy
    assert {errors[charge], errors[news]} == {one["error"] for one in zsched.json("status")["failures"]}
    assert "(tasks has no charge)" in zsched("status").stdout


def assert_in_order(attempts: list[Attempt]) -> None:
    for one in attempts:
        assert one.queued_ms is not None
        assert one.started_ms is not None
        assert one.ended_ms is not None
        assert one.queued_ms - 1000 <= one.started_ms <= one.ended_ms
    for one, following in pairwise(attempts):
        assert (one.next_ms or 0) <= (following.started_ms or 0)


def test_the_story_has_a_line_for_each_failed_attempt_and_no_traceback(
    work: Work, client: Client, ended: Ended, zsched: Zsched
) -> None:
    run_id = enqueue(client, "recover", retry={"max": 2, "interval": [1]})
    work()

    run = ended(run_id)

    assert (RunStatus.SUCCEEDED, 2) == (run.status, run.attempt)
    first, last = run.every_attempt
    assert first.ended_ms is not None
    assert first.next_ms == first.ended_ms + 1000
    assert ("", "", None) == (last.error, last.traceback, last.next_ms)
    lines = [text for _, text in client.why("recover").lines]
    [failed] = [line for line in lines if "attempt 1 failed" in line]
    assert failed.startswith(f"run {run_id}: attempt 1 failed after ")
    assert " on worker w: ValueError: the first one; next try at " in failed
    assert lines.index(failed) < lines.index(next(line for line in lines if "succeeded" in line))
    for command in (["why", "recover"], ["history", "recover"], ["log"]):
        told = zsched(*command)
        assert DONE == told.exit_code
        assert "Traceback" not in told.output
    assert "attempt 2 succeeded" in zsched("show", run_id).stdout


@pytest.mark.parametrize(
    ("task", "options", "error", "is_recovered"),
    [
        ("again", {}, "the task returned rq.Retry", True),
        ("always_again", {}, "the task returned rq.Retry, and had no retry left", False),
        ("wait", {"timeout": 1, "retry": 1}, "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout", False),
        ("die", {"retry": 1}, "Work-horse terminated unexpectedly; waitpid returned 9 (signal 9);", False),
    ],
)
def test_every_way_to_fail_is_recorded(
    work: Work, client: Client, ended: Ended, task: str, options: dict[str, object], error: str, is_recovered: bool
) -> None:
    run_id = enqueue(client, task, **options)
    work()

    run = ended(run_id)

    attempts = run.every_attempt
    assert [1, 2] == [one.number for one in attempts]
    assert attempts[0 if is_recovered else 1].error.startswith(error)
    assert_in_order(attempts)
    assert (RunStatus.SUCCEEDED if is_recovered else RunStatus.FAILED) is run.status


def test_a_stopped_run_has_its_attempt(work: Work, client: Client, ended: Ended, redis_client: redis.Redis) -> None:
    run_id = enqueue(client, "wait", retry=1)
    work()
    eventually(lambda: redis_client.get(f"tries:{run_id}"))

    assert "stopping" == client.cancel_run(run_id)

    run = ended(run_id)
    [attempt] = run.every_attempt
    assert RunStatus.CANCELLED is run.status
    assert ("Job stopped by user, work-horse terminated.", None) == (attempt.error, attempt.next_ms)


def test_an_attempt_of_a_dead_worker_is_recorded_by_the_leader(
    work: Work, client: Client, ended: Ended, redis_client: redis.Redis, zsched: Zsched
) -> None:
    run_id = enqueue(client, "wait", retry=1)
    first = work(name="first")
    eventually(lambda: redis_client.get(f"tries:{run_id}"))
    kill(first, redis_client, run_id)
    lapse(redis_client, run_id)
    eventually(lambda: redis_client.hget(KEYS.rq.job(run_id), "status") == b"queued")

    [lost] = client.get_run(run_id)[0].attempts
    assert (1, "first", None) == (lost.number, lost.worker, lost.ended_ms)
    assert lost.error.startswith("its worker first died: no heartbeat since ")
    assert "attempt 1 was lost on worker first" in zsched("show", run_id).stdout
    told = [text for _, text in client.why("wait").lines if "no heartbeat since" in text]
    assert 1 == len(told), told


def kill(worker: subprocess.Popen[bytes], client: redis.Redis, run_id: str) -> None:
    """Kill *worker*, and then the process of its task: it would notice the death of that."""
    worker.kill()
    worker.wait()
    with suppress(ProcessLookupError):
        os.kill(int(client.get(f"pid:{run_id}") or 0), signal.SIGKILL)


def test_a_simple_worker_renews_its_signs_of_life_while_a_task_runs(
    work: Work, client: Client, redis_client: redis.Redis
) -> None:
    run_id = enqueue(client, "wait", timeout=900, retry=1)
    job_key = KEYS.rq.job(run_id)
    worker = work("zsched.rq.SimpleWorker", "--job-monitoring-interval", "1")
    eventually(lambda: redis_client.get(f"tries:{run_id}"))
    assert str(worker.pid).encode() == redis_client.get(f"pid:{run_id}")
    [execution] = redis_client.zrange(f"{RQ}:executions:{run_id}", 0, -1)
    execution_key = f"{RQ}:execution:%b:%b".encode() % (run_id.encode(), execution)
    began = redis_client.hget(job_key, "last_heartbeat"), redis_client.hget(execution_key, "last_heartbeat")

    eventually(lambda: (redis_client.hget(job_key, "last_heartbeat") or b"") > (began[0] or b""))
    eventually(lambda: float(redis_client.hget(execution_key, "last_heartbeat") or 0) > float(began[1] or 0))

    eventually(lambda: 50 < redis_client.ttl(execution_key) <= 61)
    assert redis_client.zscore(f"{RQ}:wip:default", f"{run_id}:{execution.decode()}") <= redis_client.time()[0] + 61
    redis_client.rpush("go on", "1")
    eventually(lambda: redis_client.hget(job_key, "status") == b"finished")
    assert 0 == redis_client.exists(execution_key, f"{RQ}:executions:{run_id}")


def test_a_job_of_another_program_is_left_unchanged(work: Work, redis_client: redis.Redis) -> None:
    job = Queue(connection=redis_client).enqueue("tasks.fail", retry=Retry(max=1))
    work()

    eventually(lambda: job.get_status(refresh=True) == "failed")

    assert not redis_client.hexists(job.key, "zs_attempts")


def test_a_worker_without_rights_to_the_record_still_handles_the_failure(
    work: Work, client: Client, ended: Ended, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """The record is written by EVAL: a Redis that refuses it stops no retry."""
    run_id = enqueue(client, "fail", retry=1)
    redis_client.execute_command("ACL", "SETUSER", "default", "-eval")
    try:
        work()
        run = ended(run_id)
    finally:
        redis_client.execute_command("ACL", "SETUSER", "default", "+eval")

    assert (RunStatus.FAILED, 2) == (run.status, run.attempt)
    assert "its attempt was not recorded" in (tmp_path / "worker.log").read_text()


def test_a_daemon_without_tracebacks_records_only_errors(
    work: Work, client: Client, guard: Guard, redis_url: str, link: Link
) -> None:
    daemon = DaemonProcess(guard, redis_url, RQ_TRACEBACKS="false")
    daemon.wait_for("term_began")
    run_id = enqueue(client, "fail", retry=1)
    work()

    entries = eventually(lambda: [entry for entry in Log(link, KEYS).entries() if entry.kind == "end"])

    [run] = EndEntry(entries[0]).ended_runs()
    assert (run_id, 2) == (run.id, run.attempt)
    assert ["no mail server, try 1", "no mail server, try 2"] == [one.error[-21:] for one in run.attempts]
    assert {""} == {one.traceback for one in run.attempts}


def test_a_plain_worker_leaves_only_the_last_traceback(
    work: Work, client: Client, ended: Ended, zsched: Zsched
) -> None:
    run_id = enqueue(client, "fail", retry=2)
    work(PLAIN)

    run = ended(run_id)

    *_, last = run.every_attempt
    assert (3, "w", "ConnectionRefusedError: no mail server, try 3") == (last.number, last.worker, last.error)
    assert "in connect" in last.traceback
    told = zsched("show", run_id).stdout
    assert "no traceback: plain RQ worker" in told
    assert 1 == told.count("in connect\n")


def test_times_of_a_plain_workers_attempt_are_known_if_the_leader_saw_them(
    work: Work, client: Client, ended: Ended, redis_client: redis.Redis, zsched: Zsched
) -> None:
    run_id = enqueue(client, "recover", retry={"max": 1, "interval": [3600]})
    work(PLAIN)
    eventually(lambda: redis_client.hget(KEYS.rq.job(run_id), "status") == b"scheduled")

    [waiting] = eventually(lambda: client.get_run(run_id)[0].attempts)
    assert (1, "w", "", None) == (waiting.number, waiting.worker, waiting.error, waiting.next_ms)
    assert any("attempt 1 failed after " in text for _, text in client.why("recover").lines)
    gone = enqueue(client, "gone", queue="nobody")
    redis_client.delete(KEYS.rq.job(gone))
    assert RunStatus.LOST is ended(gone).status  # only the leader's round over all open runs finds this one
    redis_client.zadd(f"{RQ}:scheduled:default", {run_id: redis_client.time()[0]})
    run = ended(run_id)

    assert (RunStatus.SUCCEEDED, 2) == (run.status, run.attempt)
    assert waiting == run.first
    assert run.queue_wait_ms == waiting.wait_ms
    assert "    no traceback: plain RQ worker\n" in zsched("show", run_id).stdout


def test_an_open_run_has_its_attempts(work: Work, client: Client, daemon: DaemonThread, zsched: Zsched) -> None:
    run_id = enqueue(client, "fail", retry={"max": 1, "interval": [600]})
    work()

    run = eventually(lambda: found if (found := client.get_run(run_id)[0]).attempt == 2 else None)

    assert RunStatus.QUEUED is run.status
    assert ["ConnectionRefusedError: no mail server, try 1"] == [one.error for one in run.attempts]
    assert any("; next try at " in text for _, text in client.why("fail").lines)
    assert "attempt 2 queued" in zsched("show", run_id).stdout


def test_a_retried_run_begins_without_attempts(
    work: Work, client: Client, ended: Ended, redis_client: redis.Redis
) -> None:
    run_id = enqueue(client, "fail")
    work()
    ended(run_id)

    again = client.retry(run_id)

    run = ended(again)
    [attempt] = run.every_attempt
    assert [attempt.started_ms] == [one.started_ms for one in run.attempts] == [run.started_ms]
    assert (1, "ConnectionRefusedError: no mail server, try 1") == (attempt.number, attempt.error)


def test_showing_an_unknown_run_says_where_to_look(client: Client, zsched: Zsched) -> None:
    with pytest.raises(RunNotFound, match="no run 'nope-1700000000000': schedule 'nope' is not known"):
        client.get_run("nope-1700000000000")

    told = zsched("show", "nope-1700000000000")
    assert NOT_FOUND == told.exit_code
    assert "see zsched history nope" in told.output
