"""fire.lua with limits of queues: the number, times and order of fired runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.lua.ground import HOUR_MS, Ground
from tests.lua.limited import EMAIL, ids, now_ms, pass_on, put_due, put_many
from tests.prefix import RQ
from zsched.core.clock import LAST_MS


def drained(ground: Ground, until_ms: int) -> Iterator[int]:
    """Fire like a daemon, sleeping until the returned time; yield the number of runs of each call, until *until_ms*."""
    while now_ms(ground) < until_ms:
        fired = ground.fire()
        yield fired.runs
        assert fired.next_ms == "" or int(fired.next_ms) > now_ms(ground) or fired.runs or fired.looked
        if fired.next_ms == "":
            return
        pass_on(ground, max(min(int(fired.next_ms), until_ms) - now_ms(ground), 0))


# -- how many go, and when ----------------------------------------------------------------------------


def test_a_limit_fires_its_burst_and_throttles_the_rest(still: Ground) -> None:
    still.limit(email=100)
    put_due(still, *"abcdefg")

    fired = still.fire()

    assert (5, 7, now_ms(still) + 10) == (fired.runs, fired.looked, fired.next_ms)
    assert list("abcde") == ids(still.queue("email"))
    assert {"f": f"normal:email {now_ms(still) - 995}", "g": f"normal:email {now_ms(still) - 994}"} == still.places()
    assert "scheduled" == still.job(f"f-{now_ms(still) - 995}")["status"]


def test_throttling_is_not_logged(still: Ground) -> None:
    still.limit(email=0.5)
    put_due(still, "a", "b")
    still.fire()
    put_due(still, "c")
    entries = still.entries()

    fired = still.fire()

    assert (0, 1) == (fired.runs, fired.looked)
    assert entries == still.entries()
    assert {"b", "c"} == still.places().keys()


def test_a_throttled_run_fires_at_the_returned_time_and_not_before(still: Ground) -> None:
    still.limit(email=2)
    put_due(still, "a", "b")
    first = still.fire()

    pass_on(still, 499)
    early = still.fire()
    pass_on(still, 1)
    then = still.fire()

    assert (1, now_ms(still)) == (first.runs, first.next_ms)
    assert (0, now_ms(still)) == (early.runs, early.next_ms)
    assert (1, "") == (then.runs, then.next_ms)
    assert {} == still.places()
    assert [] == still.throttled()


@pytest.mark.parametrize(
    ("per_second", "count", "takes_ms"),
    [(0.5, 4, 6000), (3, 10, 3000), (19, 60, 3106), (100, 200, 1950), (1000, 400, 350), (30_000, 4000, 84)],
)
def test_runs_of_a_second_exceed_the_limit_by_at_most_five_percent(
    still: Ground, per_second: float, count: int, takes_ms: int
) -> None:
    still.limit(email=per_second)
    put_many(still, "s", count, age_ms=10_000)
    begin_ms, pushes = now_ms(still), list[int]()

    for runs in drained(still, begin_ms + 60_000):
        pushes += [now_ms(still)] * runs

    assert count == len(pushes) == len(set(still.queue("email")))
    assert takes_ms * 0.98 - 1 <= pushes[-1] - begin_ms <= takes_ms * 1.03 + 10  # a wake-up
    most = per_second + max(per_second / 20 - 1, 0)
    for n, at_ms in enumerate(pushes):
        assert sum(at_ms <= other < at_ms + 1000 for other in pushes[n:]) <= max(-(-most // 1), 1)
    steps = [after - before for before, after in pairwise(sorted(set(pushes)))]
    assert min(steps) >= min(1000 / per_second, 10) - 1  # nobody is woken more than a hundred times a second


def test_an_idle_queue_gets_no_larger_burst_than_a_new_one(still: Ground) -> None:
    still.limit(email=100)
    put_many(still, "s", 5)
    still.fire()
    pass_on(still, HOUR_MS)
    put_many(still, "t", 20)

    assert 5 == still.fire().runs


def test_runs_of_other_queues_pass_throttled_runs_in_the_lane(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 60, age_ms=5000)
    put_due(still, "other", origin="default", age_ms=10)

    fired = still.fire()

    assert 2 == fired.runs
    assert ["other"] == ids(still.queue())


def test_a_limit_of_another_queue_changes_nothing(still: Ground) -> None:
    still.limit(sms=1)
    put_due(still, "a", "b", "c")

    fired = still.fire()

    assert (3, "") == (fired.runs, fired.next_ms)
    assert {} == still.places()


def test_two_queues_have_independent_limits(still: Ground) -> None:
    still.limit(email=1, sms=1)
    put_due(still, "a", "b")
    put_due(still, "c", "d", origin="sms", lane="high")

    assert 2 == still.fire().runs

    assert (["a"], ["c"]) == (ids(still.queue("email")), ids(still.queue("sms")))
    assert ["high:sms", "normal:email"] == still.throttled()


def test_throttled_lanes_fire_high_before_normal_before_low_and_each_by_due_time(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "l1", "l2", lane="low", age_ms=5000)
    put_due(still, "n1", "n2", "n3", age_ms=4000)
    put_due(still, "h1", "h2", lane="high", age_ms=3000)

    for _ in drained(still, now_ms(still) + 3500):
        put_due(still, "h3", lane="high", age_ms=1) if len(still.queue("email")) == 3 else None

    assert ["h1", "h2", "n1", "h3"] == ids(still.queue("email"))
    assert 0 < len([run for run in drained(still, now_ms(still) + 20_000) if run])
    assert ["h1", "h2", "n1", "h3", "n2", "n3", "l1", "l2"] == ids(still.queue("email"))


def test_a_later_run_does_not_overtake_throttled_runs(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a", "b", "c")
    still.fire()
    pass_on(still, 1000)
    put_due(still, "d", age_ms=0)

    still.fire()

    assert ["a", "b"] == ids(still.queue("email"))


def test_a_full_batch_is_continued_at_once(still: Ground) -> None:
    still.limit(email=1000)
    put_many(still, "s", 30)
    still.fire(limit=10)

    fired = still.fire(limit=10)

    assert (10, 10, now_ms(still)) == (fired.looked, fired.runs, fired.next_ms)


def test_more_runs_than_one_command_takes_can_be_throttled(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 5000)

    fired = still.fire(limit=5000)

    assert (1, 5000) == (fired.runs, fired.looked)
    assert 4999 == still.redis.zcard(f"{still.keys.prefix}due:normal:email")
    assert 0 == still.redis.zcard(still.keys.due_normal())


def test_an_expired_cancelled_or_broken_run_uses_no_token(still: Ground) -> None:
    still.limit(email=1)
    due_ms = now_ms(still) - 1000
    still.put(("late", due_ms), ("later", due_ms + 1), allow_past=1, fields=EMAIL | {"zs": "1e", "zs_expires": "5"})
    put_due(still, "cancelled", "broken", "good")
    still.redis.hset(f"{RQ}:job:cancelled-{due_ms}", "status", "canceled")
    still.redis.delete(f"{RQ}:job:broken-{due_ms + 1}")

    fired = still.fire()

    assert (1, 2, 1, 1) == (fired.runs, len(fired.expired), len(fired.cancelled), len(fired.quarantined))
    assert ["good"] == ids(still.queue("email"))


def test_many_expired_runs_do_not_block_a_throttled_run(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "first", age_ms=9000)
    rows = [(f"s{n:03}", now_ms(still) - 1000 + n) for n in range(90)]
    still.put(*rows, allow_past=1, fields=EMAIL | {"zs": "1e", "zs_expires": "1500"})
    put_due(still, "last", age_ms=1)
    still.fire()
    pass_on(still, 2000)

    fired = still.fire()

    assert (1, 90, "") == (fired.runs, len(fired.expired), fired.next_ms)
    assert ["first", "last"] == ids(still.queue("email"))


def test_the_flags_of_throttled_runs_are_respected(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a")
    put_due(still, "b", zs="1f", age_ms=500)
    put_due(still, "c", zs="1s", age_ms=400)
    put_due(still, "d", age_ms=300)
    still.fire()
    still.redis.hset(still.keys.meta(), "doubt", now_ms(still))
    pass_on(still, 1000)

    first = still.fire()
    pass_on(still, 1000)
    then = still.fire()

    assert (1, 0) == (first.uncertain, len(first.skipped))
    assert ["b", "a"] == ids(still.queue("email"))[:2]
    assert (["c"], 1) == (ids(then.skipped), then.uncertain)


def test_a_clock_that_was_set_back_starves_no_queue(still: Ground) -> None:
    still.limit(email=10)
    put_due(still, "a", "b")
    still.fire()
    pass_on(still, -HOUR_MS)
    put_due(still, "c", "d")

    fired = still.fire()
    assert (0, now_ms(still) + 100) == (fired.runs, fired.next_ms)  # as if it had just got its most
    pass_on(still, 100)
    then = still.fire()

    assert ["a", "c"] == ids(still.queue("email"))
    assert {"b", "d"} == still.places().keys()
    assert then.next_ms == now_ms(still) + 100


def test_a_throttled_run_never_fires_early(still: Ground) -> None:
    still.limit(email=10)
    put_due(still, "a", "b")
    still.fire()
    pass_on(still, -HOUR_MS)

    fired = still.fire()

    assert (0, now_ms(still) + HOUR_MS - 999) == (fired.runs, fired.next_ms)


# -- in any order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_runs_of_a_second_do_not_exceed_the_limit_under_random_load(still: Ground, seed: int) -> None:
    dice, pushes, made = random.Random(seed), list[int](), 0
    per_second = dice.choice([3, 40, 250])
    still.limit(email=per_second)
    begin_ms = now_ms(still)

    while now_ms(still) < begin_ms + 3000:
        if dice.random() < 0.4:
            count = dice.randint(1, 60)
            put_due(
                still, *(f"s{made + n}" for n in range(count)), lane=dice.choice(["high", "normal", "low"]), age_ms=0
            )
            made += count
        fired = still.fire(limit=dice.choice([7, 100, 1000]))
        pushes += [now_ms(still)] * fired.runs
        pass_on(still, dice.choice([0, 1, 3, 40]))

    assert made == len(pushes) + len(still.places())
    assert len(pushes) >= min(made, per_second * 2)
    most = -(-(per_second + max(per_second / 20 - 1, 0)) // 1)
    assert all(sum(at_ms <= other < at_ms + 1000 for other in pushes) <= most for at_ms in set(pushes))
    assert LAST_MS > now_ms(still)
