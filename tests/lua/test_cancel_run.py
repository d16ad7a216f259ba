"""cancel_run.lua: cancels a run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.prefix import RQ
from zsched.core.runs.job import ms_of

AT = 1_700_000_000_000
RUN = f"a-{AT}"
QUEUED_AT = "2023-11-14T22:13:20.000000Z"
JOB = {"data": "call", "origin": "mail", "timeout": "180", "description": "app.task", "enqueued_at": QUEUED_AT}
FACTS = '{"ended":1700000000001}'
SCHEDULED = f"{RQ}:scheduled:mail"
ELSEWHERE = ("scheduled", "deferred")  # runs that wait outside of a queue


def cancel_run(ns: Namespace, status: str = "queued", run: str = RUN, **over: Any) -> list[Any]:
    """Return word, now ms and detail."""
    row = ["a", run, over.pop("seen", f"{status} {QUEUED_AT}"), FACTS]
    arguments = {"most_waiting": 50_000, "op": "op-1"} | over
    now_ms, word, detail = ns.call("cancel_run", row, **arguments)
    return [word, now_ms, detail]


def queued(ns: Namespace, *before: str, status: str = "queued") -> None:
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=JOB | {"status": status})
    if status == "queued":
        ns.redis.rpush(f"{RQ}:queue:mail", *before, RUN, "behind")
    elif status == "scheduled":
        ns.redis.zadd(SCHEDULED, {RUN: 1_700_000_060, "other": 1})
    elif status == "deferred":
        ns.redis.rpush(ns.keys.waiting("a"), *before, RUN, "other")


def test_a_queued_run_leaves_its_queue_and_its_end_is_logged(ns: Namespace) -> None:
    queued(ns, "before")

    word, now_ms, _ = cancel_run(ns)

    assert ("cancelled", ["before", "behind"]) == (word, ns.queue("mail"))
    job = ns.job(RUN)
    assert JOB | {"status": "canceled", "ended_at": job["ended_at"], "zs_told": job["ended_at"]} == job
    assert now_ms == ms_of(job["ended_at"])
    assert [(RUN.encode(), now_ms // 1000)] == ns.redis.zrange(f"{RQ}:canceled:mail", 0, -1, withscores=True)
    assert ("0-1", "end", [f"{RUN} cancelled {FACTS}"]) == (ns.last.id, ns.last.kind, ns.last.rows)


def test_cancelling_a_run_that_waits_in_a_registry_removes_it_from_there(ns: Namespace) -> None:
    queued(ns, status="scheduled")

    assert "cancelled" == cancel_run(ns, "scheduled")[0]
    assert [b"other"] == ns.redis.zrange(SCHEDULED, 0, -1)
    assert ("canceled", "end") == (ns.job(RUN)["status"], ns.last.kind)


@pytest.mark.parametrize("enqueued_at", [QUEUED_AT, ""])
def test_cancelling_a_run_that_waits_for_another_removes_it_from_the_list_of_its_schedule(
    ns: Namespace, enqueued_at: str
) -> None:
    queued(ns, *(f"x{number}" for number in range(60)), status="deferred")
    ns.redis.hset(ns.keys.rq.job(RUN), "enqueued_at", enqueued_at)

    assert "cancelled" == cancel_run(ns, "deferred", seen=f"deferred {enqueued_at}", most_waiting=50)[0]

    left = ns.redis.lrange(ns.keys.waiting("a"), 0, -1)
    assert (61, False, b"other") == (len(left), RUN.encode() in left, left[-1])
    assert ("canceled", True, "end") == (ns.job(RUN)["status"], "data" in ns.job(RUN), ns.last.kind)
    assert [RUN.encode()] == ns.redis.zrange(f"{RQ}:canceled:mail", 0, -1)


@pytest.mark.parametrize(("before", "is_searched"), [(49_998, True), (50_000, False)])
def test_cancelling_a_run_in_a_long_queue_deletes_only_its_data(ns: Namespace, before: int, is_searched: bool) -> None:
    queued(ns, *(f"x{number}" for number in range(before)))

    assert "cancelled" == cancel_run(ns)[0]

    job = ns.job(RUN)
    assert ("canceled", None if is_searched else "1", is_searched) == (job["status"], job.get("zs_gone"), "data" in job)
    assert before + (1 if is_searched else 2) == ns.redis.llen(f"{RQ}:queue:mail")
    assert is_searched or 590_000 < ns.redis.pttl(ns.keys.rq.job(RUN)) <= 600_000
    assert ("end", int(is_searched)) == (ns.last.kind, ns.redis.exists(f"{RQ}:canceled:mail"))


def test_cancelling_a_started_run_sends_a_stop_command_to_its_worker(ns: Namespace) -> None:
    job = JOB | {"status": "started", "worker_name": "w1"}
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=job)

    with ns.heard(f"{RQ}:pubsub:w1") as heard:
        assert ["stopping", "w1"] == cancel_run(ns)[::2]

    assert [{"command": "stop-job", "job_id": RUN}] == [json.loads(message) for message in heard]
    told_ms = int(ns.job(RUN)["zs_stop"])
    assert job | {"zs_stop": str(told_ms)} == ns.job(RUN)
    assert [("stop", ["runs", RUN])] == [(entry.kind, entry.texts) for entry in ns.entries()]


def test_a_stop_command_is_not_repeated_within_ten_seconds_as_that_may_kill_the_worker(ns: Namespace) -> None:
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=JOB | {"status": "started", "worker_name": "w1"})

    with ns.heard(f"{RQ}:pubsub:w1") as heard:
        for ms in (0, 9_000, 2_000):
            ns.pass_time(ms)
            assert "stopping" == cancel_run(ns, op=f"op-{ms}")[0]

    assert (2, ["stop", "stop"]) == (len(heard), [entry.kind for entry in ns.entries()])


def test_cancelling_reports_a_worker_that_does_not_listen(ns: Namespace) -> None:
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=JOB | {"status": "started", "worker_name": "w1"})

    assert ["DEAF", "w1"] == cancel_run(ns)[::2]
    assert ["stop"] == [entry.kind for entry in ns.entries()]


def _job(**fields: str) -> Callable[[Namespace], Any]:
    """Return a function that writes the job of the run, in no queue."""
    return lambda ns: ns.redis.hset(ns.keys.rq.job(RUN), mapping=JOB | {"status": "queued"} | fields)


def _registry_of_another_type(ns: Namespace) -> None:
    queued(ns)
    ns.redis.set(f"{RQ}:canceled:mail", "x")


def _list_of_another_type(ns: Namespace) -> None:
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=JOB | {"status": "deferred"})
    ns.redis.set(ns.keys.waiting("a"), "x")


REFUSED: dict[str, tuple[Callable[[Namespace], Any], str, dict[str, str]]] = {
    **{
        f"it is {status}": (lambda ns, status=status: queued(ns, status=status), "over", {})
        for status in ("finished", "failed", "stopped", "canceled")
    },
    "it was queued again": (queued, "AGAIN", {"seen": "queued 2023-11-14T22:13:19.000000Z"}),
    "it was not seen": (queued, "AGAIN", {"seen": "-"}),
    **{
        f"it was just taken from where it was {status}": (_job(status=status), "TAKEN", {"status": status})
        for status in ("queued", *ELSEWHERE)
    },
    **{
        f"its job has {fields}": (_job(**fields), "BROKEN", {})
        for fields in (
            {"status": "odd"},
            {"origin": ""},
            {"status": "created"},
            {"status": "started"},
            {"status": "ready_to_enqueue"},
        )
    },
    "its job is of another type": (lambda ns: ns.redis.set(ns.keys.rq.job(RUN), "x"), "BROKEN", {}),
    "the registry is of another type": (_registry_of_another_type, "WRONGTYPE", {}),
    "the list where it waits is of another type": (_list_of_another_type, "WRONGTYPE", {"status": "deferred"}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_run_that_cannot_be_cancelled_is_named_with_the_reason_and_left_alone(ns: Namespace, why: str) -> None:
    prepare, expected, call = REFUSED[why]
    prepare(ns)
    before = ns.keyspace()

    word, _, detail = cancel_run(ns, **call)

    assert (expected, call["status"] if expected == "TAKEN" else detail) == (word, detail)
    assert before == ns.keyspace()


def test_cancelling_the_run_id_of_a_waiting_schedule_cancels_nothing(ns: Namespace) -> None:
    due_ms = ns.put_later("a")

    assert "WAITS" == cancel_run(ns, run=f"a-{due_ms}")[0]
    assert ({"a": f"normal {due_ms}"}, 1) == (ns.places(), len(ns.entries()))


def test_a_scheduled_run_is_cancelled_although_a_schedule_with_its_id_waits(ns: Namespace) -> None:
    ns.put(("a", ns.now_ms + HOUR_MS))
    queued(ns, status="scheduled")

    assert "cancelled" == cancel_run(ns, "scheduled")[0]
    assert ["a"] == list(ns.places())


def _row(run: str) -> list[str]:
    return ["a", run, f"queued {QUEUED_AT}", FACTS]


def test_the_first_runs_of_a_queue_of_any_length_leave_it(ns: Namespace) -> None:
    runs = [f"a-{AT + n}" for n in range(100)]
    for run in runs:
        ns.redis.hset(ns.keys.rq.job(run), mapping=JOB | {"status": "queued"})
    ns.redis.rpush(f"{RQ}:queue:mail", *runs, *(f"x{number}" for number in range(60_000)))

    words = ns.call("cancel_run", [text for run in runs for text in _row(run)], most_waiting=50_000)[1::2]

    assert ["cancelled"] * 100 == words
    assert 60_000 == ns.redis.llen(f"{RQ}:queue:mail")
    assert (1, 100) == (len(ns.entries()), len(ns.last.rows))


def test_a_call_searches_a_bounded_number_of_runs_and_leaves_the_rest_for_later(ns: Namespace) -> None:
    queued(ns, *(f"x{number}" for number in range(30)))
    near, far = f"a-{AT + 1}", f"a-{AT + 2}"
    for run in (near, far):
        ns.redis.hset(ns.keys.rq.job(run), mapping=JOB | {"status": "queued"})
    ns.redis.linsert(f"{RQ}:queue:mail", "BEFORE", "x9", near)
    ns.redis.rpush(f"{RQ}:queue:mail", far)

    first = ns.call("cancel_run", [*_row(near), *_row(RUN), *_row(far)], most_waiting=32)[1::2]
    second = ns.call("cancel_run", [*_row(RUN), *_row(far)], most_waiting=32)[1::2]

    assert (["cancelled", "LATER", "LATER"], ["cancelled", "LATER"]) == (first, second)
    assert {RUN.encode(), near.encode()} == set(ns.redis.zrange(f"{RQ}:canceled:mail", 0, -1))
