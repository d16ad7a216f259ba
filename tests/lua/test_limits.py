"""limits.lua, and what fire.lua and the others do with limits: how many go when, and where the rest waits meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.lua.ground import FIELDS, HOUR_MS, SERVER, TEMPLATE, TOKEN, Ground
from tests.lua.test_pause_resume import UNPLANNED
from zsched.core.clock import LAST_MS
from zsched.errors import ServerChanged, Stale

EMAIL = FIELDS | {"origin": "email"}


@pytest.fixture
def still(led: Ground) -> Ground:
    """Led, by a clock that stands still until ``pass_on``."""
    led.redis.hset(led.keys.meta(), "frozen_ms", led.now_ms)
    return led


def now_ms(ground: Ground) -> int:
    return int(ground.redis.hget(ground.keys.meta(), "frozen_ms"))


def pass_on(ground: Ground, ms: int) -> None:
    ground.redis.hincrby(ground.keys.meta(), "frozen_ms", ms)


def put_due(ground: Ground, *ids: str, lane: str = "normal", age_ms: int = 1000, **fields: str) -> None:
    """One-shots of queue email, unless *fields* say otherwise, that are due now, a millisecond apart."""
    rows = [(id, now_ms(ground) - age_ms + n) for n, id in enumerate(ids)]
    ground.put(*rows, lane=lane, allow_past=1, fields=EMAIL | fields)


def put_many(ground: Ground, prefix: str, count: int, **options: Any) -> list[str]:
    ids = [f"{prefix}{n:04}" for n in range(count)]
    for first in range(0, count, 200):
        put_due(ground, *ids[first : first + 200], **options)
    return ids


def put_rule(ground: Ground, id: str, **options: Any) -> int:
    """A recurring schedule of queue email that is due now; its due time."""
    due_ms = now_ms(ground)
    ground.put_recurring(id, due_ms, template=TEMPLATE | {"origin": "email"}, **options)
    return due_ms


def ids(runs: list[str]) -> list[str]:
    return [run.rpartition("-")[0] for run in runs]


def drained(ground: Ground, until_ms: int) -> Iterator[int]:
    """Fire as a daemon does, sleeping until it is told; how many went in each call, until *until_ms*."""
    while now_ms(ground) < until_ms:
        fired = ground.fire()
        yield fired.runs
        assert fired.next_ms == "" or int(fired.next_ms) > now_ms(ground) or fired.runs or fired.looked
        if fired.next_ms == "":
            return
        pass_on(ground, max(min(int(fired.next_ms), until_ms) - now_ms(ground), 0))


# -- how many go, and when ----------------------------------------------------------------------------


def test_as_many_go_as_have_room_and_the_rest_stands_aside(still: Ground) -> None:
    still.limit(email=100)
    put_due(still, *"abcdefg")

    fired = still.fire()

    assert (5, 7, now_ms(still) + 10) == (fired.runs, fired.looked, fired.next_ms)
    assert list("abcde") == ids(still.queue("email"))
    assert {"f": f"normal:email {now_ms(still) - 995}", "g": f"normal:email {now_ms(still) - 994}"} == still.places()
    assert "scheduled" == still.job(f"f-{now_ms(still) - 995}")["status"]


def test_standing_aside_is_not_logged(still: Ground) -> None:
    still.limit(email=0.5)
    put_due(still, "a", "b")
    still.fire()
    put_due(still, "c")
    entries = still.entries()

    fired = still.fire()

    assert (0, 1) == (fired.runs, fired.looked)
    assert entries == still.entries()
    assert {"b", "c"} == still.places().keys()


def test_who_stands_aside_goes_when_the_answer_said_so_and_not_before(still: Ground) -> None:
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
    assert [] == still.aside()


@pytest.mark.parametrize(
    ("per_second", "count", "takes_ms"),
    [(0.5, 4, 6000), (3, 10, 3000), (19, 60, 3106), (100, 200, 1950), (1000, 400, 350), (30_000, 4000, 84)],
)
def test_a_queue_gets_its_limit_and_no_second_more_than_a_twentieth_beyond_it(
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


def test_a_queue_that_rested_gets_no_more_at_once_than_one_that_began(still: Ground) -> None:
    still.limit(email=100)
    put_many(still, "s", 5)
    still.fire()
    pass_on(still, HOUR_MS)
    put_many(still, "t", 20)

    assert 5 == still.fire().runs


def test_other_queues_of_the_lane_pass_what_has_no_room(still: Ground) -> None:
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


def test_two_queues_have_room_of_their_own(still: Ground) -> None:
    still.limit(email=1, sms=1)
    put_due(still, "a", "b")
    put_due(still, "c", "d", origin="sms", lane="high")

    assert 2 == still.fire().runs

    assert (["a"], ["c"]) == (ids(still.queue("email")), ids(still.queue("sms")))
    assert ["high:sms", "normal:email"] == still.aside()


def test_high_goes_before_normal_before_low_and_each_by_due_time(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "l1", "l2", lane="low", age_ms=5000)
    put_due(still, "n1", "n2", "n3", age_ms=4000)
    put_due(still, "h1", "h2", lane="high", age_ms=3000)

    for _ in drained(still, now_ms(still) + 3500):
        put_due(still, "h3", lane="high", age_ms=1) if len(still.queue("email")) == 3 else None

    assert ["h1", "h2", "n1", "h3"] == ids(still.queue("email"))
    assert 0 < len([run for run in drained(still, now_ms(still) + 20_000) if run])
    assert ["h1", "h2", "n1", "h3", "n2", "n3", "l1", "l2"] == ids(still.queue("email"))


def test_what_came_later_does_not_overtake_what_stands_aside(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a", "b", "c")
    still.fire()
    pass_on(still, 1000)
    put_due(still, "d", age_ms=0)

    still.fire()

    assert ["a", "b"] == ids(still.queue("email"))


def test_a_batch_that_is_full_goes_on_at_once(still: Ground) -> None:
    still.limit(email=1000)
    put_many(still, "s", 30)
    still.fire(limit=10)

    fired = still.fire(limit=10)

    assert (10, 10, now_ms(still)) == (fired.looked, fired.runs, fired.next_ms)


def test_many_more_than_one_command_takes_step_aside(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 5000)

    fired = still.fire(limit=5000)

    assert (1, 5000) == (fired.runs, fired.looked)
    assert 4999 == still.redis.zcard(f"{still.keys.prefix}due:normal:email")
    assert 0 == still.redis.zcard(still.keys.due_normal())


def test_what_does_not_run_takes_no_room(still: Ground) -> None:
    still.limit(email=1)
    due_ms = now_ms(still) - 1000
    still.put(("late", due_ms), ("later", due_ms + 1), allow_past=1, fields=EMAIL | {"zs": "1e", "zs_expires": "5"})
    put_due(still, "cancelled", "broken", "good")
    still.redis.hset(f"rq:job:cancelled-{due_ms}", "status", "canceled")
    still.redis.delete(f"rq:job:broken-{due_ms + 1}")

    fired = still.fire()

    assert (1, 2, 1, 1) == (fired.runs, len(fired.expired), len(fired.cancelled), len(fired.quarantined))
    assert ["good"] == ids(still.queue("email"))


def test_a_heap_of_expired_ones_keeps_nobody_from_the_room(still: Ground) -> None:
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


def test_the_flags_of_what_stood_aside_count(still: Ground) -> None:
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


def test_nothing_is_fired_early_of_what_stands_aside(still: Ground) -> None:
    still.limit(email=10)
    put_due(still, "a", "b")
    still.fire()
    pass_on(still, -HOUR_MS)

    fired = still.fire()

    assert (0, now_ms(still) + HOUR_MS - 999) == (fired.runs, fired.next_ms)


# -- recurring ones -----------------------------------------------------------------------------------


def test_recurring_ones_take_room_when_they_are_answered(still: Ground) -> None:
    still.limit(email=1)
    due_ms = put_rule(still, "r")
    put_rule(still, "s")

    fired = still.fire()

    assert [["r", "normal", str(due_ms)]] == [row[:3] for row in fired.recurring]
    assert f"normal:email {due_ms}" == still.places()["s"]


def test_one_that_stood_aside_advances_back_into_its_lane(still: Ground) -> None:
    still.limit(email=1)
    due_ms = put_rule(still, "r", lane="high")
    put_rule(still, "s", lane="high")
    still.advance((still.fire().recurring[0], due_ms, due_ms + HOUR_MS))
    pass_on(still, 1000)

    fired = still.fire()
    words = still.advance((fired.recurring[0], due_ms, due_ms + HOUR_MS))

    assert [["s", "high:email", str(due_ms)]] == [row[:3] for row in fired.recurring]
    assert ["fired"] == words
    assert dict.fromkeys("rs", f"high {due_ms + HOUR_MS}") == still.places()
    assert ["r", "s"] == ids(still.queue("email"))
    assert f"s fired {due_ms} {due_ms + HOUR_MS}" == " ".join(still.last.fields["moves"].split()[:4])


def test_one_that_stood_aside_can_end_there(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a")
    due_ms = put_rule(still, "r")
    still.fire()
    pass_on(still, 1000)

    still.advance((still.fire().recurring[0], due_ms, ""))

    assert {} == still.places()
    assert "ended_at" in still.schedule("r")
    still.fire()
    assert [] == still.aside()


@pytest.mark.parametrize("script", ["advance", "quarantine"])
def test_one_that_stood_aside_can_be_quarantined_under_its_lane(still: Ground, script: str) -> None:
    still.limit(email=1)
    put_due(still, "a")
    due_ms = put_rule(still, "r", lane="low")
    still.fire()
    pass_on(still, 1000)
    row = still.fire().recurring[0]

    if script == "advance":
        still.redis.delete(still.keys.template("r"))
        still.advance((row, due_ms, due_ms + HOUR_MS))
    else:
        still.call("quarantine", [*row[:4], "why"], token=TOKEN, expected_server=SERVER)

    assert {"r": f"quarantine low {due_ms}"} == still.places()


# -- what stands aside is a schedule like the others --------------------------------------------------


@pytest.fixture
def late(still: Ground) -> Ground:
    """Where "b" (one-shot) and "r" (recurring) stand aside."""
    still.limit(email=1)
    put_due(still, "a", "b")
    put_rule(still, "r")
    still.fire()
    assert {"b", "r"} == still.places().keys()
    assert all(place.startswith("normal:email ") for place in still.places().values())
    return still


@pytest.mark.parametrize("id", ["b", "r"])
def test_it_is_paused_and_resumed_into_its_lane(late: Ground, id: str) -> None:
    due_ms = late.places()[id].split()[-1]

    late.call("pause", id=id, note="n")
    assert f"paused normal {due_ms}" == late.places()[id]
    late.call("resume", id=id, missed="fire", **UNPLANNED)

    assert f"normal {due_ms}" == late.places()[id]


@pytest.mark.parametrize("id", ["b", "r"])
def test_it_is_cancelled(late: Ground, id: str) -> None:
    late.call("cancel", id=id)

    assert id not in late.places()
    assert {} == late.schedule(id) | late.template(id)


def test_it_is_put_again_with_another_time_queue_and_lane(late: Ground) -> None:
    due_ms = now_ms(late) + HOUR_MS

    words = late.put(("b", due_ms), lane="high")
    late.put_recurring("r", due_ms, trigger="rule-2", digest="digest-2")

    assert [("updated", str(due_ms))] == words
    assert {"b": f"high {due_ms}", "r": f"normal {due_ms}"} == late.places()
    assert 2 == len(late.redis.keys("rq:job:*"))  # the run of "a", and the one that waits


def test_putting_the_same_again_leaves_it_where_it_is(late: Ground) -> None:
    before = late.places()

    words = late.put(("b", before["b"].split()[-1]), allow_past=1, fields=EMAIL)

    assert "unchanged" == words[0][0]
    assert before == late.places()


def test_it_is_read_as_due_in_its_lane(late: Ground) -> None:
    due_ms = late.places()["b"].split()[-1]

    row = late.call("get", ["b"])[3]

    assert ["due", "normal", due_ms] == row[:3]


def test_an_audit_tells_where_it_is_and_clears_it_from_there(late: Ground) -> None:
    fence = {"token": TOKEN, "expected_server": SERVER}
    due_ms = int(late.places()["b"].split()[-1])
    late.redis.zadd(late.keys.due_high(), {"b": due_ms})

    reply = late.call("audit", ["b", f"{due_ms}", "r", ""], **fence)
    late.call("clear", ["b", "high"], seen_entry=late.last.id, seen_t=late.last.t, **fence)

    assert ["high normal:email", "scheduled", "normal:email", ""] == reply[4:]
    assert f"high {due_ms}" == late.places()["b"]


def test_a_restore_puts_it_back_into_its_lane_and_nowhere_else(late: Ground) -> None:
    due_ms = late.places()["b"].split()[-1]
    job = [text for pair in late.job(f"b-{due_ms}").items() if pair[0] not in ("status", "created_at") for text in pair]
    row = ["b", due_ms, "due", "normal", due_ms, late.last.t, "", f"{len(job)} 0", *job]

    late.call(
        "restore", row, seen_entry=late.last.id, seen_t=late.last.t, hold_for_ms=0, reason="audit", archive="x",
        row_count=1,
    )  # fmt: skip

    assert f"normal {due_ms}" == late.places()["b"]


def test_new_rules_of_its_zone_leave_it_in_one_place(late: Ground) -> None:
    due_ms, version, new_ms = late.places()["r"].split()[-1], late.schedule("r")["version"], now_ms(late) + HOUR_MS
    row = ["r", version, due_ms, due_ms, new_ms, new_ms]

    late.call("replan", row, tzdata="2026a", is_done=0, token=TOKEN, expected_server=SERVER)
    late.call("cancel", id="b")

    assert str(new_ms) == late.places()["r"].split()[-1]
    assert new_ms == late.fire().next_ms
    pass_on(late, HOUR_MS)
    [row] = late.fire().recurring
    late.advance((row, new_ms, new_ms + HOUR_MS))
    assert {"r": f"normal {new_ms + HOUR_MS}"} == late.places()


def test_what_left_meanwhile_is_noticed_and_forgotten(late: Ground) -> None:
    late.call("cancel", id="b")
    late.call("cancel", id="r")
    assert ["normal:email"] == late.aside()

    fired = late.fire()

    assert ("", []) == (fired.next_ms, late.aside())


# -- limits come and go -------------------------------------------------------------------------------


def test_a_limit_that_stays_keeps_what_it_gave_out(still: Ground) -> None:
    still.limit(email=1)
    put_due(still, "a", "b")
    still.fire()
    before = still.limits()

    still.limit(email=1)

    assert before == still.limits()
    assert 0 == still.fire().runs


def test_limits_that_are_the_same_write_nothing(still: Ground) -> None:
    still.limit(email=1, sms=0.5)
    before = still.keyspace()

    still.limit(sms=0.5, email=1)

    assert before == still.keyspace()


def test_a_higher_limit_counts_from_the_next_look_on(still: Ground) -> None:
    still.limit(email=0.01)
    put_many(still, "s", 20)
    still.fire()

    still.limit(email=100)
    assert now_ms(still) + 10 == still.fire().next_ms
    pass_on(still, 50)

    assert 5 == still.fire().runs


def test_what_stands_aside_for_a_limit_that_is_gone_goes_as_it_is_due(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 150)
    still.fire(limit=1000)
    assert 149 == len(still.places())

    still.limit()
    first = still.fire(limit=100)
    then = still.fire(limit=100)

    assert (100, now_ms(still), 49, "") == (first.runs, first.next_ms, then.runs, then.next_ms)
    assert ({}, {}, []) == (still.places(), still.limits(), still.aside())
    assert sorted(still.queue("email")) == still.queue("email")


def test_a_limit_that_is_gone_and_for_which_nobody_waits_leaves_nothing(still: Ground) -> None:
    still.limit(email=1)

    still.limit()

    assert {} == still.limits()


def test_a_limit_that_comes_back_holds_for_what_is_left(still: Ground) -> None:
    still.limit(email=1)
    put_many(still, "s", 50)
    still.fire()
    still.limit()
    still.fire(limit=10)

    still.limit(email=1)

    assert 1 == still.fire().runs
    assert 0 == still.fire().runs


def test_only_the_leader_of_this_server_sets_limits(still: Ground) -> None:
    with pytest.raises(Stale):
        still.call("limits", ["email", "1"], token="another", expected_server=SERVER)
    with pytest.raises(ServerChanged):
        still.call("limits", ["email", "1"], token=TOKEN, expected_server="another")
    assert {} == still.limits()


def test_a_row_that_a_foreign_hand_broke_is_no_limit(still: Ground) -> None:
    still.redis.hset(still.keys.limits(), "email", "many")
    put_due(still, "a", "b", "c")

    assert 3 == still.fire().runs
    assert {} == still.limits()


# -- in any order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_meanwhile_no_second_has_more_than_its_share(still: Ground, seed: int) -> None:
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
