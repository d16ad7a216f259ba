"""client.retry and client.cancel_run: with real workers, and with what only an archive still knows."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result
from rq import Queue, Retry
from rq.job import Job

from tests.faults.leader import KEYS, Leader
from tests.faults.processes import archive_of_its_own, eventually
from tests.faults.threads import STEADY, DaemonThread, know
from tests.log_rows import row_lines
from zsched import Client, InvalidSchedule, PayloadGone, RedisRefused, RunNotFound, RunNotOver
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, NOT_FOUND
from zsched.config import ArchiveSettings
from zsched.core.changes import What
from zsched.core.log import Entry, Position
from zsched.core.log.runs import EndEntry
from zsched.core.runs import RunStatus
from zsched.embedded.guard import Guard
from zsched.storage import reruns
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.log import Log

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
TASKS = "tests.integration.reruns"
BURST_S = 60
UNKNOWN = "nobody-1700000000000"


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    know(redis_client)
    return Client(link)


@pytest.fixture
def worker(guard: Guard, redis_url: str, tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a worker of the queue default."""

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rq.cli", "worker", *options, "--url", redis_url, "default"]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with (tmp_path / "worker.log").open("ab") as log:
            return guard.spawn(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)

    return start


@pytest.fixture
def work(worker: Callable[..., subprocess.Popen[bytes]], redis_client: redis.Redis) -> Callable[[], list[str]]:
    """Lets a worker do what is queued; the receipts until then."""

    def until_done() -> list[str]:
        assert 0 == worker("--burst").wait(BURST_S)
        return [receipt.decode() for receipt in redis_client.lrange("receipts", 0, -1)]

    return until_done


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for an answer that does not come, nor for a worker that is none."""
    monkeypatch.setattr("zsched.storage.questions.WAIT_S", 0.05)
    monkeypatch.setattr(reruns, "_PAUSE_S", 0.0)


def status(redis_client: redis.Redis, run_id: str) -> str:
    return (redis_client.hget(KEYS.rq.job(run_id), "status") or b"").decode()


def queue(redis_client: redis.Redis) -> list[str]:
    return [run.decode() for run in redis_client.lrange("rq:queue:default", 0, -1)]


def ends(link: Link) -> dict[str, list[str]]:
    """The statuses that ``end`` entries in the log tell, by run."""
    told: dict[str, list[str]] = {}
    for entry in Log(link, KEYS).entries():
        if entry.kind == "end":
            for line in row_lines(entry.body):
                told.setdefault(line.split(" ")[0], []).append(line.split(" ")[1])
    return told


def archived(link: Link) -> Position:
    """The log's last position, as soon as an archive has it."""
    last = Log(link, KEYS).last()
    assert last is not None
    eventually(lambda: Archivers(link, KEYS).archived(last.position.id, last.position.t_us // 1000) == "archived")
    return last.position


# -- retry --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("func", "ends_as"), [("done", "finished"), ("fail", "failed")])
def test_retry_runs_a_finished_run_again(
    client: Client, redis_client: redis.Redis, work: Callable[[], list[str]], func: str, ends_as: str
) -> None:
    run = client.enqueue(f"{TASKS}.{func}", (7, "ü"), id="a").run_id
    assert run is not None
    work()
    assert ends_as == status(redis_client, run)

    again = client.retry(run)

    assert again.startswith(f"{run}-r")
    assert [f"{one} (7, 'ü') []" for one in (run, again)] == work()
    assert ends_as == status(redis_client, again)


def test_retry_refuses_an_open_run_with_its_status(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None

    with pytest.raises(RunNotOver, match=f"'{run}' is queued, .* cancel_run"):
        client.retry(run)
    redis_client.hset(KEYS.rq.job(run), "status", "started")
    with pytest.raises(RunNotOver, match="is running"):
        client.retry(run)
    assert [run] == queue(redis_client)


def test_retry_and_cancel_run_refuse_a_waiting_schedule(client: Client) -> None:
    waits = client.schedule(f"{TASKS}.done", id="a", after=3600).run_id
    assert waits is not None

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotOver, match="no run yet: schedule 'a' has not fired; cancel or run_now"):
            act(waits)
    assert ["a"] == [schedule.id for schedule in client.list()]


@pytest.mark.usefixtures("daemon")
def test_a_run_unknown_to_rq_and_the_archive_is_not_found(client: Client) -> None:
    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match=f"'{UNKNOWN}'.*no archive knows it"):
            act(UNKNOWN)


@pytest.mark.usefixtures("impatient")
def test_an_unknown_run_is_reported_as_not_found_without_an_archive(client: Client) -> None:
    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match=r"no archive answered within 0\.05 s"):
            act(UNKNOWN)


@pytest.mark.parametrize("wrong", ["x", "", "a-1", "a-1700000000000-nmail", "a b-1700000000000"])
def test_an_invalid_run_id_is_not_found_without_asking_redis(wrong: str) -> None:
    client = Client.from_url("unix:///nowhere")

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match="'default'"):
            act(wrong)
        with pytest.raises(InvalidSchedule, match="run_id"):
            act(7)  # type: ignore[arg-type]


def test_retry_and_cancel_run_refuse_a_corrupted_job(client: Client, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.rq.job(UNKNOWN), "x")

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RedisRefused, match="somebody changed it; see redis-cli"):
            act(UNKNOWN)


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    "pushed", ["fired", "by a rule", "by a rule that was changed", "run_now", "enqueued", "retried"]
)
def test_retry_takes_a_run_that_rq_deleted_from_the_archive(
    client: Client,
    redis_client: redis.Redis,
    redis_url: str,
    link: Link,
    work: Callable[[], list[str]],
    pushed: str,
) -> None:
    options: dict[str, Any] = {
        "args": (1,),
        "kwargs": {"k": "v"},
        "id": "a",
        "timeout": 77,
        "retry": 2,
        "meta": {"m": 1},
    }
    if pushed == "fired":
        client.schedule(f"{TASKS}.done", after=0, **options)
    elif pushed == "enqueued" or pushed == "retried":
        client.enqueue(f"{TASKS}.done", **options)
    else:
        client.schedule(f"{TASKS}.done", every=3600 if pushed == "run_now" else 0.2, **options)
    if pushed == "run_now":
        client.run_now("a")
    [first, *_] = eventually(lambda: queue(redis_client))
    if pushed == "by a rule that was changed":
        client.update("a", args=(2,))
    elif pushed == "by a rule":
        client.cancel("a")
    asked = redis_client.hmget(KEYS.rq.job(first), "timeout", "meta", "retries_left", "origin")
    if pushed == "retried":
        redis_client.hset(KEYS.rq.job(first), "status", "failed")
        first = client.retry(first)
    redis_client.delete(KEYS.rq.job(first), "rq:queue:default")

    again = client.retry(first)

    assert first.partition("-r")[0] == again.partition("-r")[0]
    assert again in queue(redis_client)
    assert asked == redis_client.hmget(KEYS.rq.job(again), "timeout", "meta", "retries_left", "origin")
    client.cancel("a")
    assert f"{again} (1,) [('k', 'v')]" in work()
    change = eventually(lambda: [one for one in client.why("a").changes if one.run_id == again])[0]
    assert (What.ENQUEUED, f"retry of {first}") == (change.what, change.why)


def test_retry_fails_if_the_archive_did_not_keep_the_arguments(client: Client, redis_url: str, link: Link) -> None:
    archive = ArchiveSettings(path=archive_of_its_own(), keep_args=False)
    with DaemonThread(redis_url, archive=archive, **STEADY), redis.Redis.from_url(redis_url) as redis_client:
        eventually(lambda: Archivers(link, KEYS).alive())
        run = client.enqueue(f"{TASKS}.done", id="a").run_id
        assert run is not None
        redis_client.delete(KEYS.rq.job(run))
        archived(link)
        forget(Path(archive.path or ""))

        with pytest.raises(PayloadGone, match="does not have its arguments"):
            client.retry(run)
        assert "already_over" == client.cancel_run(run)


def forget(path: Path) -> None:
    """The arguments, as ``retention`` does when nothing needs them any more."""
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db, db:
        db.execute("DELETE FROM argument")


def test_a_retried_run_that_redis_lost_is_restored_and_its_rule_stays(
    client: Client, redis_url: str, link: Link
) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, DaemonThread(redis_url):
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule(f"{TASKS}.done", id="r", every=3600)
        run = client.run_now("r")
        redis_client.hset(KEYS.rq.job(run), "status", "failed")
        again = client.retry(run)
        redis_client.lrem("rq:queue:default", 0, run)
        archived(link)
        eventually(lambda: ends(link).get(run))
        archived(link)

        redis_client.flushall()

        eventually(lambda: again in queue(redis_client))
        assert (b"1", b"queued") == tuple(redis_client.hmget(KEYS.rq.job(again), "zs_uncertain", "status"))
        eventually(lambda: [schedule.id for schedule in client.list()] == ["r"])
        assert [again] == queue(redis_client)


# -- cancel_run ---------------------------------------------------------------------------------------


def test_cancelling_a_queued_run_records_its_end_at_once(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None

    assert "cancelled" == client.cancel_run(run)

    assert ([], "canceled") == (queue(redis_client), status(redis_client, run))
    assert [] == work()
    assert "already_over" == client.cancel_run(run)
    [entry] = [one for one in Log(link, KEYS).entries() if one.kind == "end"]
    [told] = EndEntry(entry).ended_runs()
    assert (run, RunStatus.CANCELLED, None) == (told.id, told.status, told.started_ms)
    assert told.queued_ms is not None
    assert told.ended_ms is not None
    assert told.queued_ms <= told.ended_ms <= entry.position.t_us // 1000
    archived(link)
    assert run == client.why("a").changes[-1].run_id
    again = client.retry(run)
    assert [f"{again} () []"] == work()


def test_a_cancelled_run_is_a_cancelled_job_in_rq(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None
    client.cancel_run(run)

    found = Job.fetch(run, connection=redis_client)

    assert found.is_canceled
    assert [run] == Queue("default", connection=redis_client).canceled_job_registry.get_job_ids()


def test_a_run_waiting_for_its_next_attempt_can_be_cancelled(
    client: Client, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.fail", id="a", retry=Retry(3, interval=600)).run_id
    assert run is not None
    work()
    assert "scheduled" == status(redis_client, run)

    assert "cancelled" == client.cancel_run(run)

    assert ("canceled", 0) == (status(redis_client, run), redis_client.zcard("rq:scheduled:default"))


def test_cancelling_a_running_run_stops_it(
    client: Client,
    daemon: DaemonThread,
    link: Link,
    redis_client: redis.Redis,
    worker: Callable[..., subprocess.Popen[bytes]],
) -> None:
    run = client.enqueue(f"{TASKS}.hang", id="a", retry=3).run_id
    assert run is not None
    worker()
    eventually(lambda: redis_client.llen("receipts"))

    assert "stopping" == client.cancel_run(run)

    eventually(lambda: status(redis_client, run) == "stopped")
    assert {run: ["cancelled"]} == eventually(lambda: ends(link))
    assert "already_over" == client.cancel_run(run)


@pytest.mark.usefixtures("impatient")
def test_cancelling_a_run_of_a_dead_worker_is_refused(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None
    redis_client.hset(KEYS.rq.job(run), mapping={"status": "started", "worker_name": "dead"})

    with pytest.raises(RunNotOver, match="its worker 'dead' does not listen"):
        client.cancel_run(run)


@pytest.mark.usefixtures("impatient")
def test_cancelling_a_run_between_queue_and_worker_is_refused(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None
    redis_client.delete("rq:queue:default")

    with pytest.raises(RunNotOver, match="on its way to a worker, or was lost"):
        client.cancel_run(run)
    assert "queued" == status(redis_client, run)


def test_a_worker_skips_a_run_cancelled_in_a_long_queue(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.done", (1,), id="a").run_id
    assert run is not None
    for _ in range(10):
        redis_client.rpush("rq:queue:default", *(f"x{number}" for number in range(5000)))

    assert "cancelled" == client.cancel_run(run)

    assert 50_001 == redis_client.llen("rq:queue:default")
    redis_client.ltrim("rq:queue:default", 0, 0)
    assert [] == work()
    assert "already_over" == client.cancel_run(run)
    again = client.retry(run)  # from the archive
    assert [f"{again} (1,) []"] == work()
    assert {"cancelled"} == set(ends(link)[run])


def test_the_tracker_records_no_second_end_of_a_cancelled_run(
    client: Client, daemon: DaemonThread, link: Link, redis_url: str, redis_client: redis.Redis
) -> None:
    runs = [client.enqueue(f"{TASKS}.done", id=f"s{number}").run_id for number in range(40)]

    assert {"cancelled"} == {client.cancel_run(str(run)) for run in runs}
    archived(link)

    told = ends(link)
    assert set(runs) == set(told)
    assert {"cancelled"} == {one for statuses in told.values() for one in statuses}


# -- the command line ---------------------------------------------------------------------------------


def zsched(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(program, arguments, env={"ZSCHED_REDIS_URL": url})


@pytest.mark.usefixtures("impatient")
def test_the_command_line_shows_the_result_for_each_run(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    runs = [str(client.enqueue(f"{TASKS}.done", id=id).run_id) for id in "ab"]

    refused = zsched(redis_url, "retry", runs[0])
    cancelled = zsched(redis_url, "cancel-run", *runs)
    over = zsched(redis_url, "cancel-run", runs[0], "--json")
    again = zsched(redis_url, "retry", runs[0])
    unknown = zsched(redis_url, "retry", UNKNOWN)
    one_unknown = zsched(redis_url, "cancel-run", again.output.strip(), UNKNOWN)

    assert FAILED == refused.exit_code
    assert refused.stderr.startswith(f"zsched: run '{runs[0]}' is queued")
    assert (DONE, [f"{run}: cancelled" for run in runs]) == (cancelled.exit_code, cancelled.output.splitlines())
    assert (FAILED, f'[{{"id": "{runs[0]}", "result": "already_over"}}]\n') == (over.exit_code, over.stdout)
    assert (DONE, True) == (again.exit_code, again.output.startswith(f"{runs[0]}-r"))
    assert NOT_FOUND == unknown.exit_code
    assert NOT_FOUND == one_unknown.exit_code
    told = [line.split()[1] for line in one_unknown.output.splitlines()]
    assert ["cancelled", "not_found"] == told


def test_the_command_line_reports_a_run_that_cannot_be_cancelled_yet(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    waits = str(client.schedule(f"{TASKS}.done", id="a", after=3600).run_id)

    result = zsched(redis_url, "cancel-run", waits)

    assert FAILED == result.exit_code
    assert f"{waits}: not_over ('{waits}' is no run yet" in result.output


def test_a_retry_is_recognisable_in_the_log(client: Client, link: Link, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id
    assert run is not None
    redis_client.hset(KEYS.rq.job(run), "status", "finished")
    client.retry(run)

    entries: list[Entry] = list(Log(link, KEYS).entries())

    assert (b"of", run.encode()) == tuple(entries[-1].body[-2:])


def test_a_leader_fires_beside_a_retry_of_the_same_occurrence(client: Client, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, contextlib.closing(Leader(redis_url)) as leader:
        client.schedule(f"{TASKS}.done", id="a", after=0)
        eventually(lambda: leader.fire().runs)
        [run] = queue(redis_client)
        redis_client.hset(KEYS.rq.job(run), "status", "failed")
        client.schedule(f"{TASKS}.done", id="a", after=0)

        again = client.retry(run)
        eventually(lambda: leader.fire().runs)

        assert 3 == len({run, again, *queue(redis_client)})
