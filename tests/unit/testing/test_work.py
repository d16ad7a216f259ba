"""Fired runs are executed by RQ's own worker, by the test's clock: failures, retries, deadlines."""

import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rq import Retry

from tests.prefix import RQ
from tests.unit.testing import tasks
from tests.unit.testing.tasks import HOUR, KEYS, MINUTE, NINE, nominal
from zsched import RunStatus
from zsched.core.options.choices import ScheduleState
from zsched.testing import ManualScheduler


def test_work_executes_the_fired_runs_once(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.tell_when, id="hourly", every=HOUR)
    scheduler.advance(hours=2)

    runs = scheduler.work()

    assert [(NINE + HOUR, HOUR), (NINE + 2 * HOUR, timedelta(0))] == tasks.CALLS
    assert [RunStatus.SUCCEEDED] * 2 == [run.status for run in runs]
    assert [{"seen": 1}, {"seen": 2}] == [run.note for run in runs]
    assert [] == scheduler.work()


def test_runs_of_one_schedule_are_separate_jobs(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="hourly", every=HOUR)
    scheduler.advance(HOUR)
    scheduler.work()

    scheduler.advance(HOUR)

    assert [RunStatus.QUEUED, RunStatus.SUCCEEDED] == [run.status for run in scheduler.client.runs("hourly")]


def test_an_exception_in_a_task_fails_the_run(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, after=1)
    scheduler.client.schedule(tasks.note, after=2)
    scheduler.advance(seconds=2)

    failed, succeeded = scheduler.work()

    assert (RunStatus.FAILED, "tests.unit.testing.tasks.Refused: not today") == (failed.status, failed.error)
    assert RunStatus.SUCCEEDED is succeeded.status
    assert [failed.id] == [run.id for run in scheduler.client.runs(status="failed")]


def test_an_id_that_was_enqueued_with_keep_runs_again_after_its_time(scheduler: ManualScheduler) -> None:
    def pay() -> str:
        return scheduler.client.enqueue(tasks.note, id="pay", if_exists="keep", unique_for="2h").outcome

    assert ["created", "kept"] == [pay(), pay()]
    scheduler.advance(hours=1, work=True)
    assert "kept" == pay()
    scheduler.advance(hours=1, work=True)
    assert "created" == pay()

    scheduler.work()
    assert [None, None] == tasks.CALLS


def test_pytest_shows_only_the_lines_of_the_test_and_of_its_task(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, after=1)

    with pytest.raises(tasks.Refused) as caught:
        scheduler.advance(seconds=1, work=True, raises=True)

    shown = [entry for entry in caught.traceback if not entry.ishidden(caught)]
    assert [__file__, tasks.__file__] == [str(entry.path) for entry in shown]


def test_an_exception_in_a_task_is_raised_in_the_test_on_request(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="bad", after=1)
    scheduler.client.schedule(tasks.note, after=HOUR)

    with pytest.raises(tasks.Refused, match="not today"):
        scheduler.advance(hours=2, work=True, raises=True)

    assert NINE + timedelta(seconds=1) == scheduler.now
    assert [RunStatus.FAILED] == [run.status for run in scheduler.client.runs("bad")]
    assert ["fail"] == tasks.CALLS


def test_ctrl_c_in_a_task_ends_the_test_and_not_the_task_alone(scheduler: ManualScheduler) -> None:
    scheduler.client.enqueue(tasks.interrupt)

    with pytest.raises(KeyboardInterrupt):
        scheduler.work()


def test_a_run_scheduled_by_a_task_fires_at_its_time(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.chain, args=(3,), at=NINE + HOUR)

    runs = scheduler.advance(hours=3, work=True)

    assert [NINE + n * HOUR for n in (1, 2, 3)] == tasks.CALLS == nominal(runs)
    assert [NINE + 4 * HOUR] == nominal(scheduler.advance(hours=1))


def test_a_failed_run_is_retried_after_its_interval_by_the_tests_clock(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail_at_first, id="a", after=60, retry=Retry(max=1, interval=600))

    scheduler.advance(minutes=10, work=True)
    assert ["try"] == tasks.CALLS
    scheduler.advance(minutes=1, work=True)

    assert ["try", "try"] == tasks.CALLS
    [run] = scheduler.client.runs("a")
    assert (RunStatus.SUCCEEDED, 2) == (run.status, run.attempt)
    assert (NINE + 11 * MINUTE).timestamp() * 1000 == run.ended_ms


def test_another_attempt_comes_at_the_millisecond_when_its_interval_is_over(scheduler: ManualScheduler) -> None:
    due = NINE + MINUTE + timedelta(milliseconds=123)
    scheduler.client.schedule(tasks.fail_at_first, id="a", at=due, retry=Retry(max=1, interval=1))
    scheduler.advance_to(due, work=True)

    scheduler.advance(timedelta(milliseconds=999), work=True)
    assert ["try"] == tasks.CALLS
    scheduler.advance(timedelta(milliseconds=1), work=True)

    assert ["try", "try"] == tasks.CALLS


def test_a_job_delayed_by_rq_in_a_task_runs_when_its_second_has_ended(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.enqueue_in_a_minute, after=60)

    scheduler.advance(timedelta(seconds=120, milliseconds=999), work=True)
    assert [] == tasks.CALLS
    scheduler.advance(timedelta(milliseconds=1), work=True)

    assert ["later"] == tasks.CALLS


def test_a_schedule_whose_runs_keep_failing_is_paused(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="a", every=HOUR, pause_after_failures=3)

    assert 3 == len(scheduler.advance(hours=5, work=True))
    assert ScheduleState.PAUSED is scheduler.client.get("a").state


def test_work_executes_only_the_named_queues_in_their_order(scheduler: ManualScheduler) -> None:
    for queue in ("slow", "fast", "other"):
        scheduler.client.enqueue(tasks.note, (queue,), queue=queue)

    scheduler.work("fast", "slow")

    assert ["fast", "slow"] == tasks.CALLS
    assert 1 == scheduler.redis.llen(f"{RQ}:queue:other")


def test_work_executes_json_payloads_too(ground: Any) -> None:
    with ManualScheduler(ground, serializer="json") as scheduler:
        scheduler.client.schedule(tasks.note, args=["x"], after=1)

        [run] = scheduler.advance(seconds=1, work=True)

    assert ["x"] == tasks.CALLS == list(run.args)


def test_retries_without_an_interval_happen_at_once(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.fail, id="a", after=1, retry=Retry(max=5))

    scheduler.advance(seconds=1)
    runs = scheduler.work()

    assert [*[RunStatus.QUEUED] * 5, RunStatus.FAILED] == [run.status for run in runs]
    assert 6 == len(tasks.CALLS) == scheduler.client.runs("a")[0].attempt


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]


def test_work_leaves_no_thread_no_signal_handler_and_an_unchanged_clock_of_rq(scheduler: ManualScheduler) -> None:
    before, threads = handlers(), set(threading.enumerate())
    signal.alarm(300)  # of a test runner
    scheduler.client.enqueue(tasks.note)

    scheduler.work()

    left_s = signal.alarm(0)
    assert left_s > 200
    assert before == handlers()
    assert threads.issuperset(threading.enumerate())  # one of an earlier test may end meanwhile
    times = [datetime.now(UTC), sys.modules["rq.utils"].now(), datetime.now(UTC)]
    assert sorted(times) == times
    assert sys.modules["rq.job"].now is sys.modules["rq.utils"].now


def test_work_works_in_another_thread(scheduler: ManualScheduler) -> None:
    scheduler.client.enqueue(tasks.note, ("there",))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(scheduler.work).result()

    assert ["there"] == tasks.CALLS


def test_a_run_that_waits_beyond_its_deadline_is_not_executed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", after=60, expires_after=600)
    [run] = scheduler.advance(MINUTE)

    scheduler.advance(minutes=10)

    assert 0 == scheduler.redis.exists(KEYS.rq.job(run.id))
    assert [] == scheduler.work()
    assert [] == tasks.CALLS
    assert [RunStatus.EXPIRED] == [one.status for one in scheduler.client.runs("a")]


def test_a_run_is_executed_until_its_deadline(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", after=60, expires_after=600)
    scheduler.advance(MINUTE)

    scheduler.advance(minutes=9, seconds=59)

    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.work()]
    scheduler.advance(HOUR)
    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.client.runs("a")]


def test_real_time_expires_no_run(scheduler: ManualScheduler) -> None:
    enqueued = scheduler.client.enqueue(tasks.note, expires_after=1)
    scheduler.tick()

    assert scheduler.redis.pttl(KEYS.rq.job(enqueued.run_id or "")) > 86_400_000


def test_a_retry_of_a_run_that_began_in_time_has_no_deadline(scheduler: ManualScheduler) -> None:
    retry = Retry(max=1, interval=30)
    scheduler.client.schedule(tasks.fail_at_first, id="a", after=60, expires_after=60, retry=retry)
    scheduler.advance(MINUTE, work=True)

    scheduler.advance(MINUTE)  # queued again half a minute before its deadline, and nobody executes it

    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.work()]
    assert ["try", "try"] == tasks.CALLS


def test_a_schedule_with_a_deadline_runs_as_others_do(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="hourly", every=HOUR, done_by="06:00")
    scheduler.advance(HOUR)

    assert [RunStatus.SUCCEEDED] == [run.status for run in scheduler.work()]
    assert "06:00" == scheduler.client.get("hourly").done_by
