"""free_slots.lua, and the leader's chore that calls it: slots of rate limits that no job needs any more."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.builders.namespaces import TERM, Namespace
from tests.lua.test_native import slots
from tests.prefix import RQ
from zsched.core.clock import ManualClock
from zsched.daemon.upkeep import SlotKeeper

ALLOWED, WAITING = f"{RQ}:rl:mail:allowed", f"{RQ}:rl:mail:rate_limited"


def job(ns: Namespace, id: str, status: str, of: str = "", key: str = "mail") -> None:
    """Write a job with *status*; *of* is its place in the limit."""
    fields = {"status": status, "origin": "default", "data": "call", "rate_limit_key": key}
    ns.redis.hset(ns.keys.rq.job(id), mapping=fields)
    if of:
        ns.redis.sadd(f"{RQ}:rl-keys", key)
        ns.redis.hset(f"{RQ}:rl:{key}", "concurrency", 1)
        ns.redis.zadd(f"{RQ}:rl:{key}:{of}", {id: 1})


def free(ns: Namespace, key: str = "mail", passed: int = 0, most: int = 100) -> list[int]:
    """Return the number of freed slots, and the number of checked jobs, -1 if those were all."""
    return ns.call("free_slots", [key, passed], most=most)


@pytest.fixture
def keeper(led: Namespace) -> Iterator[SlotKeeper]:
    with closing(led.link.open()) as wire:
        yield SlotKeeper(led.keys, ManualClock()).over(wire)


ENDED = ("gone", "finished", "failed", "canceled", "stopped", "scheduled", "deferred", "rate_limited", "odd", "")


@pytest.mark.parametrize("status", [*ENDED, "queued", "started"])
def test_a_slot_goes_to_the_longest_waiting_job_unless_its_own_is_queued_or_runs(led: Namespace, status: str) -> None:
    job(led, "over", status, "allowed")
    if status == "gone":
        led.redis.delete(led.keys.rq.job("over"))
    job(led, "next", "rate_limited", "rate_limited")
    keeps = status not in ENDED

    assert [int(not keeps), -1] == free(led)

    assert (((["over"], ["next"]), []) if keeps else ((["next"], []), ["next"])) == (slots(led), led.queue())
    assert keeps or ("queued", True) == (led.job("next")["status"], "enqueued_at" in led.job("next"))
    assert [] == led.entries()


@pytest.mark.parametrize(("lapses_in_s", "keeps"), [(60, True), (-60, False)])
def test_a_cancelled_job_keeps_its_slot_while_its_execution_continues(
    led: Namespace, lapses_in_s: int, keeps: bool
) -> None:
    job(led, "works", "canceled", "allowed")
    led.redis.zadd(f"{RQ}:executions:works", {"x": led.now_ms // 1000 + lapses_in_s})

    free(led)

    assert keeps == (slots(led)[0] == ["works"])


def test_an_empty_slot_goes_to_a_waiting_job(led: Namespace) -> None:
    job(led, "next", "rate_limited", "rate_limited")

    assert ([0, -1], ["next"]) == (free(led), led.queue())


def test_free_slots_checks_all_jobs_in_parts(led: Namespace) -> None:
    for n in range(5):
        job(led, f"j{n}", "finished" if n in (0, 3) else "started", "allowed")

    first = free(led, most=2)
    second = free(led, passed=first[1], most=2)
    third = free(led, passed=second[1], most=2)

    assert [[1, 1], [1, 2], [0, -1]] == [first, second, third]
    assert ["j1", "j2", "j4"] == slots(led)[0]


@pytest.mark.parametrize("key", [f"{RQ}:rl:mail", ALLOWED, WAITING, f"{RQ}:job:over", f"{RQ}:executions:over"])
def test_a_key_of_a_wrong_type_is_left_alone(led: Namespace, key: str) -> None:
    job(led, "over", "finished", "allowed")
    led.redis.delete(key)
    led.redis.set(key, "x")

    free(led)

    assert b"x" == led.redis.get(key)
    assert [] == led.queue()


@pytest.mark.parametrize("most", ["", "0", "many", "-1"])
def test_a_limit_without_a_number_of_slots_is_left_alone(led: Namespace, most: str) -> None:
    job(led, "over", "finished", "allowed")
    led.redis.hset(f"{RQ}:rl:mail", "concurrency", most)

    assert ([0, -1], ["over"]) == (free(led), slots(led)[0])


def test_the_chore_checks_all_limits_in_parts(led: Namespace, keeper: SlotKeeper) -> None:
    for n in range(45):
        job(led, f"j{n}", "finished", "allowed", key=f"k{n}")

    steps = [keeper.step(TERM) for _ in range(3)]

    assert [True, True, False] == steps
    assert [] == led.redis.keys(f"{RQ}:rl:*:allowed")
    assert 1000 <= keeper.every_ms < 5000


def test_the_chore_checks_all_jobs_of_a_large_limit(led: Namespace, keeper: SlotKeeper) -> None:
    for n in range(250):
        job(led, f"j{n:03}", "started" if n < 200 else "finished", "allowed")

    steps = [keeper.step(TERM) for _ in range(3)]

    assert ([True, True, False], 200) == (steps, len(slots(led)[0]))


@pytest.mark.parametrize("kind", ["none", "string"])
def test_the_chore_does_nothing_without_a_set_of_limits(led: Namespace, keeper: SlotKeeper, kind: str) -> None:
    if kind == "string":
        led.redis.set(f"{RQ}:rl-keys", "x")

    assert not keeper.step(TERM)
    assert 5000 <= keeper.every_ms
