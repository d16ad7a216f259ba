"""advance.lua with overlap=queue: an occurrence whose earlier runs are open waits in the list of its schedule."""

import pytest
from rq import Queue
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.builders.progress import change_progress
from tests.lua.chained import LONG_AGO, chain, unblock, waiting
from tests.lua.overlapping import advance, becomes, due, fired, put, told
from tests.prefix import RQ


def test_a_waiting_run_is_a_deferred_job_in_no_registry_whose_deadline_counts(led: Namespace) -> None:
    put(led, template={"zs_expires": "120000"})
    first, second = fired(led, "queue", 2)

    job = Job.fetch(second, connection=led.redis)
    assert (JobStatus.DEFERRED, None, []) == (job.get_status(), job.enqueued_at, job.dependency_ids)
    assert job.created_at is not None
    assert ([first], [second], f"queue {first}") == (led.queue(), waiting(led), chain(led))
    assert [] == Queue("default", connection=led.redis).deferred_job_registry.get_job_ids()
    assert [] == led.redis.keys(f"{RQ}:job:*:depend*") + led.redis.keys(f"{RQ}:deferred:*")
    assert [first] == told(led)
    assert 0 < led.redis.pttl(led.keys.rq.job(second)) <= 60_001
    assert 0 < led.redis.pttl(led.keys.rq.job(first)) <= 60_000


def test_occurrences_wait_in_their_order_up_to_the_overlap_limit(led: Namespace) -> None:
    first, second, third = fired(led, "queue", 3)

    assert (f"queue {first}", [second, third]) == (chain(led), waiting(led))
    assert [second] == told(led)  # the run before it
    assert ["overlap", "deferred"] == [advance(led, "queue", limit=limit)[0] for limit in (3, 4)]


def test_an_occurrence_beyond_the_overlap_limit_is_skipped(led: Namespace) -> None:
    first, *_ = fired(led, "queue")
    becomes(led, first, "started")

    words = [advance(led, "queue", limit=2)[0] for _ in range(4)]

    assert ["deferred", "deferred", "overlap", "overlap"] == words
    assert (2, waiting(led)[-1]) == (len(waiting(led)), led.schedule("r")["last"])
    assert [waiting(led)[-1]] == told(led)


@pytest.mark.parametrize("status", ["queued", "scheduled", "rate_limited"])
def test_a_launched_run_that_has_not_started_counts_against_the_overlap_limit(led: Namespace, status: str) -> None:
    first, second, _ = fired(led, "queue", 3)
    becomes(led, first, "finished")
    unblock(led)
    becomes(led, second, status)

    assert ["overlap", "deferred"] == [advance(led, "queue", limit=limit)[0] for limit in (2, 3)]


def test_an_occurrence_also_waits_for_a_run_on_request(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "started")
    led.redis.hset(led.keys.rq.job("r-extra"), mapping={"status": "started", "origin": "default"})
    change_progress(led.redis, led.keys, "r", last="r-extra")

    _, third = advance(led, "queue")
    assert (f"queue {first} r-extra", [second, third]) == (chain(led), waiting(led))

    becomes(led, first, "finished")
    assert {} == unblock(led)
    becomes(led, "r-extra", "finished")
    assert {second: "r-extra finished"} == unblock(led)


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

    assert ("deferred", f"queue {first}", [second]) == (word, chain(led), waiting(led))


def test_an_occurrence_waits_for_runs_that_wait_although_no_run_before_them_is_open_any_more(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "finished")

    word, third = advance(led, "queue")

    assert ("deferred", f"queue {first}", [second, third]) == (word, chain(led), waiting(led))
    assert {second: f"{first} finished"} == unblock(led)


def test_an_occurrence_that_need_not_wait_removes_finished_runs_from_the_chain(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, first, "finished")
    unblock(led)
    becomes(led, second, "finished")

    word, third = advance(led, "queue")

    assert ("fired", f"queue {third}", []) == (word, chain(led), waiting(led))


@pytest.mark.parametrize("status", ["canceled", None])
def test_the_end_of_a_run_that_waited_is_not_the_reason_of_a_launch(led: Namespace, status: str | None) -> None:
    first, second = fired(led, "queue", 2)
    becomes(led, second, status)

    _, third = advance(led, "queue")
    becomes(led, first, "finished")

    assert {third: f"{first} finished"} == unblock(led)


@pytest.mark.parametrize("what", ["cancelled", "expired", "queued by hand"])
def test_a_run_in_the_middle_that_no_longer_waits_frees_a_place_in_a_full_list(led: Namespace, what: str) -> None:
    first, second, third, fourth = fired(led, "queue", 4)
    becomes(led, first, "started")
    assert "overlap" == advance(led, "queue", limit=3)[0]
    if what == "cancelled":
        led.redis.hset(led.keys.rq.job(third), "status", "canceled")
    elif what == "expired":
        led.redis.delete(led.keys.rq.job(third))
    else:
        led.redis.hset(led.keys.rq.job(third), "status", "queued")

    word, fifth = advance(led, "queue", limit=3)

    assert ("deferred", [second, fourth, fifth]) == (word, waiting(led))
    assert "overlap" == advance(led, "queue", limit=3)[0]


@pytest.mark.parametrize(("limit", "word"), [(200, "deferred"), (99, "overlap")])
def test_advance_reads_only_the_ends_of_a_long_list(led: Namespace, limit: int, word: str) -> None:
    first, *_ = fired(led, "queue", 100, limit=200)
    becomes(led, first, "started")
    row, before = due(led), waiting(led)
    led.redis.config_resetstat()

    [found] = led.advance((row, int(row[2]), int(row[2]) + 1), overlap="queue", overlap_limit=limit)

    asked = {name: row["calls"] for name, row in led.redis.info("commandstats").items()}
    assert (word, [*before, *([led.run("r", row[2])] if word == "deferred" else [])]) == (found, waiting(led))
    assert asked["cmdstat_hmget"] < 10
    assert asked["cmdstat_hget"] <= 5 + (99 if word == "overlap" else 0)  # a full list may have runs that are gone


def test_a_list_longer_than_luas_unpack_limit_is_counted(led: Namespace) -> None:
    runs = [f"r-{number}" for number in range(9000)]
    with led.redis.pipeline(transaction=False) as pipeline:
        for run in runs:
            pipeline.hset(led.keys.rq.job(run), "status", "deferred")
        pipeline.execute()
    led.redis.rpush(led.keys.waiting("r"), *runs)
    led.redis.hset(led.keys.chains(), "r", "queue")
    assert ("overlap", runs) == (advance(led, "queue", limit=9000)[0], waiting(led))

    led.redis.delete(led.keys.rq.job(runs[4500]))
    assert ("deferred", "overlap") == (advance(led, "queue", limit=9000)[0], advance(led, "queue", limit=9000)[0])
    assert (9000, False) == (led.redis.llen(led.keys.waiting("r")), runs[4500] in waiting(led))


@pytest.mark.parametrize("where", ["chain", "list"])
def test_a_run_id_that_repeats_after_a_loss_waits_and_is_launched_once(led: Namespace, where: str) -> None:
    [first] = fired(led, "queue")
    row = due(led)
    again = led.run("r", row[2])
    if where == "chain":
        led.redis.hset(led.keys.chains(), "r", f"queue {first} {again}")
    else:
        led.redis.rpush(led.keys.waiting("r"), again)

    assert ["deferred"] == led.advance((row, int(row[2]), int(row[2]) + 1), overlap="queue")
    assert (f"queue {first}", "deferred") == (chain(led), led.job(again)["status"])

    becomes(led, first, "finished")
    assert [again] == [*unblock(led), *unblock(led)]
    becomes(led, again, "finished")
    assert ({}, None, []) == (unblock(led), chain(led), waiting(led))


def test_a_waiting_run_with_the_front_flag_is_launched_to_the_front(led: Namespace) -> None:
    put(led, policy="f", template={"zs": "1fq"})
    first, _second = fired(led, "queue", 2)
    becomes(led, first, "finished")
    led.redis.rpush(f"{RQ}:queue:default", "other")

    [launched] = unblock(led)

    assert [launched, "other"] == led.queue()


def test_an_uncertain_run_waits_too(led: Namespace) -> None:
    put(led)
    [first] = fired(led, "queue")
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms)

    word, second = advance(led, "queue")

    assert ("uncertain", "deferred", "1") == (word, led.job(second)["status"], led.job(second)["zs_uncertain"])
    assert (f"queue {first}", [second]) == (chain(led), waiting(led))


def test_a_list_of_another_type_quarantines_one_schedule_and_the_rest_continue(led: Namespace) -> None:
    put(led)
    put(led, "s")
    fired(led, "queue")
    row, other = due(led), due(led, "s")
    key = led.keys.waiting("r")
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


def test_a_failed_run_that_is_queued_again_runs_beside_its_successor_and_later_runs_wait_for_the_successor(
    led: Namespace,
) -> None:
    first, second, third = fired(led, "queue", 3)
    led.redis.hset(led.keys.rq.job(first), mapping={"data": b"", "status": "failed"})
    led.redis.lrem(f"{RQ}:queue:default", 1, first)
    led.redis.zadd(f"{RQ}:failed:default", {first: 1})
    unblock(led)
    becomes(led, second, "started")

    FailedJobRegistry(connection=led.redis).requeue(first)

    assert ([first], "started", [third]) == (led.queue(), led.job(second)["status"], waiting(led))
    assert {} == unblock(led)
    becomes(led, second, "finished")
    assert {third: f"{second} finished"} == unblock(led)
    assert [first, third] == led.queue()
