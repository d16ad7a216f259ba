"""advance.lua with overlap=queue: an occurrence becomes a deferred run, which RQ releases after the runs before it."""

from __future__ import annotations

import pytest
from rq import Queue
from rq.job import Job, JobStatus

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.lua.chained import LONG_AGO, chain
from tests.lua.overlapping import advance, becomes, dependents, due, fired, put, told
from tests.prefix import RQ


def test_a_waiting_run_is_a_deferred_job_like_rqs_whose_deadline_counts(led: Namespace) -> None:
    put(led, template={"zs_expires": "120000"})
    first, second = fired(led, "queue", 2)

    job = Job.fetch(second, connection=led.redis)
    assert (JobStatus.DEFERRED, first, True) == (job.get_status(), job._dependency_id, job.allow_dependency_failures)
    assert ([first], [second]) == (job.dependency_ids, list(dependents(led, first)))
    assert [second] == Queue("default", connection=led.redis).deferred_job_registry.get_job_ids()
    assert ([first], None, f"queue {first} {second}") == (led.queue(), job.enqueued_at, chain(led))
    assert [first] == told(led)
    assert 0 < led.redis.pttl(led.keys.rq.job(second)) <= 60_001
    assert 0 < led.redis.pttl(led.keys.rq.job(first)) <= 60_000


def test_rq_releases_a_waiting_run_when_the_previous_run_is_over(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "failed")

    Queue("default", connection=led.redis).enqueue_dependents(Job.fetch(first, connection=led.redis))

    status = led.redis.hget(led.keys.rq.job(second), "status")
    assert ([second], b"queued", set()) == (led.queue(), status, dependents(led, first))


def test_every_run_of_a_chain_waits_for_the_previous_run_up_to_the_overlap_limit(led: Namespace) -> None:
    first, second, third = fired(led, "queue", 3)

    assert ({second}, {third}) == (dependents(led, first), dependents(led, second))
    assert f"queue {first} {second} {third}" == chain(led)
    assert ["overlap", "deferred"] == [advance(led, "queue", limit=limit)[0] for limit in (3, 4)]


def test_an_occurrence_beyond_the_overlap_limit_is_skipped(led: Namespace) -> None:
    first, *_ = fired(led, "queue")
    becomes(led, first, "started")

    words = [advance(led, "queue", limit=2)[0] for _ in range(4)]

    assert ["deferred", "deferred", "overlap", "overlap"] == words
    assert 2 == led.redis.zcard(f"{RQ}:deferred:default")
    assert led.schedule("r")["last"] == (chain(led) or "").split(" ")[-1]


def test_an_occurrence_also_waits_for_a_run_on_request(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "started")
    led.redis.hset(led.keys.rq.job("r-extra"), mapping={"status": "started", "origin": "default"})
    led.redis.hset(led.keys.schedule("r"), "last", "r-extra")

    _, third = advance(led, "queue")

    assert ({third}, {second}) == (dependents(led, "r-extra"), dependents(led, first))
    assert {second, "r-extra"} == set(Job.fetch(third, connection=led.redis).dependency_ids)
    assert f"queue {first} {second} r-extra {third}" == chain(led)


def test_rq_releases_a_run_with_two_dependencies_after_both_are_over(led: Namespace) -> None:
    [first] = fired(led, "queue")
    becomes(led, first, "started")
    led.redis.hset(led.keys.rq.job("r-extra"), mapping={"status": "finished", "origin": "default", "data": ""})
    becomes(led, "r-extra", "started")
    led.redis.hset(led.keys.schedule("r"), "last", "r-extra")
    _, waits = advance(led, "queue")
    queue = Queue("default", connection=led.redis)

    becomes(led, "r-extra", "finished")
    queue.enqueue_dependents(Job.fetch("r-extra", connection=led.redis))
    assert [] == led.queue()

    becomes(led, first, "finished")
    queue.enqueue_dependents(Job.fetch(first, connection=led.redis))
    assert [waits] == led.queue()


@pytest.mark.parametrize(
    ("before", "job"),
    [
        ("skip", {"status": "started"}),  # of the former policy
        ("queue", {"status": "started", "last_heartbeat": LONG_AGO, "worker_name": "w"}),
        ("queue", {"status": "queued", "enqueued_at": LONG_AGO}),
    ],
)
def test_an_occurrence_waits_for_a_run_that_seems_dead_too(led: Namespace, before: str, job: dict[str, str]) -> None:
    [first] = fired(led, before)
    becomes(led, first, **job)

    word, second = advance(led, "queue")

    assert ("deferred", f"queue {first} {second}", {second}) == (word, chain(led), dependents(led, first))


def test_a_new_occurrence_removes_finished_runs_from_the_chain(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "finished")
    becomes(led, second, "started")

    _, third = advance(led, "queue")

    assert f"queue {second} {third}" == chain(led)


@pytest.mark.parametrize("status", ["canceled", None])
def test_withdrawing_a_deferred_run_removes_its_rq_dependencies(led: Namespace, status: str | None) -> None:
    first, second = fired(led, "queue", 2)
    if status is None:
        led.redis.delete(led.keys.rq.job(second))
    else:
        led.redis.hset(led.keys.rq.job(second), "status", status)

    _, third = advance(led, "queue")

    assert ({third}, f"queue {first} {third}") == (dependents(led, first), chain(led))
    assert 0 == led.redis.exists(f"{RQ}:job::{second}:dependencies")
    assert [third.encode()] == led.redis.zrange(f"{RQ}:deferred:default", 0, -1)


@pytest.mark.parametrize("what", ["cancelled", "expired", "runs"])
def test_a_run_in_the_middle_that_no_longer_waits_frees_a_place_in_a_full_chain(led: Namespace, what: str) -> None:
    first, second, third, fourth = fired(led, "queue", 4)
    becomes(led, first, "started")
    assert "overlap" == advance(led, "queue", limit=3)[0]
    if what == "cancelled":
        Job.fetch(third, connection=led.redis).cancel()
    elif what == "expired":
        led.redis.delete(led.keys.rq.job(third))
    else:
        becomes(led, third, "started")

    word, fifth = advance(led, "queue", limit=3)

    left = [first, second, *([third] if what == "runs" else []), fourth, fifth]
    assert ("deferred", "queue " + " ".join(left)) == (word, chain(led))
    assert "overlap" == advance(led, "queue", limit=3)[0]
    assert (led.redis.zscore(f"{RQ}:deferred:default", third), {fifth}) == (None, dependents(led, fourth))


@pytest.mark.parametrize(("limit", "word"), [(200, "deferred"), (99, "overlap")])
def test_advance_reads_only_the_ends_of_a_long_chain(led: Namespace, limit: int, word: str) -> None:
    first, *_ = fired(led, "queue", 100, limit=200)
    becomes(led, first, "started")
    row, before = due(led), chain(led)
    led.redis.config_resetstat()

    [found] = led.advance((row, int(row[2]), int(row[2]) + 1), overlap="queue", overlap_limit=limit)

    run = led.run("r", row[2])
    looks = led.redis.info("commandstats")["cmdstat_hmget"]["calls"]
    assert (word, f"{before} {run}" if word == "deferred" else before) == (found, chain(led))
    assert looks < 10


def test_a_chain_longer_than_luas_unpack_limit_is_counted(led: Namespace) -> None:
    runs = [f"r-{number}" for number in range(9000)]
    with led.redis.pipeline(transaction=False) as pipeline:
        for run in runs:
            pipeline.hset(led.keys.rq.job(run), "status", "deferred")
        pipeline.execute()
    led.redis.zadd(f"{RQ}:deferred:default", dict.fromkeys(runs, 1))
    led.redis.hset(led.keys.chains(), "r", "queue " + " ".join(runs))
    assert ("overlap", 9000) == (advance(led, "queue", limit=9000)[0], led.redis.zcard(f"{RQ}:deferred:default"))

    led.redis.delete(led.keys.rq.job(runs[4500]))
    assert ("deferred", "overlap") == (advance(led, "queue", limit=9000)[0], advance(led, "queue", limit=9000)[0])


def test_a_run_id_repeated_after_a_loss_is_deferred(led: Namespace) -> None:
    [first] = fired(led, "queue")
    row = due(led)
    again = led.run("r", row[2])
    led.redis.hset(led.keys.chains(), "r", f"queue {first} {again}")

    assert ["deferred"] == led.advance((row, int(row[2]), int(row[2]) + 1), overlap="queue")
    assert ({again}, f"queue {first} {again}") == (dependents(led, first), chain(led))
    assert led.redis.zscore(f"{RQ}:deferred:default", again) is not None


def test_a_deferred_run_with_the_front_flag_is_released_to_the_front(led: Namespace) -> None:
    put(led, flags="f")
    first, second = fired(led, "queue", 2)
    becomes(led, first, "finished")
    led.redis.rpush(f"{RQ}:queue:default", "other")

    Queue("default", connection=led.redis).enqueue_dependents(Job.fetch(first, connection=led.redis))

    assert [second, "other"] == led.queue()


def test_an_uncertain_run_is_deferred(led: Namespace) -> None:
    put(led)
    [first] = fired(led, "queue")
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms)

    word, second = advance(led, "queue")

    assert ("uncertain", "deferred", "1") == (word, led.job(second)["status"], led.job(second)["zs_uncertain"])
    assert {second} == dependents(led, first)


@pytest.mark.parametrize("what", ["deferred", "dependents", "dependencies", "chains"])
def test_a_key_of_another_type_quarantines_one_schedule_and_the_rest_go_on(led: Namespace, what: str) -> None:
    put(led)
    put(led, "s")
    [first] = fired(led, "queue")
    row, other = due(led), due(led, "s")
    key = {
        "deferred": f"{RQ}:deferred:default",
        "dependents": f"{RQ}:job:{first}:dependents",
        "dependencies": f"{RQ}:job::{led.run('r', row[2])}:dependencies",
        "chains": led.keys.chains(),
    }[what]
    led.redis.delete(key)
    led.redis.set(key, "text")

    rows = [(row, int(row[2]), led.now_ms + HOUR_MS)]
    assert ["quarantined"] == led.advance(*rows, overlap="queue")
    assert ["fired"] == led.advance((other, int(other[2]), led.now_ms + HOUR_MS), overlap="allow")
    reason = led.redis.hget(led.keys.quarantine(), "r").decode().split(" ", 3)[3]
    assert (f"wrong type at {key} (string)", b"text") == (reason, led.redis.get(key))
    assert 0 == led.redis.exists(led.keys.rq.job(led.run("r", row[2])))


@pytest.mark.parametrize("text", ["", "queue", "nonsense", "queue  r-1  ", "allow r-1"])
def test_a_chain_of_any_text_does_no_harm(led: Namespace, text: str) -> None:
    put(led)
    led.redis.hset(led.keys.chains(), "r", text)

    word, run = advance(led, "queue")

    assert ("fired", f"queue {run}") == (word, chain(led))


def test_a_queued_run_behind_the_last_deferred_run_counts_against_the_overlap_limit(led: Namespace) -> None:
    *_, last = fired(led, "queue", 3)
    becomes(led, last, "queued")

    assert ["overlap", "deferred"] == [advance(led, "queue", limit=limit)[0] for limit in (3, 4)]
