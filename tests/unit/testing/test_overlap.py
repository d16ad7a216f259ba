"""Runs that wait for each other, replace each other, or share a limit of RQ, by the test's clock."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import rq
from rq.job import Job

from tests.prefix import RQ
from tests.unit.testing import tasks
from tests.unit.testing.tasks import KEYS, MINUTE, NINE
from zsched import Run, RunStatus
from zsched.testing import Fired, ManualScheduler


def ids(runs: list[Fired] | list[Run]) -> list[str]:
    return [run.id for run in runs]


def queued(scheduler: ManualScheduler) -> list[str]:
    """Return the runs that RQ has in their queue, in order."""
    return [run_id.decode() for run_id in scheduler.redis.lrange(f"{RQ}:queue:default", 0, -1)]


def begin_elsewhere(scheduler: ManualScheduler, run: Fired) -> None:
    """Take the first run of the queue, which is *run*, like a worker of another process."""
    assert run.id.encode() == scheduler.redis.lpop(f"{RQ}:queue:default")
    scheduler.redis.hset(KEYS.rq.job(run.id), mapping={"status": "started", "worker_name": "elsewhere"})


@pytest.mark.parametrize(
    ("overlap", "fired", "worked"), [("skip", 4, 4), ("allow", 4, 4), ("queue", 2, 2), ("cancel_previous", 4, 1)]
)
def test_overlap_limits_count_without_workers(
    scheduler: ManualScheduler, overlap: str, fired: int, worked: int
) -> None:
    limit = {"overlap_limit": 2} if overlap == "queue" else {}
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap=overlap, **limit)

    runs = scheduler.advance(4 * MINUTE)

    assert fired == len(runs)
    assert ids(runs)[-worked:] == ids(scheduler.work())


def test_a_run_without_a_worker_can_keep_the_next_run_waiting(ground: Any) -> None:
    with ManualScheduler(ground, start=NINE, overlap_patience_s=86_400) as scheduler:
        scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="skip")

        assert [NINE + MINUTE] == [run.at for run in scheduler.advance(3 * MINUTE)]
        scheduler.work()
        assert [NINE + 4 * MINUTE] == [run.at for run in scheduler.advance(MINUTE)]


def _cancel(scheduler: ManualScheduler, run_id: str) -> None:
    scheduler.client.cancel_run(run_id)


def _delete(scheduler: ManualScheduler, run_id: str) -> None:
    Job.fetch(run_id, connection=scheduler.redis).delete()


@pytest.mark.parametrize("lose", [_cancel, _delete])
def test_a_run_behind_a_cancelled_or_deleted_run_is_executed(
    scheduler: ManualScheduler, lose: Callable[[ManualScheduler, str], None]
) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="queue")
    first, second, third = scheduler.advance(3 * MINUTE)

    lose(scheduler, first.id)

    assert [second.id, third.id] == ids(scheduler.work())
    assert 5 == len(scheduler.advance(5 * MINUTE, work=True))
    assert [] == list(scheduler.client.runs("a", status="queued"))


def test_a_run_behind_an_expired_run_is_executed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="queue", expires_after=100)
    first, second, third = scheduler.advance(3 * MINUTE)

    assert [second.id, third.id] == ids(scheduler.work())
    assert [first.id] == ids(list(scheduler.client.runs("a", status="expired")))


def test_a_run_behind_runs_that_expire_in_turn_is_executed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, count=3, overlap="queue", expires_after=100)
    *_, third = scheduler.advance(4 * MINUTE)

    assert [third.id] == ids(scheduler.work())


def test_a_run_behind_a_run_that_a_task_cancels_is_executed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.cancel_the_next, id="a", every=MINUTE, overlap="queue")
    first, _, third = scheduler.advance(3 * MINUTE)

    assert [first.id, third.id] == ids(scheduler.work())


def test_a_tick_queues_a_run_that_no_longer_has_to_wait(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="queue")
    first, second, _ = scheduler.advance(3 * MINUTE)
    assert [first.id] == queued(scheduler)

    scheduler.client.cancel_run(first.id)
    scheduler.tick()

    assert [second.id] == queued(scheduler)


def test_a_run_executing_elsewhere_keeps_the_next_run_waiting(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="queue")
    [first] = scheduler.advance(MINUTE)

    begin_elsewhere(scheduler, first)

    assert 10 == len(scheduler.advance(10 * MINUTE, work=True))
    assert [] == tasks.CALLS


def test_the_release_of_a_run_is_not_printed(scheduler: ManualScheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="queue")
    first, *_ = scheduler.advance(3 * MINUTE)
    scheduler.client.cancel_run(first.id)

    assert 2 == len(scheduler.work())

    assert "" == capsys.readouterr().out


def test_a_replaced_run_is_not_executed_again(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=MINUTE, overlap="cancel_previous")
    [first] = scheduler.advance(MINUTE)
    begin_elsewhere(scheduler, first)
    [second] = scheduler.advance(MINUTE)

    scheduler.redis.hset(KEYS.rq.job(first.id), "status", "queued")  # it failed there, and is to be tried again
    scheduler.redis.lpush(f"{RQ}:queue:default", first.id)

    assert [second.id] == ids(scheduler.work())
    statuses = {run.id: run.status for run in scheduler.client.runs("a")}
    assert {first.id: RunStatus.CANCELLED, second.id: RunStatus.SUCCEEDED} == statuses


has_rate_limits = pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")


@has_rate_limits
def test_runs_of_one_limit_are_all_executed(scheduler: ManualScheduler) -> None:
    for n in range(5):
        scheduler.client.schedule(tasks.note, id=f"a{n}", at=NINE + MINUTE, rate_limit="mail:2")

    runs = scheduler.advance(MINUTE)
    with_a_slot = queued(scheduler)

    assert ids(runs[:2]) == with_a_slot
    assert ids(runs) == ids(scheduler.work())


@has_rate_limits
def test_a_run_behind_a_cancelled_run_gets_its_slot(scheduler: ManualScheduler) -> None:
    for n in range(3):
        scheduler.client.schedule(tasks.note, id=f"a{n}", at=NINE + MINUTE, rate_limit="mail:1")
    first, second, third = scheduler.advance(MINUTE)

    scheduler.client.cancel_run(first.id)
    scheduler.client.cancel_run(second.id)

    assert [third.id] == ids(scheduler.work())


@has_rate_limits
def test_a_run_behind_an_expired_run_gets_its_slot(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", at=NINE, rate_limit="mail:1", expires_after=60)
    scheduler.client.schedule(tasks.note, id="b", at=NINE + timedelta(minutes=2), rate_limit="mail:1")

    scheduler.advance(MINUTE * 3)

    assert ["b"] == [run.schedule_id for run in scheduler.work()]
