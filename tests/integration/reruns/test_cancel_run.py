"""client.cancel_run and its command, with real workers."""

import json
import subprocess
from collections.abc import Callable

import pytest
import redis
from rq import Queue, Retry
from rq.job import Job

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.leaders import KEYS
from tests.integration.reruns.ends import TASKS, UNKNOWN, archived, ends, status
from tests.ledger import queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client, RunNotOver
from zsched.cli.program import DONE, FAILED, NOT_FOUND
from zsched.core.log.lives import EndEntry
from zsched.core.runs.run import RunStatus
from zsched.storage.connection import Link
from zsched.storage.log import Log

pytestmark = pytest.mark.once


def test_cancelling_a_queued_run_records_its_end_at_once(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id or ""

    assert "cancelled" == client.cancel_run(run)

    assert ([], "canceled") == (queued(redis_client), status(redis_client, run))
    assert Job.fetch(run, connection=redis_client).is_canceled
    assert [run] == Queue("default", connection=redis_client).canceled_job_registry.get_job_ids()
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


def test_a_run_waiting_for_its_next_attempt_can_be_cancelled(
    client: Client, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.fail", id="a", retry=Retry(3, interval=600)).run_id or ""
    work()
    assert "scheduled" == status(redis_client, run)

    assert "cancelled" == client.cancel_run(run)

    assert ("canceled", 0) == (status(redis_client, run), redis_client.zcard(f"{RQ}:scheduled:default"))


def test_cancelling_a_running_run_stops_it(
    client: Client,
    daemon: DaemonThread,
    link: Link,
    redis_client: redis.Redis,
    worker: Callable[..., subprocess.Popen[bytes]],
) -> None:
    run = client.enqueue(f"{TASKS}.hang", id="a", retry=3).run_id or ""
    worker()
    eventually(lambda: redis_client.llen("receipts"))

    assert "stopping" == client.cancel_run(run)

    eventually(lambda: status(redis_client, run) == "stopped")
    assert {run: ["cancelled"]} == eventually(lambda: ends(link))
    assert "already_over" == client.cancel_run(run)


@pytest.mark.usefixtures("impatient")
def test_cancelling_a_run_of_a_dead_worker_or_on_its_way_is_refused(client: Client, redis_client: redis.Redis) -> None:
    run, other = (client.enqueue(f"{TASKS}.done", id=id).run_id or "" for id in "ab")
    redis_client.hset(KEYS.rq.job(other), mapping={"status": "started", "worker_name": "dead"})
    redis_client.delete(f"{RQ}:queue:default")

    with pytest.raises(RunNotOver, match="its worker 'dead' does not respond"):
        client.cancel_run(other)
    with pytest.raises(RunNotOver, match="on its way to a worker, or was lost"):
        client.cancel_run(run)
    assert "queued" == status(redis_client, run)


def test_a_worker_skips_a_run_cancelled_in_a_long_queue(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis, work: Callable[[], list[str]]
) -> None:
    run = client.enqueue(f"{TASKS}.done", (1,), id="a").run_id or ""
    for _ in range(10):
        redis_client.lpush(f"{RQ}:queue:default", *(f"x{number}" for number in range(5000)))

    assert "cancelled" == client.cancel_run(run)

    assert 50_001 == redis_client.llen(f"{RQ}:queue:default")
    redis_client.ltrim(f"{RQ}:queue:default", -1, -1)
    assert [] == work()
    assert "already_over" == client.cancel_run(run)
    again = client.retry(run)  # from the archive
    assert [f"{again} (1,) []"] == work()
    assert {"cancelled"} == set(ends(link)[run])


def test_the_tracker_records_no_second_end_of_a_cancelled_run(
    client: Client, daemon: DaemonThread, link: Link, redis_url: str
) -> None:
    runs = [client.enqueue(f"{TASKS}.done", id=f"s{number}").run_id for number in range(40)]

    assert {"cancelled"} == {client.cancel_run(str(run)) for run in runs}
    archived(link)

    told = ends(link)
    assert set(runs) == set(told)
    assert {"cancelled"} == {one for statuses in told.values() for one in statuses}


@pytest.mark.usefixtures("impatient")
def test_the_command_line_shows_a_result_per_run(client: Client, zsched: Zsched) -> None:
    runs = [str(client.enqueue(f"{TASKS}.done", id=id).run_id) for id in "ab"]

    refused = zsched("retry", runs[0])
    cancelled = zsched("cancel-run", *runs)
    over = zsched("cancel-run", runs[0], "--json")
    again = zsched("retry", runs[0], "--json")
    unknown = zsched("retry", UNKNOWN)
    [retried] = json.loads(again.stdout)
    one_unknown = zsched("cancel-run", retried["run_id"], UNKNOWN)

    assert FAILED == refused.exit_code
    assert refused.stdout.startswith(f"{runs[0]}: not_over (run '{runs[0]}' is queued")
    assert (DONE, [f"{run}: cancelled" for run in runs]) == (cancelled.exit_code, cancelled.output.splitlines())
    assert (FAILED, f'[{{"id": "{runs[0]}", "result": "already_over"}}]\n') == (over.exit_code, over.stdout)
    assert (DONE, "retried", True) == (again.exit_code, retried["result"], retried["run_id"].startswith(f"{runs[0]}-r"))
    assert NOT_FOUND == unknown.exit_code
    assert NOT_FOUND == one_unknown.exit_code
    told = [line.split()[1] for line in one_unknown.output.splitlines()]
    assert ["cancelled", "not_found"] == told


def test_the_command_reports_a_run_that_cannot_be_cancelled_yet(client: Client, zsched: Zsched) -> None:
    waits = str(client.schedule(f"{TASKS}.done", id="a", after=3600).run_id)

    result = zsched("cancel-run", waits)

    assert FAILED == result.exit_code
    assert f"{waits}: not_over ('{waits}' is not a run yet" in result.output
