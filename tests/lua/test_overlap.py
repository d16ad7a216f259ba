"""advance.lua: the outcome of an occurrence whose previous runs are open. overlap=queue: test_overlap_queue."""

import json
from collections.abc import Callable

import pytest

from tests.builders.namespaces import Namespace
from tests.lua.chained import LONG_AGO, chain, ends, page, unblock, waiting
from tests.lua.overlapping import advance, becomes, due, fired, put, told
from tests.lua.test_lost import PACKED
from tests.prefix import RQ
from zsched.core.runs.job import rq_time

OPEN = ("queued", "started", "deferred", "scheduled")

OVER = ("finished", "failed", "stopped", "canceled", None)


@pytest.mark.parametrize("status", [*OPEN, *OVER])
@pytest.mark.parametrize("mode", ["skip", "allow", "queue", "cancel_previous"])
def test_the_policy_decides_the_outcome_while_an_earlier_run_is_open(
    led: Namespace, mode: str, status: str | None
) -> None:
    [first] = fired(led, mode)
    becomes(led, first, status, worker_name="w")

    word, run = advance(led, mode)

    blocked = {"skip": "overlap", "queue": "deferred"}.get(mode, "fired")
    assert (blocked if status in OPEN else "fired") == word
    assert [first if word in ("overlap", "deferred") else ""] == told(led)
    assert (run in led.queue()) == (word == "fired")
    assert (run in waiting(led)) == (word == "deferred")
    assert ("" if mode in ("skip", "allow") else mode) == (chain(led) or "").partition(" ")[0]


@pytest.mark.parametrize("mode", ["skip", "queue", "cancel_previous"])
@pytest.mark.parametrize("status", ["queued", "started"])
def test_a_run_that_was_over_before_redis_went_back_delays_no_occurrence(
    led: Namespace, mode: str, status: str
) -> None:
    [first] = fired(led, mode)
    becomes(led, first, status, worker_name="w", zs_over="1")
    led.redis.delete(led.keys.chains())

    assert "fired" == advance(led, mode)[0]


@pytest.mark.parametrize("mode", ["skip", "queue", "cancel_previous"])
def test_a_forged_job_of_a_coming_run_does_not_delay_the_occurrences_after_it(led: Namespace, mode: str) -> None:
    [first] = fired(led, mode)
    becomes(led, first, "finished")
    led.redis.hset(led.keys.rq.job(led.run("r", due(led)[2])), mapping={"status": "started", "worker_name": "w"})

    words = [advance(led, mode)[0] for _ in range(2)]

    assert ["duplicate", "fired"] == words


def skips(led: Namespace) -> float | None:
    return led.redis.zscore(led.keys.blocked(), "r")


def test_skipped_occurrences_in_a_row_are_counted_until_one_is_pushed(led: Namespace) -> None:
    [first] = fired(led, "skip")
    becomes(led, first, "started")
    assert skips(led) is None

    assert ["overlap"] * 3 == [advance(led, "skip")[0] for _ in range(3)]
    assert 3 == skips(led)

    becomes(led, first, "finished")
    assert "fired" == advance(led, "skip")[0]
    assert skips(led) is None


@pytest.mark.parametrize("status", ["queued", "scheduled", "rate_limited"])
def test_cancel_previous_fires_and_the_leaders_next_look_withdraws_the_run_before(led: Namespace, status: str) -> None:
    put(led, template={"zs_expires": "3600000"})
    [first] = fired(led, "cancel_previous")
    becomes(led, first, status, rate_limit_key="mail")
    led.redis.zadd(f"{RQ}:rl:mail:rate_limited", {first: 1})

    word, second = advance(led, "cancel_previous")
    assert ("fired", f"cancel_previous {first} {second}") == (word, chain(led))
    unblock(led)

    [row] = ends(led)
    assert ([second], f"cancel_previous {second}") == (led.queue(), chain(led))
    assert row.startswith(f'{first} cancelled {{"ended":')
    assert "canceled" == led.job(first)["status"]
    assert (status == "rate_limited") != led.redis.exists(f"{RQ}:rl:mail:rate_limited")
    assert [] == led.redis.zrange(f"{RQ}:scheduled:default", 0, -1)
    assert [second.encode()] == led.redis.zrange(led.keys.deadlines(), 0, -1)
    assert 0 < led.redis.ttl(led.keys.rq.job(first)) <= 600


def test_cancel_previous_withdraws_runs_that_waited_by_a_former_policy(led: Namespace) -> None:
    first, second, third = fired(led, "queue", 3)
    becomes(led, first, "started", worker_name="w")

    word, fourth = advance(led, "cancel_previous")
    with led.heard(f"{RQ}:pubsub:w") as heard:
        assert ("0", True, {}) == page(led)

    assert ("fired", f"cancel_previous {first} {fourth}", []) == (word, chain(led), waiting(led))
    assert [second, third] == [row.split(" ")[0] for row in ends(led)]
    assert ["canceled", "canceled", "started"] == [led.job(run)["status"] for run in (second, third, first)]
    assert [first] == [json.loads(message)["job_id"] for message in heard]


def test_cancel_previous_stops_a_running_run_and_keeps_it_in_the_chain(led: Namespace) -> None:
    [first] = fired(led, "cancel_previous")
    becomes(led, first, "started", worker_name="w")

    with led.heard(f"{RQ}:pubsub:w") as heard:
        word, second = advance(led, "cancel_previous")
        unblock(led)

    assert [{"command": "stop-job", "job_id": first}] == [json.loads(message) for message in heard]
    assert ("fired", [second], f"cancel_previous {first} {second}", []) == (word, led.queue(), chain(led), ends(led))


def test_cancel_previous_keeps_a_run_that_a_worker_has_just_taken(led: Namespace) -> None:
    [first] = fired(led, "cancel_previous")
    led.redis.lpop(f"{RQ}:queue:default")

    _, second = advance(led, "cancel_previous")
    unblock(led)

    assert ("queued", f"cancel_previous {first} {second}", []) == (led.job(first)["status"], chain(led), ends(led))


def test_cancel_previous_in_a_long_queue_deletes_only_the_jobs_data(led: Namespace) -> None:
    [first] = fired(led, "cancel_previous")
    led.redis.lpush(f"{RQ}:queue:default", *(f"x{number}" for number in range(2001)))

    advance(led, "cancel_previous")
    unblock(led)

    job = led.job(first)
    assert ("canceled", "1", None) == (job["status"], job["zs_gone"], job.get("data"))
    assert (first, 1) == (led.queue()[2001], len(ends(led)))
    assert 0 < led.redis.ttl(led.keys.rq.job(first)) <= 600


def test_a_chain_of_queued_runs_remains_after_a_change_to_allow(led: Namespace) -> None:
    first, second = fired(led, "queue", 2)

    word, third = advance(led, "allow")
    assert ("fired", [first, third], f"queue {first}", [second]) == (word, led.queue(), chain(led), waiting(led))

    becomes(led, first, "finished")
    assert {second: f"{first} finished"} == unblock(led)


def test_skip_waits_for_a_run_of_a_dead_worker_that_will_be_retried(led: Namespace) -> None:
    [first] = fired(led, "skip")
    becomes(led, first, "started", last_heartbeat=LONG_AGO, retries_left="1")
    assert ("overlap", [first]) == (advance(led, "skip")[0], told(led))

    becomes(led, first, "started", last_heartbeat=LONG_AGO, zs_on_lost="fail")

    assert ("fired", ["previous_worker_silent"]) == (advance(led, "skip")[0], told(led))


# -- workers that died -------------------------------------------------------------------------------


HOUR_S = 3600


def skip(led: Namespace, run: str) -> bool:
    """Return whether ``overlap="skip"`` ignores the run."""
    return advance(led, "skip")[0] == "fired"


def release(led: Namespace, run: str) -> bool:
    """Return whether ``overlap="queue"`` releases the next run."""
    waits = advance(led, "queue")[1]
    return unblock(led) == {waits: f"the worker w of {run} died"}


def lost(led: Namespace, run: str) -> bool:
    """Return True if ``lost`` ends the run as lost."""
    heartbeat = led.job(run).get("last_heartbeat", "")
    dead = ["r", run, "started", heartbeat, "", "end", "lost", "{}", PACKED]
    seen = {"seen_entry": led.last.id, "seen_t": led.last.t}
    return led.call("lost", dead, ended_ms=1, **seen)[4] == [run]


JUDGES = [skip, release, lost]


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("silent_s", "execution", "is_dead"),
    [
        (1, "lapsed", False),
        (61.9, "lapsed", False),  # a worker that lost its connection, or the memory of Redis, is back by then
        (62.1, "lapsed", True),
        (62.1, None, True),  # RQ forgets the list of executions a minute later
        (62.1, "alive", False),
        (HOUR_S, "alive", False),  # by a clock that is behind; or of a SimpleWorker, which beats once
        (-HOUR_S, "lapsed", False),  # by a clock that is ahead: it is found as much later
        (None, "lapsed", False),  # no worker of RQ's writes that
    ],
)
def test_overlap_chains_and_lost_runs_agree_on_whether_a_worker_is_dead(
    led: Namespace,
    judge: Callable[[Namespace, str], bool],
    silent_s: float | None,
    execution: str | None,
    is_dead: bool,
) -> None:
    [run] = fired(led, "skip")
    heartbeat = {} if silent_s is None else {"last_heartbeat": rq_time(led.now_ms - int(silent_s * 1000))}
    becomes(led, run, "started", worker_name="w", **heartbeat)
    if execution is not None:
        led.redis.zadd(f"{RQ}:executions:{run}", {"x": 1})
    if execution == "alive":
        led.redis.set(f"{RQ}:execution:{run}:x", "")

    assert is_dead == judge(led, run)


@pytest.mark.parametrize("status", ["queued", "deferred", "scheduled"])
def test_a_run_that_has_not_started_has_no_dead_worker(led: Namespace, status: str) -> None:
    [run] = fired(led, "skip")
    becomes(led, run, status, worker_name="w", last_heartbeat=rq_time(led.now_ms - HOUR_S * 1000))

    assert [False, False, False] == [judge(led, run) for judge in (lost, release, skip)]
