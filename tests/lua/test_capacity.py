"""fire.lua with limits of queues: the number, times and order of fired runs."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.breadth import some
from tests.builders.namespaces import HOUR_MS, Namespace
from tests.lua.limited import EMAIL, ids, put_due, put_many
from tests.prefix import RQ
from zsched.core.clock import LAST_MS


def drained(ns: Namespace, until_ms: int) -> Iterator[int]:
    """Fire like a daemon, sleeping until the returned time; yield the number of runs of each call, until *until_ms*."""
    while ns.now_ms < until_ms:
        fired = ns.fire()
        yield fired.runs
        assert fired.next_ms == "" or int(fired.next_ms) > ns.now_ms or fired.runs or fired.looked
        if fired.next_ms == "":
            return
        ns.pass_time(max(min(int(fired.next_ms), until_ms) - ns.now_ms, 0))


def test_a_limit_fires_its_burst_and_throttles_the_rest(led: Namespace) -> None:
    led.limit(email=100)
    put_due(led, *"abcdefg")

    fired = led.fire()

    assert (5, 7, led.now_ms + 10) == (fired.runs, fired.looked, fired.next_ms)
    assert list("abcde") == ids(led.queue("email"))
    assert {"f": f"normal:email {led.now_ms - 995}", "g": f"normal:email {led.now_ms - 994}"} == led.places()
    assert "scheduled" == led.job(f"f-{led.now_ms - 995}")["status"]


def test_throttling_is_not_logged(led: Namespace) -> None:
    led.limit(email=0.5)
    put_due(led, "a", "b")
    led.fire()
    put_due(led, "c")
    entries = led.entries()

    fired = led.fire()

    assert (0, 1) == (fired.runs, fired.looked)
    assert entries == led.entries()
    assert {"b", "c"} == led.places().keys()


def test_a_throttled_run_fires_at_the_returned_time_and_not_before(led: Namespace) -> None:
    led.limit(email=2)
    put_due(led, "a", "b")
    first = led.fire()

    led.pass_time(499)
    early = led.fire()
    led.pass_time(1)
    then = led.fire()

    assert (1, led.now_ms) == (first.runs, first.next_ms)
    assert (0, led.now_ms) == (early.runs, early.next_ms)
    assert (1, "") == (then.runs, then.next_ms)
    assert {} == led.places()
    assert [] == led.throttled()


@pytest.mark.parametrize(
    ("per_second", "count", "takes_ms"),
    [(0.5, 4, 6000), (3, 10, 3000), (19, 60, 3106), (100, 200, 1950), (1000, 400, 350), (30_000, 4000, 84)],
)
def test_runs_exceed_a_limit_by_at_most_five_percent(
    led: Namespace, per_second: float, count: int, takes_ms: int
) -> None:
    led.limit(email=per_second)
    put_many(led, "s", count, age_ms=10_000)
    begin_ms, pushes = led.now_ms, list[int]()

    for runs in drained(led, begin_ms + 60_000):
        pushes += [led.now_ms] * runs

    assert count == len(pushes) == len(set(led.queue("email")))
    assert takes_ms * 0.98 - 1 <= pushes[-1] - begin_ms <= takes_ms * 1.03 + 10  # a wake-up
    most = per_second + max(per_second / 20 - 1, 0)
    for n, at_ms in enumerate(pushes):
        assert sum(at_ms <= other < at_ms + 1000 for other in pushes[n:]) <= max(-(-most // 1), 1)
    steps = [after - before for before, after in pairwise(sorted(set(pushes)))]
    assert min(steps) >= min(1000 / per_second, 10) - 1  # nobody is woken more than a hundred times a second


def test_an_idle_queue_gets_no_larger_burst_than_a_new_one(led: Namespace) -> None:
    led.limit(email=100)
    put_many(led, "s", 5)
    led.fire()
    led.pass_time(HOUR_MS)
    put_many(led, "t", 20)

    assert 5 == led.fire().runs


def test_two_queues_have_independent_limits_and_runs_of_others_pass_throttled_runs_in_the_lane(led: Namespace) -> None:
    led.limit(email=1, sms=1)
    put_many(led, "s", 60, age_ms=5000)
    put_due(led, "c", "d", origin="sms", lane="high")
    put_due(led, "other", origin="default", age_ms=10)

    assert 3 == led.fire().runs

    assert (["s0000"], ["c"], ["other"]) == tuple(ids(led.queue(name)) for name in ("email", "sms", "default"))
    assert ["high:sms", "normal:email"] == led.throttled()


def test_throttled_lanes_fire_high_before_normal_before_low_and_each_by_due_time(led: Namespace) -> None:
    led.limit(email=1)
    put_due(led, "l1", "l2", lane="low", age_ms=5000)
    put_due(led, "n1", "n2", "n3", age_ms=4000)
    put_due(led, "h1", "h2", lane="high", age_ms=3000)

    for _ in drained(led, led.now_ms + 3500):
        put_due(led, "h3", lane="high", age_ms=1) if len(led.queue("email")) == 3 else None

    assert ["h1", "h2", "n1", "h3"] == ids(led.queue("email"))
    assert 0 < len([run for run in drained(led, led.now_ms + 20_000) if run])
    assert ["h1", "h2", "n1", "h3", "n2", "n3", "l1", "l2"] == ids(led.queue("email"))


def test_a_later_run_does_not_overtake_throttled_runs(led: Namespace) -> None:
    led.limit(email=1)
    put_due(led, "a", "b", "c")
    led.fire()
    led.pass_time(1000)
    put_due(led, "d", age_ms=0)

    led.fire()

    assert ["a", "b"] == ids(led.queue("email"))


def test_a_full_batch_is_continued_at_once(led: Namespace) -> None:
    led.limit(email=1000)
    put_many(led, "s", 30)
    led.fire(limit=10)

    fired = led.fire(limit=10)

    assert (10, 10, led.now_ms) == (fired.looked, fired.runs, fired.next_ms)


def test_more_runs_than_one_command_takes_can_be_throttled(led: Namespace) -> None:
    led.limit(email=1)
    put_many(led, "s", 5000)

    fired = led.fire(limit=5000)

    assert (1, 5000) == (fired.runs, fired.looked)
    assert 4999 == led.redis.zcard(f"{led.keys.prefix}due:normal:email")
    assert 0 == led.redis.zcard(led.keys.due_normal())


def test_an_expired_cancelled_or_broken_run_uses_no_token(led: Namespace) -> None:
    led.limit(email=1)
    due_ms = led.now_ms - 1000
    led.put(("late", due_ms), ("later", due_ms + 1), allow_past=1, fields=EMAIL | {"zs": "1e", "zs_expires": "5"})
    put_due(led, "cancelled", "broken", "good")
    led.redis.hset(f"{RQ}:job:cancelled-{due_ms}", "status", "canceled")
    led.redis.delete(f"{RQ}:job:broken-{due_ms + 1}")

    fired = led.fire()

    assert (1, 2, 1, 1) == (fired.runs, len(fired.expired), len(fired.cancelled), len(fired.quarantined))
    assert ["good"] == ids(led.queue("email"))


def test_many_expired_runs_do_not_block_a_throttled_run(led: Namespace) -> None:
    led.limit(email=1)
    put_due(led, "first", age_ms=9000)
    rows = [(f"s{n:03}", led.now_ms - 1000 + n) for n in range(90)]
    led.put(*rows, allow_past=1, fields=EMAIL | {"zs": "1e", "zs_expires": "1500"})
    put_due(led, "last", age_ms=1)
    led.fire()
    led.pass_time(2000)

    fired = led.fire()

    assert (1, 90, "") == (fired.runs, len(fired.expired), fired.next_ms)
    assert ["first", "last"] == ids(led.queue("email"))


def test_the_flags_of_throttled_runs_are_respected(led: Namespace) -> None:
    led.limit(email=1)
    put_due(led, "a")
    put_due(led, "b", zs="1f", age_ms=500)
    put_due(led, "c", zs="1s", age_ms=400)
    put_due(led, "d", age_ms=300)
    led.fire()
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms)
    led.pass_time(1000)

    first = led.fire()
    led.pass_time(1000)
    then = led.fire()

    assert (1, 0) == (first.uncertain, len(first.skipped))
    assert ["b", "a"] == ids(led.queue("email"))[:2]
    assert (["c"], 1) == (ids(then.skipped), then.uncertain)


def test_a_clock_that_was_set_back_starves_no_queue_and_fires_no_throttled_run_early(led: Namespace) -> None:
    led.limit(email=10)
    put_due(led, "a", "b")
    led.fire()
    led.pass_time(-HOUR_MS)
    early = led.fire()
    assert (0, led.now_ms + HOUR_MS - 999) == (early.runs, early.next_ms)
    put_due(led, "c", "d")

    fired = led.fire()
    assert (0, led.now_ms + 100) == (fired.runs, fired.next_ms)  # as if it had just got its most
    led.pass_time(100)
    then = led.fire()

    assert ["a", "c"] == ids(led.queue("email"))
    assert {"b", "d"} == led.places().keys()
    assert then.next_ms == led.now_ms + 100


@pytest.mark.parametrize("seed", some(range(4), 0, 1))
def test_runs_of_a_second_do_not_exceed_the_limit_under_random_load(led: Namespace, seed: int) -> None:
    dice, pushes, made = random.Random(seed), list[int](), 0
    per_second = dice.choice([3, 40, 250])
    led.limit(email=per_second)
    begin_ms = led.now_ms

    while led.now_ms < begin_ms + 3000:
        if dice.random() < 0.4:
            count = dice.randint(1, 60)
            put_due(led, *(f"s{made + n}" for n in range(count)), lane=dice.choice(["high", "normal", "low"]), age_ms=0)
            made += count
        fired = led.fire(limit=dice.choice([7, 100, 1000]))
        pushes += [led.now_ms] * fired.runs
        led.pass_time(dice.choice([0, 1, 3, 40]))

    assert made == len(pushes) + len(led.places())
    assert len(pushes) >= min(made, per_second * 2)
    most = -(-(per_second + max(per_second / 20 - 1, 0)) // 1)
    assert all(sum(at_ms <= other < at_ms + 1000 for other in pushes) <= most for at_ms in set(pushes))
    assert LAST_MS > led.now_ms
