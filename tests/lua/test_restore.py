"""restore.lua: schedules that Redis lost are restored over whatever is there. Runs: test_restore_runs."""

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, TEMPLATE, Namespace
from tests.builders.records import DUE_MS, JOB_FIELDS, OLD_US, OWN_FIELDS, gone, job, one_shot, open_run, rule
from tests.lua.restoring import hold, logged, merged, restore
from tests.prefix import RQ
from zsched.core.record import Portion, Record
from zsched.storage.restoring import ROWS, portions

PLACES = {
    "due": (None, f"low {DUE_MS}"),
    "paused": ("5 why  not?\nno", f"paused low {DUE_MS}"),
    "quarantine": ("5 its hash is gone", f"quarantine low {DUE_MS}"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_there", [False, True])
def test_a_restored_one_shot_is_in_its_place_with_its_job_and_its_note(
    led: Namespace, place: str, is_there: bool
) -> None:
    note, expected = PLACES[place]
    if is_there:
        led.put(("a", DUE_MS), fields=FIELDS | {"zs_owner": "ann"})

    restore(led, one_shot(place, note=note))

    assert {"a": expected} == led.places()
    created_at = f"2027-01-15T08:00:00.12200{3 if is_there else 2}Z"  # the microsecond is by the number of the entry
    assert JOB_FIELDS | {"status": "scheduled", "created_at": created_at} == led.job(f"a-{DUE_MS}")
    assert [] == led.queue()
    assert note is None or f"low {DUE_MS} {note}".encode() == led.redis.hget(led.keys.prefix + place, "a")


@pytest.mark.parametrize("place", PLACES)
def test_a_restored_rule_is_in_its_place_with_a_new_version(led: Namespace, place: str) -> None:
    note, expected = PLACES[place]

    restore(led, rule(place, note=note))

    assert {"r": expected} == led.places()
    progress = {"nominal": str(DUE_MS), "last": "r-5", "version": f"{led.last.id}-{led.last.t}"}
    assert OWN_FIELDS | progress == led.schedule("r")
    assert TEMPLATE | {"status": "queued"} == led.template("r")
    assert {b"r"} == led.redis.smembers(led.keys.recurring())


def test_a_restore_deletes_the_old_keys_of_the_schedule(led: Namespace) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "of_another_history", "x")
    for key in (led.keys.schedule("r"), led.keys.template("r")):
        led.redis.hset(key, "of_another_history", "x")

    restore(led, one_shot(), rule())

    found = [led.job(f"a-{DUE_MS}"), led.schedule("r"), led.template("r")]
    assert [False] * 3 == ["of_another_history" in each for each in found]
    assert ["data" in found[0], "trigger" in found[1]] == [True, True]


def test_a_restored_ended_rule_has_no_place_but_exists(led: Namespace) -> None:
    restore(led, rule("ended"))

    assert {} == led.places()
    assert "ended" == led.call("get", ["r"])[3][0]
    assert str(OLD_US // 1000) == led.schedule("r")["ended_at"]


def test_a_restored_one_shot_and_a_restored_rule_fire_at_their_time(led: Namespace) -> None:
    restore(led, one_shot(), rule(), hold_for_ms=0)
    led.pass_until(DUE_MS)

    fired = led.fire()

    assert (1, [f"a-{DUE_MS}"]) == (fired.runs, led.queue())
    assert ["fired"] == led.advance((fired.recurring[0], DUE_MS, DUE_MS + HOUR_MS))
    assert [f"a-{DUE_MS}", f"r-{DUE_MS}"] == led.queue()
    assert "queued" == led.job(f"r-{DUE_MS}")["status"]  # else it counts as gone until a worker begins


def test_a_plan_from_the_lost_history_is_refused(led: Namespace) -> None:
    led.put_recurring("r", DUE_MS)
    led.pass_until(DUE_MS)
    [row] = led.fire().recurring

    restore(led, rule(), hold_for_ms=0)

    assert ["changed"] == led.advance((row, DUE_MS, DUE_MS + HOUR_MS))


# -- existing schedules ---------------------------------------------------------------------------


@pytest.mark.parametrize("back", [one_shot(), one_shot("paused", note="5 why"), rule(id="a"), rule("ended", id="a")])
@pytest.mark.parametrize("there", ["other lane", "paused", "quarantined", "rule", "ended"])
def test_a_restore_replaces_an_existing_schedule(led: Namespace, there: str, back: Record) -> None:
    if there in ("rule", "ended"):
        led.put_recurring("a")
        if there == "ended":
            led.redis.zrem(led.keys.due_normal(), "a")
    else:
        led.put(("a", DUE_MS + 5, "other"), lane="high")
    if there == "paused":
        led.call("pause", ["a"], note="other")
    if there == "quarantined":
        led.redis.zrem(led.keys.due_high(), "a")
        led.redis.hset(led.keys.quarantine(), "a", f"high {DUE_MS + 5} 5 other")

    restore(led, back)

    over = led.keyspace()
    led.redis.flushdb()
    led.lead()
    restore(led, back)
    assert over.keys() == led.keyspace().keys()
    moving = {
        led.keys.log().encode(),
        led.keys.meta().encode(),
        led.keys.lease().encode(),
        led.keys.schedule("a").encode(),
        led.keys.rq.job(f"a-{DUE_MS}").encode(),  # the version is in either of the two
    }
    different = {key for key, value in led.keyspace().items() if over[key] != value}
    assert different <= moving


@pytest.mark.parametrize("there", ["one-shot", "paused", "rule", "nothing", "cancelled by RQ"])
def test_a_restore_removes_a_schedule_that_is_over_but_no_run_that_rq_changed(led: Namespace, there: str) -> None:
    if there == "rule":
        led.put_recurring("a")
    elif there != "nothing":
        led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", ["a"], note="")
    elif there == "cancelled by RQ":
        led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "canceled")

    restore(led, gone("a", "" if there == "rule" else str(DUE_MS)))

    assert {} == led.places()
    kept = {f"{RQ}:job:a-{DUE_MS}"} if there == "cancelled by RQ" else set()
    assert {led.keys.log(), led.keys.meta(), led.keys.lease()} | kept == {key.decode() for key in led.redis.keys("*")}
    assert not kept or "canceled" == led.job(f"a-{DUE_MS}")["status"]


@pytest.mark.parametrize("place", ["due", "paused"])
def test_a_restore_removes_a_one_shot_whose_run_was_pushed_and_keeps_the_run(led: Namespace, place: str) -> None:
    led.put(("a", DUE_MS))
    led.pass_until(DUE_MS)
    assert 1 == led.fire().runs
    before = led.job(f"a-{DUE_MS}")

    restore(led, one_shot(place, note="5 " if place == "paused" else None))

    assert ({}, before, [f"a-{DUE_MS}"]) == (led.places(), led.job(f"a-{DUE_MS}"), led.queue())
    assert ["gone"] == [row.place for row in logged(led.last)]


def test_the_restore_entry_contains_the_rows_unchanged(led: Namespace) -> None:
    rows = [one_shot(), rule(), gone("x", "5"), one_shot("paused", "p", note="5 why")]

    reply = restore(led, *rows, reason="audit")

    entry = led.last
    assert [entry.id, entry.t] == reply[1:3]
    assert ("restore", "audit", "archive-1") == (entry.kind, *entry.texts[1:4:2])
    assert Portion(rows).texts == Portion(logged(entry)).texts


def test_a_restore_into_an_empty_redis_works(ns: Namespace) -> None:
    restore(ns, one_shot(), rule())

    assert ({"a": f"low {DUE_MS}", "r": f"low {DUE_MS}"}, "0-1") == (ns.places(), ns.last.id)
    assert hold(ns) > ns.now_ms
    known = {b"seq", b"hold", b"doubt", b"format", b"rq_prefix", b"lost", b"lost_epoch", b"restored"}
    assert known == ns.redis.hgetall(ns.keys.meta()).keys()


def test_a_portion_of_rows_fits_into_one_script_call(led: Namespace) -> None:
    fields = [{f"field-{number}": str(one) for number in range(9)} for one in range(ROWS)]  # no two share a shape
    rows = [one_shot(id=f"id-{one}", job=job(**fields[one])) for one in range(ROWS)]
    rows += [rule(id=f"rule-{number}") for number in range(ROWS)]

    taken = list(portions(rows))
    for portion in taken:
        restore(led, *portion.rows)

    sent = [row.whole() for portion in taken for row in portion.rows]
    assert (2 * ROWS, [row.key for row in rows]) == (len(led.places()), [row.key for row in sent])
    assert [row.request() for row in rows] == [row.request() for row in sent]
    assert 5900 < max(len(portion.texts) for portion in taken) <= 6000
    assert max(len(portion.rows) for portion in taken) <= ROWS


def test_a_portion_has_half_as_many_rules_as_one_shots() -> None:
    kinds = [one_shot(id=f"id-{number}") for number in range(ROWS)], [rule(id=f"r-{one}") for one in range(ROWS)]

    assert [[ROWS], [ROWS // 2] * 2] == [[len(portion.rows) for portion in portions(rows)] for rows in kinds]


def test_a_row_larger_than_a_portion_is_sent_alone() -> None:
    large = one_shot(id="large", job=[b"x"] * 6002)

    assert [["a"], ["large"], ["b"]] == [
        [row.id for row in portion.rows] for portion in portions([one_shot(), large, one_shot(id="b")])
    ]
    assert [] == list(portions([]))


# -- schedules that were not compared -------------------------------------------------------------


HERE = {
    "due": lambda ns: restore(ns, one_shot(lane="high")),
    "paused": lambda ns: restore(ns, one_shot("paused", note="5 ")),
    "in quarantine": lambda ns: restore(ns, one_shot("quarantine", note="5 broken")),
    "ended": lambda ns: restore(ns, rule("ended", id="a")),
    "recurring": lambda ns: restore(ns, rule(id="a")),
}


@pytest.mark.parametrize("there", HERE)
def test_schedules_that_were_not_compared_are_not_replaced(led: Namespace, there: str) -> None:
    HERE[there](led)
    before = led.keyspace()

    reply = restore(led, one_shot(id="b"), one_shot(), one_shot(id="c"), if_absent=1)

    assert "HERE" == reply[0]
    assert before == led.keyspace()


def test_absent_schedules_are_restored_without_a_comparison(led: Namespace) -> None:
    restore(led, one_shot(id="another"))

    reply = restore(led, one_shot(), rule(), open_run(id="x"), if_absent=1)

    assert ["due", "due", "open"] == reply[-1]
    assert {"a", "r", "another"} == led.places().keys()
    assert [f"x-{DUE_MS}"] == led.queue()


def test_restore_deletes_only_the_key_that_exists(led: Namespace) -> None:
    led.redis.hset(f"{RQ}:job:b-{DUE_MS}", "of_another_history", "x")

    restore(led, *(one_shot(id=id) for id in "abc"), if_absent=1)

    assert [JOB_FIELDS.keys() | {"status", "created_at"}] * 3 == [led.job(f"{id}-{DUE_MS}").keys() for id in "abc"]


def test_the_last_of_two_rows_of_a_schedule_stays(led: Namespace) -> None:
    restore(led, one_shot(job=job(of_the_first="x")), one_shot())

    assert "of_the_first" not in led.job(f"a-{DUE_MS}")


def doubt(ns: Namespace) -> int | None:
    value = ns.redis.hget(ns.keys.meta(), "doubt")
    return None if value is None else int(value)


@pytest.mark.parametrize("before", [5, None])
@pytest.mark.parametrize("reason", ["lost", "corrected", "audit"])
def test_a_restore_sets_a_missing_doubt_but_an_audit_sets_none(led: Namespace, reason: str, before: int | None) -> None:
    led.redis.hdel(led.keys.meta(), "doubt")
    if before is not None:
        led.redis.hset(led.keys.meta(), "doubt", before)

    restore(led, one_shot(), reason=reason)

    assert (int(led.last.t) // 1000 if before is None and reason != "audit" else before) == doubt(led)


# -- names of the data set ------------------------------------------------------------------------


NAMES = {  # the archive's; and whether it may put something into the data set "here there"
    "here": True,
    "long-ago there": True,
    "": True,
    "elsewhere": False,
    "her": False,
}


@pytest.mark.parametrize("names", NAMES)
def test_a_restore_or_merge_is_refused_for_a_data_set_that_the_archive_never_followed(
    led: Namespace, names: str
) -> None:
    led.redis.hset(led.keys.meta(), "gen", "here there")
    before = len(led.entries())

    replies = [restore(led, one_shot(), names=names), merged(led, names=names)]

    words = ["OK" if NAMES[names] else "OTHER"] * 2
    assert words == [reply[0] if reply[0] == "OTHER" else "OK" for reply in replies]
    assert (before + 2 if NAMES[names] else before) == len(led.entries())
    assert NAMES[names] == bool(led.places())


def test_a_forced_restore_into_another_data_set_sets_the_doubt_to_now(led: Namespace) -> None:
    led.redis.hset(led.keys.meta(), mapping={"gen": "here", "doubt": 5})

    restore(led, one_shot(), names="elsewhere", is_forced=1)

    assert int(led.last.t) // 1000 == doubt(led)
    assert {"a"} == led.places().keys()
    assert b"here" == led.redis.hget(led.keys.meta(), "gen")


def test_a_restore_into_an_unnamed_data_set_gives_it_the_archives_names(led: Namespace) -> None:
    led.redis.hdel(led.keys.meta(), "gen")

    restore(led, one_shot(), names="long-ago last")

    assert b"long-ago last" == led.redis.hget(led.keys.meta(), "gen")
