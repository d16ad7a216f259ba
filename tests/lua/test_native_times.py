"""native.lua: never early, though RQ's scores are whole seconds; another attempt comes when its interval is over."""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from rq import Queue, Retry
from rq.registry import ScheduledJobRegistry

from tests.builders.namespaces import Namespace
from tests.lua.delayed import fail, fail_again, native, queued_at, waiting
from tests.prefix import RQ
from zsched.core.clock import from_ms, to_ms

SECOND_MS = 1_800_000_000_000  # a whole one
SECOND = from_ms(SECOND_MS)
MS, S = timedelta(milliseconds=1), timedelta(seconds=1)


@pytest.fixture
def at_second(led: Namespace) -> Namespace:
    """A namespace with a clock that stands still at SECOND."""
    led.pass_time(SECOND_MS - led.now_ms)
    return led


def _run_all(ns: Namespace, until: datetime) -> None:
    """Call native.lua like the daemon, at each time that the last reply named, until *until*."""
    while (next_ms := native(ns).next_ms) != "" and int(next_ms) <= to_ms(until):
        ns.pass_time(max(int(next_ms) - ns.now_ms, 0))


def _enqueue_at(ns: Namespace, id: str, at: datetime) -> None:
    Queue("default", connection=ns.redis).enqueue_at(at, "app.task", job_id=id)


@pytest.mark.parametrize("micros", [0, 1, 12_000, 500_000, 988_000, 999_999])
def test_a_delayed_job_is_queued_when_the_second_of_its_time_is_over(at_second: Namespace, micros: int) -> None:
    at = SECOND + 2 * S + timedelta(microseconds=micros)
    _enqueue_at(at_second, "a", at)

    for _ in range(4):
        native(at_second)
        at_second.pass_time((SECOND_MS + 2999 - at_second.now_ms) // 2)
    assert ["a"] == waiting(at_second)
    _run_all(at_second, SECOND + 10 * S)

    assert SECOND + 3 * S == queued_at(at_second, "a")


def test_a_job_scheduled_within_the_current_second_waits_for_its_end(at_second: Namespace) -> None:
    at_second.pass_time(400)
    _enqueue_at(at_second, "now", SECOND + 400 * MS)
    _enqueue_at(at_second, "past", SECOND - S)

    assert (1, SECOND_MS + 1000) == ((reply := native(at_second)).pushed, reply.next_ms)
    assert (["past"], ["now"]) == (at_second.queue(), waiting(at_second))


def test_rqs_scheduler_also_moves_a_job_at_the_end_of_its_second(at_second: Namespace) -> None:
    _enqueue_at(at_second, "a", SECOND)
    registry = ScheduledJobRegistry("default", connection=at_second.redis)

    native(at_second)

    assert ([], ["a"]) == (
        registry.get_jobs_to_schedule(SECOND_MS // 1000),
        registry.get_jobs_to_schedule(SECOND_MS // 1000 + 1),
    )
    assert SECOND <= registry.get_scheduled_time("a") < SECOND + S


def test_a_job_that_is_cancelled_within_its_second_is_not_queued_and_a_rescheduled_one_waits(
    at_second: Namespace,
) -> None:
    for id in ("a", "later"):
        _enqueue_at(at_second, id, SECOND)
    native(at_second)
    at_second.redis.hset(f"{RQ}:job:a", "status", "canceled")
    _enqueue_at(at_second, "later", SECOND + 60 * S)
    at_second.pass_time(1000)

    reply = native(at_second)

    assert (0, ["default", "a", "canceled"], ["later"]) == (reply.pushed, reply.odd, waiting(at_second))
    assert SECOND_MS + 60_000 == reply.next_ms


@pytest.mark.parametrize(
    ("micros", "due_ms"), [(0, 0), (1, 1), (29_000, 29), (123_456, 124), (988_000, 988), (999_001, 1000)]
)
@pytest.mark.parametrize("interval", [1, 2, 3600])
def test_another_attempt_waits_for_its_interval(at_second: Namespace, micros: int, due_ms: int, interval: int) -> None:
    fail(at_second, "a", Retry(max=2, interval=interval), SECOND + timedelta(microseconds=micros))

    _run_all(at_second, SECOND + 7200 * S)

    assert SECOND + interval * S + due_ms * MS == queued_at(at_second, "a")


def test_a_retried_run_of_zsched_is_queued_when_its_interval_is_over(at_second: Namespace) -> None:
    fields = {"retries_left": "1", "zs_retries": "2", "retry_intervals": "[7, 1]", "status": "scheduled", "zs": "1"}
    times = {"started_at": "2027-01-15T07:59:59.600000Z", "ended_at": "2027-01-15T07:59:59.655321Z"}
    at_second.redis.hset(f"{RQ}:job:a-1", mapping=fields | times | {"origin": "default", "timeout": "180"})
    at_second.redis.zadd(f"{RQ}:scheduled:default", {"a-1": SECOND_MS // 1000 + 6})

    _run_all(at_second, SECOND + 60 * S)

    assert SECOND + 6656 * MS == queued_at(at_second, "a-1")


@pytest.mark.parametrize(("intervals", "waits_s"), [([1], [1, 1, 1]), ([1, 5, 2], [1, 5, 2]), ([4, 2], [4, 4, 2])])
def test_every_attempt_waits_for_its_own_interval(
    at_second: Namespace, intervals: list[int], waits_s: list[int]
) -> None:
    ended, waited = SECOND + 250 * MS, []
    fail(at_second, "a", Retry(max=3, interval=intervals), ended)

    for _ in waits_s:
        _run_all(at_second, SECOND + 60 * S)
        waited.append(queued_at(at_second, "a") - ended)
        ended = queued_at(at_second, "a") + 300 * MS
        if len(waited) < len(waits_s):
            fail_again(at_second, "a", ended)

    assert [wait_s * S for wait_s in waits_s] == waited


def test_a_failure_handled_in_the_next_second_does_not_delay_its_retry(at_second: Namespace) -> None:
    fail(at_second, "a", Retry(max=1, interval=5), SECOND + 998 * MS, took=4 * MS)

    _run_all(at_second, SECOND + 60 * S)

    assert SECOND + 6 * S == queued_at(at_second, "a")


def test_an_overdue_retry_is_queued_at_once(at_second: Namespace) -> None:
    fail(at_second, "a", Retry(max=1, interval=1), SECOND - 700 * MS)
    at_second.pass_time(301)

    assert 1 == native(at_second).pushed


def test_retries_of_random_failures_are_neither_early_nor_late(at_second: Namespace) -> None:
    chance, due = random.Random(13), {}
    for number in range(300):
        ended = SECOND + timedelta(microseconds=chance.randrange(3_000_000))
        took = timedelta(microseconds=chance.choice((0, 900, 3_000, 40_000)))
        interval = chance.randrange(1, 5)
        fail(at_second, f"a{number}", Retry(max=3, interval=[interval, 9, 9]), ended, took)
        due[f"a{number}"] = (ended + interval * S, ended + took + interval * S)

    _run_all(at_second, SECOND + 60 * S)

    for id, (earliest, latest) in due.items():
        assert earliest <= queued_at(at_second, id) <= latest + MS
    assert [] == waiting(at_second)


FAILED = {
    "status": "scheduled", "origin": "default", "timeout": "180", "retries_left": "1", "retry_intervals": "[2]",
    "started_at": "2027-01-15T07:59:58.100000Z", "ended_at": "2027-01-15T07:59:58.300000Z",
}  # fmt: skip  # due at SECOND + 300 ms


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({}, id="nothing unknown"),
        pytest.param({"ended_at": ""}, id="abandoned in its first attempt"),
        pytest.param({"started_at": "2027-01-15T07:59:58.900000Z"}, id="abandoned in its second attempt"),
        pytest.param({"started_at": None}, id="no start"),
        pytest.param({"ended_at": "2027-01-15T07:59:59.300000Z"}, id="an end that gives a later second"),
        pytest.param({"ended_at": "2027-01-15T07:59:51.300000Z"}, id="an end that gives a far earlier second"),
        pytest.param({"number_of_retries": "1"}, id="the interval was the task's answer"),
        pytest.param({"repeats_left": "1"}, id="the interval was of a repetition"),
        pytest.param({"retry_intervals": None}, id="no intervals"),
        pytest.param({"retry_intervals": ""}, id="empty intervals"),
        pytest.param({"retry_intervals": '["x"]'}, id="a text as interval"),
        pytest.param({"retry_intervals": "[1.5]"}, id="a fraction of a second"),
        pytest.param(
            {"retry_intervals": '["x"]', "ended_at": "2027-01-15T08:00:00.300000Z"},
            id="a text as interval, and an end within the second",
        ),
        pytest.param({"retry_intervals": "[-2]"}, id="less than nothing"),
        pytest.param({"retry_intervals": "[1e999]"}, id="endless"),
        pytest.param({"retry_intervals": "[1e300]"}, id="longer than time"),
        pytest.param({"retry_intervals": "[" + "2, " * 10_000 + "2]"}, id="a list too long to read"),
        pytest.param({"retries_left": ""}, id="no number of retries"),
        pytest.param({"retries_left": "nan"}, id="a number of retries that is none"),
        pytest.param({"ended_at": "yesterday"}, id="an end that is no time"),
        pytest.param({"ended_at": "2027-01-15T07:59:58Z"}, id="an end without a fraction"),
    ],
)
def test_a_retry_of_unknown_time_waits_until_its_second_ends(
    at_second: Namespace, other: Mapping[str, str | None]
) -> None:
    fields = {**FAILED, **other}
    at_second.redis.hset(f"{RQ}:job:a", mapping={name: text for name, text in fields.items() if text is not None})
    at_second.redis.zadd(f"{RQ}:scheduled:default", {"a": SECOND_MS // 1000})

    _run_all(at_second, SECOND + 60 * S)

    assert SECOND + (S if other else 300 * MS) == queued_at(at_second, "a")
