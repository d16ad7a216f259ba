"""
Runs that take longer than their interval, with a real daemon and real workers; the runs themselves record their times.
``python -m tests.faults.overlap`` is the long form, a minute for each policy.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis
from rq.job import Job

from tests.faults import overlap
from tests.faults.overdue import become_due
from tests.faults.overlap import KEYS, LIMIT, Stage, play
from tests.integration.ends.tracking import lapse
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once


@pytest.fixture
def stage(guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(guard, redis_url, tmp_path)
    yield stage
    stage.close()


def test_skip_runs_one_occurrence_at_a_time_and_records_the_skipped(stage: Stage) -> None:
    stage.workers(4)
    stage.daemon()

    def is_enough(_: int) -> bool:
        words = stage.words("skip")
        return words["fired"] > 2 and words["overlap"] > 2

    told = play(stage, "skip", every=0.25, seconds=0.7, is_enough=is_enough)

    assert (1, 0, 0) == (told.peak, told.deferred, told.most_waiting)
    assert told.fired == told.began == told.finished


def test_queue_runs_occurrences_back_to_back_up_to_the_overlap_limit(stage: Stage) -> None:
    stage.workers(4)
    stage.daemon()

    told = play(
        stage,
        "queue",
        every=0.25,
        seconds=0.6,
        is_enough=lambda waiting: waiting >= LIMIT and stage.words("queue")["overlap"] > 2,
    )

    runs, released = stage.runs("queue"), stage.released("queue")
    assert (1, LIMIT) == (told.peak, told.most_waiting)
    assert runs == [span.run_id for span in stage.spans("queue")]
    assert told.fired + told.deferred == told.finished == len(runs) > LIMIT
    waited = [KEYS.run_id("queue", move.nominal_ms or 0) for move in stage.moves("queue") if move.word == "deferred"]
    assert waited == [one.run_id for one in released]
    before = dict(zip(runs[1:], runs, strict=False))
    assert [f"{before[run]} finished" for run in waited] == [one.why for one in released]


def test_allow_runs_occurrences_in_parallel(stage: Stage) -> None:
    stage.workers(4)
    stage.daemon()
    stage.schedule("r", "allow", every=0.25, seconds=60.0, gate="over")

    eventually(lambda: len(stage.spans("r")) >= 3)
    stage.client.pause("r")
    stage.redis.rpush("over", "")
    eventually(lambda: {"finished"} == {*map(stage.status, stage.runs("r"))})

    assert overlap.peak(stage.spans("r")) >= 3
    assert {"fired"} == {*stage.words("r")}
    assert stage.runs("r") == sorted(span.run_id for span in stage.spans("r"))


def test_cancel_previous_stops_all_runs_but_the_last(stage: Stage) -> None:
    stage.workers(4)
    stage.daemon()
    stage.schedule("r", "cancel_previous", every=0.5, seconds=60.0, gate="over")

    eventually(lambda: len(stage.runs("r")) > 3)
    stage.client.pause("r")
    *earlier, last = stage.runs("r")
    eventually(lambda: {"stopped", "canceled"} >= {*map(stage.status, earlier)})
    stage.pid(last)
    stage.redis.rpush("over", "")
    eventually(lambda: stage.status(last) == "finished")

    assert [last] == [span.run_id for span in stage.spans("r") if span.ended_s is not None]
    assert {"fired"} == {*stage.words("r")}


def test_cancel_previous_withdraws_queued_runs_while_the_only_worker_is_busy(stage: Stage) -> None:
    stage.workers(1)
    other = stage.client.enqueue("overlap_tasks.work", args=("spans:other", 60.0)).run_id or ""
    stage.daemon()
    stage.schedule("r", "cancel_previous", every=0.3, seconds=0.01)

    eventually(lambda: len(stage.runs("r")) > 3)
    stage.client.pause("r")
    *earlier, last = stage.runs("r")
    stage.pid(other)
    stage.client.cancel_run(other)
    eventually(lambda: stage.status(last) == "finished")

    assert ([last], {"canceled"}) == ([span.run_id for span in stage.spans("r")], {*map(stage.status, earlier)})
    eventually(lambda: {run.status.value for run in stage.client.runs("r")} == {"cancelled", "succeeded"})


@pytest.mark.parametrize("what", ["stopped", "cancelled", "deleted", "expired"])
def test_the_next_run_starts_however_the_run_before_it_or_a_waiting_one_ends(stage: Stage, what: str) -> None:
    stage.workers(2)
    leader = stage.daemon()
    every = 3600 if what == "expired" else 0.3
    stage.schedule("r", "queue", every=every, seconds=60.0, gate="over", overlap_limit=20)
    if what == "expired":
        stage.pid(*become_due(stage.redis, "r"))  # this run does not expire, the following do
        stage.client.update("r", every=0.3, expires_after=3.0)
    first, second, third = eventually(lambda: len(stage.runs("r")) >= 3 and stage.runs("r")[:3])
    following = second if what == "stopped" else third
    stage.pid(first)

    if what == "cancelled":
        assert "cancelled" == stage.client.cancel_run(second)
    elif what == "deleted":
        Job.fetch(second, connection=stage.redis).delete()
    elif what == "expired":
        stage.client.pause("r")
        _, *short_lived = stage.runs("r")
        stage.client.update("r", expires_after=600)
        stage.client.resume("r")
        following = eventually(lambda: stage.runs("r")[len(short_lived) + 1 :])[0]
        eventually(lambda: not any(map(stage.status, short_lived)))
    if what in ("stopped", "expired"):
        assert "stopping" == stage.client.cancel_run(first)
    else:
        stage.redis.rpush("over", "")
    eventually(lambda: stage.status(first) != "started")
    began = eventually(lambda: stage.spans("r")[1:])[0]

    released = stage.released("r")[0]
    assert following == began.run_id == released.run_id == leader.wait_for("run_released")["run_id"]
    assert f"{first} {'was stopped' if what in ('stopped', 'expired') else 'finished'}" == released.why
    assert any(released.why in line for _, line in stage.client.why("r").lines)


def test_the_next_run_starts_after_the_heartbeat_of_a_killed_worker_lapsed(stage: Stage) -> None:
    workers = stage.workers(2)
    stage.daemon()
    stage.schedule("r", "queue", every=0.3, seconds=600.0, overlap_limit=2, timeout=900)
    first, second = eventually(lambda: len(stage.runs("r")) >= 2 and stage.runs("r")[:2])
    worker = kill_the_worker_of(stage, first, workers)
    lapse(stage.redis, first)
    began = eventually(lambda: stage.spans("r")[1:], 120)[0]

    [released] = stage.released("r")
    assert (second, second, f"the worker {worker} of {first} died") == (
        began.run_id, released.run_id, released.why,
    )  # fmt: skip


def kill_the_worker_of(stage: Stage, run_id: str, workers: Sequence[subprocess.Popen[bytes]]) -> str:
    """Kill the worker of *run_id* with its work horse; return its name."""
    horse, [worker] = stage.pid(run_id), stage.redis.hmget(KEYS.rq.job(run_id), "worker_name")
    workers[int(worker[1:])].kill()  # the worker first: it would notice that its work horse died
    workers[int(worker[1:])].wait(WITHIN_S)
    os.kill(horse, signal.SIGKILL)
    assert "started" == stage.status(run_id)
    return str(worker.decode())


def test_a_run_of_a_killed_worker_is_retried_before_the_waiting_runs(stage: Stage) -> None:
    workers = stage.workers(2)
    stage.daemon()
    stage.schedule("r", "queue", every=0.3, seconds=600.0, gate="over", overlap_limit=2, retry=1)
    first, second = eventually(lambda: len(stage.runs("r")) >= 2 and stage.runs("r")[:2])
    kill_the_worker_of(stage, first, workers)

    lapse(stage.redis, first)
    eventually(lambda: len(stage.spans("r")) == 2)
    stage.redis.rpush("over", "")
    eventually(lambda: stage.status(second) == "finished")

    assert [first, first, second] == [span.run_id for span in stage.spans("r")[:3]]
    released = stage.released("r")[0]
    assert (1, second, f"{first} finished") == (overlap.peak(stage.spans("r")[1:]), released.run_id, released.why)


SIMPLE = ("--worker-class", "rq.SimpleWorker")


@pytest.mark.parametrize(("options", "least_s", "most_s"), [((), 60, 90), (SIMPLE, 960, 960)])
def test_rqs_workers_keep_a_key_of_their_execution_alive(
    stage: Stage, options: tuple[str, ...], least_s: int, most_s: int
) -> None:
    """The assumption of lib/liveness.lua holds in every version of RQ."""
    stage.worker("w", *options)
    run_id = stage.client.enqueue("overlap_tasks.work", args=("spans:a", 60.0, "over"), timeout=900).run_id or ""
    stage.pid(run_id)

    [execution] = stage.redis.zrange(f"{RQ}:executions:{run_id}", 0, -1)
    assert least_s - 10 < stage.redis.ttl(f"{RQ}:execution:%b:%b".encode() % (run_id.encode(), execution)) <= most_s
    assert stage.redis.hget(KEYS.rq.job(run_id), "last_heartbeat")

    stage.redis.rpush("over", "")
    eventually(lambda: stage.status(run_id) == "finished")
    assert 0 == stage.redis.exists(f"{RQ}:execution:%b:%b".encode() % (run_id.encode(), execution))


def test_a_simple_worker_ignores_a_stop_command(stage: Stage, tmp_path: Path) -> None:
    stage.worker("w", *SIMPLE, "--verbose")
    run_id = stage.client.enqueue("overlap_tasks.work", args=("spans:a", 60.0, "over")).run_id or ""
    stage.pid(run_id)

    assert "stopping" == stage.client.cancel_run(run_id)
    eventually(lambda: "command to stop job" in (tmp_path / "worker.log").read_text())
    stage.redis.rpush("over", "")
    eventually(lambda: stage.status(run_id) == "finished")
