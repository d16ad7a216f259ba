"""A real ``rq worker`` executes the jobs that zsched puts into its queues, on every way into the queue."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Callback, Retry, get_current_job
from rq.job import Job

from tests.builders.daemons import DaemonThread
from tests.builders.entries import LogEntry
from tests.builders.leaders import know
from tests.ledger import entries
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import LAST_MS
from zsched.core.occurrences.outcomes import outcome_of
from zsched.core.runs.run_id import RunId
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
THIS = "tests.integration.test_rq_contract"
ODD_ARGS = ("naïve ☃ 日本\x00\x1b", b"\x00\xff\x80", -(2**80), 0.1 + 0.2, None, [(), {1: {2}}], datetime(2026, 1, 1))
ODD_KWARGS = {"ключ": "x" * 5000, "empty": "", "nested": {"a": [True, False]}}


# -- what the worker runs ----------------------------------------------------------------------------------


def record(*args: Any, **kwargs: Any) -> str:
    """Leave a receipt of the call as it arrived."""
    _receipt("ran", args, kwargs)
    return "done"


def fail(*args: Any) -> None:
    _receipt("failing", args, {})
    raise RuntimeError("on purpose")


def hang() -> None:
    """Leave a receipt of the seconds until RQ's timeout, which then comes at once."""
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    _receipt("hanging", (left_s,), {})
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    signal.pause()


def succeeded(job: Job, connection: redis.Redis, result: Any) -> None:
    connection.rpush("receipts", pickle.dumps(("succeeded", job.id, (result,), {})))


def failed(job: Job, connection: redis.Redis, kind: type[BaseException], error: BaseException, trace: Any) -> None:
    connection.rpush("receipts", pickle.dumps(("failed", job.id, (kind.__name__,), {})))


def _receipt(what: str, args: Any, kwargs: Any) -> None:
    job = get_current_job()
    assert job is not None
    job.connection.rpush("receipts", pickle.dumps((what, job.id, args, kwargs)))


# -- the other side ----------------------------------------------------------------------------------------


@dataclass
class Bench:
    """A client, a daemon that leads, and workers on demand."""

    client: Client
    redis: redis.Redis
    url: str

    def work(self, *queues: str, serializer: str = "pickle") -> list[tuple[str, str, Any, Any]]:
        """Run a worker until the queues are empty; return the receipts in order."""
        command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--quiet", "--url", self.url]
        command += ["--serializer", f"rq.serializers.{'JSON' if serializer == 'json' else 'Default'}Serializer"]
        done = subprocess.run(
            [*command, *(queues or ("default",))],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        )
        assert 0 == done.returncode, done.stderr
        return [pickle.loads(receipt) for receipt in self.redis.lrange("receipts", 0, -1)]

    def wait_for_runs(self, count: int, kind: str = "fire") -> list[str]:
        """Return the ids of the runs in entries of *kind* as soon as there are *count*."""

        def runs() -> list[str]:
            return [run for entry in entries(self.redis, kind) for run in _runs(entry)]

        return eventually(lambda: found if len(found := runs()) >= count else [])

    def job(self, run_id: str, serializer: Any = None) -> Job:
        return Job.fetch(run_id, connection=self.redis, serializer=serializer)


def _runs(entry: LogEntry) -> list[str]:
    rows = [row.split() for row in entry.rows] if entry.kind == "advance" else []
    return entry.fields.get("runs", "").split() + [
        Keys("default").run_id(id, nominal) for id, word, nominal, *_ in rows if outcome_of(word).is_pushed
    ]


@pytest.fixture
def bench(redis_url: str, redis_client: redis.Redis) -> Bench:
    return Bench(Client.from_url(redis_url), redis_client, redis_url)


@pytest.fixture
def led(bench: Bench) -> Iterator[Bench]:
    """The bench with a daemon."""
    know(bench.redis)
    with DaemonThread(bench.url):
        yield bench


def test_calls_scheduled_in_every_way_arrive_byte_for_byte(led: Bench) -> None:
    options = {"func": record, "args": ODD_ARGS, "kwargs": ODD_KWARGS, "result_ttl": 600}
    soon = datetime.now(UTC) + timedelta(milliseconds=20)
    queued = led.client.enqueue(record, ODD_ARGS, ODD_KWARGS)
    at = led.client.schedule(**options, at=soon, allow_past=True)  # on a slow machine it is
    after = led.client.schedule(**options, after=0)
    front = led.client.schedule(**options, after=0, at_front=True, description="Say hello", tags=["t"], priority="high")
    many = led.client.schedule_many([options | {"id": "many", "after": 0}])
    led.client.schedule(**options, id="tick", every=0.05, count=2)
    late = led.client.schedule(**options, id="now", after=3600)
    now = led.client.run_now("now")

    one_shots = led.wait_for_runs(4)
    ticks = led.wait_for_runs(1, "advance")
    receipts = led.work()

    ran = [run for _, run, _, _ in receipts]
    expected = {queued.run_id, at.run_id, after.run_id, front.run_id, now, *one_shots, *ticks}
    assert late.run_id == now
    assert expected <= set(ran)
    assert len(set(ran)) == len(ran)
    assert [("ran", ODD_ARGS, ODD_KWARGS)] * len(ran) == [(what, args, kwargs) for what, _, args, kwargs in receipts]
    assert ["many"] == many.ids
    for run in ran:
        job = led.job(run)
        assert ("finished", "done") == (job.get_status(), job.return_value())
        assert job.created_at <= job.enqueued_at <= job.started_at <= job.ended_at
        assert RunId.parse(run) is not None


def test_json_calls_of_another_namespace_arrive_unchanged(redis_url: str, bench: Bench) -> None:
    client = Client.from_url(redis_url, "mail", serializer="json")
    client.schedule(f"{THIS}.record", id="a", args=[1, "é", [None, 0.5]], kwargs={"k": {}}, after=3600, queue="sms")
    run = client.run_now("a")
    extra = client.enqueue(f"{THIS}.record", ["x"], queue="sms")

    receipts = bench.work("sms", serializer="json")

    assert run.endswith("-nmail")
    assert [("ran", run, (1, "é", [None, 0.5]), {"k": {}}), ("ran", extra.run_id, ("x",), {})] == receipts


def test_workers_take_runs_in_the_requested_order(bench: Bench) -> None:
    for name, at_front in (("a", False), ("b", False), ("c", True), ("d", True)):
        bench.client.enqueue(record, (name,), at_front=at_front)
    bench.client.enqueue(record, ("other",), queue="other")

    receipts = bench.work("default", "other")

    assert ["d", "c", "a", "b", "other"] == [args[0] for _, _, args, _ in receipts]


def test_a_waiting_run_cancelled_through_rq_does_not_run(bench: Bench) -> None:
    know(bench.redis)
    waiting = bench.client.schedule(record, id="a", args=("cancelled",), after=0)
    bench.job(str(waiting.run_id)).cancel()
    bench.client.schedule(record, id="b", args=("good",), after=0)

    with DaemonThread(bench.url):
        bench.wait_for_runs(1)

    assert ["good"] == [args[0] for _, _, args, _ in bench.work()]
    assert "canceled" == bench.job(str(waiting.run_id)).get_status()
    assert [] == list(bench.client.list())


def test_rq_obeys_the_options_of_a_run(bench: Bench) -> None:
    enqueue = bench.client.enqueue
    kept = enqueue(record, result_ttl=-1).run_id
    short = enqueue(record, result_ttl=0).run_id
    failing = enqueue(fail, failure_ttl=1000, on_failure=failed).run_id
    retried = enqueue(fail, ("again",), retry=2, on_failure=Callback(failed, timeout=5)).run_id
    at_front = enqueue(fail, ("front",), retry=Retry(max=1, enqueue_at_front=True)).run_id
    pleased = enqueue(record, on_success=succeeded, meta={"trace": [1]}, description="Say hello").run_id
    hanging = enqueue(hang, timeout=1000).run_id

    receipts = bench.work()

    by_run: dict[str, list[str]] = {}
    for what, run, _, _ in receipts:
        by_run.setdefault(run, []).append(what)
    assert ["ran"] == by_run[str(kept)] == by_run[str(short)]
    assert ["failing", "failed"] == by_run[str(failing)]
    assert ["failing"] * 3 == [what for what in by_run[str(retried)] if what == "failing"]
    assert ["failing"] * 2 == by_run[str(at_front)]
    assert ["ran", "succeeded"] == by_run[str(pleased)]
    assert ["hanging"] == by_run[str(hanging)]
    [left_s] = [args[0] for what, _, args, _ in receipts if what == "hanging"]
    assert 900 < left_s <= 1000
    statuses = {run: bench.job(str(run)).get_status() for run in (kept, failing, retried, at_front, pleased, hanging)}
    assert {kept: "finished", pleased: "finished"} | dict.fromkeys(
        (failing, retried, at_front, hanging), "failed"
    ) == statuses
    assert -1 == bench.redis.ttl(f"{RQ}:job:{kept}")
    assert 0 < bench.redis.ttl(f"{RQ}:job:{short}") <= 60
    assert time.time() + 900 < bench.redis.zscore(f"{RQ}:failed:default", str(failing)) < time.time() + 1010
    assert ({"trace": [1]}, "Say hello") == (bench.job(str(pleased)).meta, bench.job(str(pleased)).description)
    assert "JobTimeoutException" in str(bench.job(str(hanging)).latest_result().exc_string)
    runs = [run for what, run, _, _ in receipts if what == "failing"]
    second = runs.index(str(at_front)) + 1
    assert str(at_front) == runs[second]  # its second attempt came at once


def test_an_uncertain_run_is_an_ordinary_job_to_rq(bench: Bench, redis_client: redis.Redis) -> None:
    client = bench.client
    client.schedule(record, id="a", args=(1,), after=0)
    client.schedule(record, id="b", args=(1,), after=0, on_uncertain="skip")
    keys = Keys("default")
    redis_client.hset(keys.meta(), mapping={"server": "s", "doubt": LAST_MS})
    redis_client.set(keys.lease(), "token")
    guard = {"token": "token", "expected_server": "s", "clock_from_ms": 0, "clock_until_ms": LAST_MS}
    client._puts._scripts.call("fire", limit=10, lacking="", **guard)

    [(what, run, args, _)] = bench.work()

    assert ("ran", "a", (1,)) == (what, RunId.parse(run).schedule_id, args)  # type: ignore[union-attr]
    assert b"1" == redis_client.hget(keys.rq.job(run), "zs_uncertain")
