"""restore.lua: what Redis lost is back, whatever is there; and merged.lua, report.lua's hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import FIELDS, HOUR_MS, LEASE_MS, OWN, TEMPLATE, Entry, Ground
from zsched.core.entries import Restored, restored
from zsched.core.log import Entry as Read
from zsched.core.log import Position
from zsched.errors import RedisRefused
from zsched.storage.restoring import ROWS, portions
from zsched.storage.scripts import load

T_US = 1_800_000_000_123_456  # of the lost change
DUE_MS = 1_900_000_000_000
JOB = FIELDS | {"data": "call"}
RULE = OWN | {"trigger": "rule-1", "anchor": "5", "digest": "d", "lane": "low", "nominal": str(DUE_MS), "last": "r-5"}


def one_shot(place: str = "due", id: str = "a", lane: str = "low", note: str | None = None, **fields: str) -> Restored:
    return Restored(id, str(DUE_MS), place, lane, DUE_MS, T_US, note, _texts(JOB | fields), ())


def rule(place: str = "due", id: str = "r", note: str | None = None, **own: str) -> Restored:
    due_ms = None if place == "ended" else DUE_MS
    return Restored(id, "", place, "low", due_ms, T_US, note, _texts(TEMPLATE), _texts(RULE | own))


def run(place: str = "open", id: str = "a", flags: str = "1", queue: str = "default", ms: int = DUE_MS) -> Restored:
    """A run that was not over."""
    return Restored(id, str(ms), place, "", ms, T_US, None, _texts(JOB | {"zs": flags, "origin": queue}), ())


def gone(id: str, run: str = "") -> Restored:
    return Restored(id, run, "gone", "low", DUE_MS, T_US, None, (), ())


def restore(ground: Ground, *rows: Restored, **over: Any) -> list[Any]:
    arguments = seen(ground) | {"hold_for_ms": LEASE_MS, "reason": "lost", "archive": "archive-1"} | over
    return ground.call("restore", [text for row in rows for text in row.texts()], row_count=len(rows), **arguments)


def merged(ground: Ground, *positions: Position, **over: Any) -> list[Any]:
    lines = "\n".join(map(str, positions))
    return ground.call("merged", archive="archive-1", positions=lines, **(seen(ground) | over))


def seen(ground: Ground) -> dict[str, Any]:
    """The log's end."""
    last = ground.entries()[-1:]
    return {"seen_entry": last[0].id, "seen_t": last[0].t} if last else {"seen_entry": "-", "seen_t": 0}


def hold(ground: Ground) -> int:
    return int(ground.redis.hget(ground.keys.meta(), "hold") or 0)


def logged(entry: Entry) -> list[Restored]:
    """The rows of a restore, as another archive reads them."""
    texts = [text.encode() for text in ("kind", entry.kind, "t", entry.t, *entry.texts)]
    return [row for _, row in restored(Read.of(entry.id.encode(), texts))]


def _texts(fields: dict[str, str]) -> list[bytes]:
    return [text.encode() for pair in fields.items() for text in pair]


# -- places ---------------------------------------------------------------------------------------

PLACES = {
    "due": (None, f"low {DUE_MS}"),
    "paused": ("5 until the sale is over", f"paused low {DUE_MS}"),
    "quarantine": ("5 its hash is gone", f"quarantine low {DUE_MS}"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_one_shot_is_back_in_its_place_and_waits(led: Ground, place: str) -> None:
    note, expected = PLACES[place]

    restore(led, one_shot(place, note=note))

    assert {"a": expected} == led.places()
    job = led.job(f"a-{DUE_MS}")
    assert JOB | {"status": "scheduled", "created_at": "2027-01-15T08:00:00.123000Z"} == job
    assert [] == led.queue()


@pytest.mark.parametrize("place", PLACES)
def test_a_rule_is_back_in_its_place_with_a_version_of_its_own(led: Ground, place: str) -> None:
    note, expected = PLACES[place]

    restore(led, rule(place, note=note))

    assert {"r": expected} == led.places()
    assert RULE | {"version": led.last.id} == led.schedule("r")
    assert TEMPLATE == led.template("r")
    assert {b"r"} == led.redis.smembers(led.keys.recurring())


@pytest.mark.parametrize("place", ["paused", "quarantine"])
def test_a_note_is_back_to_the_letter(led: Ground, place: str) -> None:
    restore(led, one_shot(place, note="5 why  not?\nno"))

    assert f"low {DUE_MS} 5 why  not?\nno" == led.redis.hget(led.keys.prefix + place, "a").decode()


def test_a_rule_that_ended_has_no_place_and_is_there(led: Ground) -> None:
    restore(led, rule("ended", ended_at="7"))

    assert {} == led.places()
    assert "ended" == led.call("get", ["r"])[3][0]
    assert "7" == led.schedule("r")["ended_at"]


def test_a_one_shot_that_is_back_fires_at_its_time(led: Ground) -> None:
    restore(led, one_shot(), hold_for_ms=0)
    led.pass_time(DUE_MS - led.now_ms + 1)

    assert 1 == led.fire().runs
    assert [f"a-{DUE_MS}"] == led.queue()


def test_a_rule_that_is_back_fires_and_goes_on(led: Ground) -> None:
    restore(led, rule(), hold_for_ms=0)
    led.pass_time(DUE_MS - led.now_ms + 1)
    [row] = led.fire().recurring

    assert ["fired"] == led.advance((row, DUE_MS, DUE_MS + HOUR_MS))
    assert [f"r-{DUE_MS}"] == led.queue()
    assert "queued" == led.job(f"r-{DUE_MS}")["status"]  # else it counts as gone until a worker begins


def test_a_plan_of_the_lost_history_does_not_pass(led: Ground) -> None:
    led.put_recurring("r", DUE_MS)
    led.pass_time(DUE_MS - led.now_ms + 1)
    [row] = led.fire().recurring

    restore(led, rule(), hold_for_ms=0)

    assert ["changed"] == led.advance((row, DUE_MS, DUE_MS + HOUR_MS))


# -- over what is there ---------------------------------------------------------------------------


@pytest.mark.parametrize("back", [one_shot(), one_shot("paused", note="5 why"), rule(id="a"), rule("ended", id="a")])
@pytest.mark.parametrize("there", ["other lane", "paused", "quarantined", "rule", "ended"])
def test_what_is_put_back_replaces_what_is_there(led: Ground, there: str, back: Restored) -> None:
    if there in ("rule", "ended"):
        led.put_recurring("a")
        if there == "ended":
            led.redis.zrem(led.keys.due_normal(), "a")
    else:
        led.put(("a", DUE_MS + 5, "other"), lane="high")
    if there == "paused":
        led.call("pause", id="a", note="other")
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
    }
    different = {key for key, value in led.keyspace().items() if over[key] != value}
    assert different <= moving


def test_what_is_put_back_over_the_same_time_has_no_fields_of_the_other(led: Ground) -> None:
    led.put(("a", DUE_MS), fields=FIELDS | {"zs_created_by": "ann"})

    restore(led, one_shot())

    assert "zs_created_by" not in led.job(f"a-{DUE_MS}")


@pytest.mark.parametrize("there", ["one-shot", "paused", "rule", "nothing"])
def test_what_was_over_is_taken_out(led: Ground, there: str) -> None:
    if there == "rule":
        led.put_recurring("a")
    elif there != "nothing":
        led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", id="a", note="")

    restore(led, gone("a", "" if there == "rule" else str(DUE_MS)))

    assert {} == led.places()
    assert {led.keys.log(), led.keys.meta(), led.keys.lease()} == {key.decode() for key in led.redis.keys("*")}


@pytest.mark.parametrize("place", ["due", "paused"])
def test_a_one_shot_whose_run_rq_has_is_over_and_its_run_stays_as_it_is(led: Ground, place: str) -> None:
    led.put(("a", DUE_MS))
    led.pass_time(DUE_MS - led.now_ms + 1)
    assert 1 == led.fire().runs
    before = led.job(f"a-{DUE_MS}")

    restore(led, one_shot(place, note="5 " if place == "paused" else None))

    assert ({}, before, [f"a-{DUE_MS}"]) == (led.places(), led.job(f"a-{DUE_MS}"), led.queue())
    assert ["gone"] == [row.place for row in logged(led.last)]


def test_a_waiting_run_that_rq_took_over_stays_rqs(led: Ground) -> None:
    led.put(("a", DUE_MS))
    led.redis.hset(f"rq:job:a-{DUE_MS}", "status", "canceled")

    restore(led, gone("a", str(DUE_MS)))

    assert ({}, "canceled") == (led.places(), led.job(f"a-{DUE_MS}")["status"])


# -- runs -----------------------------------------------------------------------------------------


def test_a_run_that_was_not_over_is_pushed_again_marked(led: Ground) -> None:
    reply = restore(led, run())

    job = led.job(f"a-{DUE_MS}")
    assert ("queued", "1", "call") == (job["status"], job["zs_uncertain"], job["data"])
    assert job["created_at"] == job["enqueued_at"]
    assert ([f"a-{DUE_MS}"], {b"rq:queue:default"}) == (led.queue(), led.redis.smembers("rq:queues"))
    assert ({}, 1) == (led.places(), reply[3])


def test_runs_are_pushed_in_their_order_those_for_the_front_before_the_others(led: Ground) -> None:
    led.redis.rpush("rq:queue:default", "others")

    restore(led, run(id="a"), run(id="b", flags="f"), run(id="c"), run(id="d", flags="f"))

    assert [f"b-{DUE_MS}", f"d-{DUE_MS}", "others", f"a-{DUE_MS}", f"c-{DUE_MS}"] == led.queue()


def test_the_flags_of_a_rule_send_its_run_to_the_front(led: Ground) -> None:
    led.redis.rpush("rq:queue:default", "others")

    restore(led, run()._replace(job=_texts(TEMPLATE), own=_texts({"flags": "f"})))

    assert [f"a-{DUE_MS}", "others"] == led.queue()
    assert "flags" not in led.job(f"a-{DUE_MS}")


def test_a_run_that_is_skipped_is_recorded_and_nothing_else(led: Ground) -> None:
    before = led.keyspace()

    restore(led, run("skipped"), hold_for_ms=0)

    changed = {key for key, value in led.keyspace().items() if before.get(key) != value}
    assert {led.keys.log().encode(), led.keys.meta().encode()} == changed
    assert ["skipped"] == [row.place for row in logged(led.last)]


def test_a_run_for_a_broken_queue_is_refused_and_the_others_go_on(led: Ground) -> None:
    led.redis.set("rq:queue:broken", "a text")

    reply = restore(led, run(id="x", queue="broken"), run(id="y"), one_shot(id="z"))

    assert ([f"y-{DUE_MS}"], {"z": f"low {DUE_MS}"}, 1) == (led.queue(), led.places(), reply[3])
    assert {} == led.job(f"x-{DUE_MS}")
    assert ["refused", "open", "due"] == [row.place for row in logged(led.last)]


def test_a_run_without_a_queue_is_refused(led: Ground) -> None:
    restore(led, run()._replace(job=_texts({"data": "call"})))

    assert ["refused"] == [row.place for row in logged(led.last)]


def test_a_run_whose_job_is_there_is_not_pushed_twice(led: Ground) -> None:
    restore(led, run())
    before = led.job(f"a-{DUE_MS}")

    restore(led, run())

    assert ([f"a-{DUE_MS}"], before) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["refused"] == [row.place for row in logged(led.last)]


@pytest.mark.parametrize("there", ["due", "paused"])
@pytest.mark.parametrize("back", [one_shot()._replace(run=str(DUE_MS + 5), due_ms=DUE_MS + 5), rule(id="a"), gone("a")])
def test_a_run_is_pushed_again_that_waits_there_and_will_not_any_more(led: Ground, back: Restored, there: str) -> None:
    led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", id="a", note="")

    restore(led, back, run())

    assert ([f"a-{DUE_MS}"], "queued") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert [back.place, "open"] == [row.place for row in logged(led.last)]


def test_a_run_that_rq_took_over_while_it_waited_is_not_pushed(led: Ground) -> None:
    led.put(("a", DUE_MS))
    led.redis.hset(f"rq:job:a-{DUE_MS}", "status", "canceled")

    restore(led, rule(id="a"), run())

    assert ([], "canceled") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])


# -- the entry ------------------------------------------------------------------------------------


def test_the_entry_has_the_rows_as_they_were_given(led: Ground) -> None:
    rows = [one_shot(), rule(), gone("x", "5"), run("skipped"), one_shot("paused", "p", note="5 why")]

    reply = restore(led, *rows, reason="audit")

    entry = led.last
    assert [entry.id, entry.t] == reply[1:3]
    assert ("restore", "audit", "archive-1", "5") == (entry.kind, *entry.texts[1:6:2])
    assert [row.texts() for row in rows] == [row.texts() for row in logged(entry)]


def test_an_empty_redis_takes_what_is_put_back(ground: Ground) -> None:
    restore(ground, one_shot(), rule())

    assert ({"a": f"low {DUE_MS}", "r": f"low {DUE_MS}"}, "0-1") == (ground.places(), ground.last.id)
    assert hold(ground) > ground.now_ms
    assert {b"seq", b"hold", b"format"} == ground.redis.hgetall(ground.keys.meta()).keys()


def test_as_many_rows_and_texts_as_go_into_one_script(led: Ground) -> None:
    fields = {f"field-{number}": "x" for number in range(9)}
    rows = [one_shot(id=f"id-{number}", **fields) for number in range(ROWS)]  # type: ignore[arg-type]  # all fields
    rows += [rule(id=f"rule-{number}") for number in range(ROWS)]

    taken = list(portions(rows))
    for portion in taken:
        restore(led, *portion)

    assert (2 * ROWS, rows) == (len(led.places()), [row for portion in taken for row in portion])
    assert max(sum(8 + len(row.job) + len(row.own) for row in portion) for portion in taken) > 5900
    assert max(map(len, taken)) <= ROWS


def test_a_row_that_is_too_large_for_a_portion_is_one_of_its_own() -> None:
    large = one_shot(id="large")._replace(job=[b"x"] * 6001)

    assert [["a"], ["large"], ["b"]] == [
        [row.id for row in portion] for portion in portions([one_shot(), large, one_shot(id="b")])
    ]
    assert [] == list(portions([]))


# -- the log's end --------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"seen_entry": "7-99"}, {"seen_t": "5"}, {"seen_entry": "-", "seen_t": 0}])
@pytest.mark.parametrize("call", [lambda g, **o: restore(g, one_shot(), rule(), **o), merged])
def test_nothing_is_done_when_the_log_does_not_end_where_it_was_compared(
    led: Ground, call: Any, other: dict[str, Any]
) -> None:
    led.put(("b", "+1000"))
    before = led.keyspace()

    reply = call(led, **other)

    assert "AGAIN" == reply[0]
    assert before == led.keyspace()


BEHIND: dict[str, tuple[tuple[str, ...], bool]] = {  # texts of an entry, and whether it touches schedule a
    "another put": (("put", "lane", "low", "fields", "0", "rows", "1", "b", "5", "data", "x"), False),
    "a put": (("put", "lane", "low", "fields", "0", "rows", "2", "b", "5", "data", "x", "a", "5", "data", "x"), True),
    "another rule": (("put_recurring", "id", "a-1", "due", "5", "schedule", "0", "template", "0"), False),
    "a rule": (("put_recurring", "id", "a", "due", "5", "schedule", "0", "template", "0"), True),
    "another fire": (("fire", "runs", f"a-1-{DUE_MS} ab-{DUE_MS}"), False),
    "a fire": (("fire", "runs", f"b-{DUE_MS} a-{DUE_MS}"), True),
    "a fire of a namespace": (("fire", "runs", f"a-{DUE_MS}-nshop"), True),
    "a skip": (("fire", "skipped", f"a-{DUE_MS}"), True),
    "a cancelled run": (("fire", "cancelled", f"a-{DUE_MS}=canceled"), True),
    "a quarantine": (("quarantine", "rows", "b low 5 why\na low 5 why"), True),
    "a re-planning": (("replan", "old", "", "new", "2026a", "rows", f"b {DUE_MS} 5 5\na {DUE_MS} 5 5"), True),
    "another re-planning": (("replan", "old", "", "new", "2026a", "rows", f"b {DUE_MS} 5 5"), False),
    "another advance": (("advance", "rows", f"b fired {DUE_MS} - - - - 0 -"), False),
    "a backfill": (("backfill", "id", "a", "runs", f"a-{DUE_MS}"), True),
    "another backfill": (("backfill", "id", "b", "runs", f"b-{DUE_MS}"), False),
    "an advance": (("advance", "rows", f"b fired {DUE_MS} - - - - 0 -\na fired {DUE_MS} - - - - 0 -"), True),
    "an enqueue": (("enqueue", "run", f"a-{DUE_MS}-r2", "front", "0", "fields", "0"), True),
    "an end": (("end", "rows", f"a-{DUE_MS} finished - -"), True),
    "a term": (("term", "daemon", "d", "server", "s"), False),
    "another archive's restore": (("restore", "reason", "lost", "archive", "archive-2", "rows", "0"), True),
    "a merge": (("merged", "archive", "archive-2", "positions", "1-1 5"), True),
    "something unknown": (("teleport", "to", "b"), True),
}


@pytest.mark.parametrize("what", BEHIND)
def test_what_came_behind_matters_when_it_touches_a_schedule_that_is_put_back(led: Ground, what: str) -> None:
    (kind, *texts), touches = BEHIND[what]
    led.put(("first", "+1000"))
    compared = seen(led)
    epoch, seq = led.last.id.split("-")
    fields = ["kind", kind, "t", str(led.now_ms * 1000), *texts]
    led.redis.execute_command("XADD", led.keys.log(), f"{epoch}-{int(seq) + 1}", *fields)
    led.redis.hset(led.keys.meta(), "seq", int(seq) + 1)

    reply = restore(led, one_shot(), **compared)

    assert (touches, not touches) == (reply[0] == "AGAIN", "a" in led.places())


@pytest.mark.parametrize(("number", "is_much"), [(20, False), (21, True)])
def test_when_much_came_behind_it_is_compared_again(led: Ground, number: int, is_much: bool) -> None:
    led.put(("first", "+1000"))
    compared = seen(led)
    for n in range(number):
        led.put((f"b{n}", "+1000"))

    assert is_much == (restore(led, one_shot(), **compared)[0] == "AGAIN")


def test_nothing_is_done_when_the_log_is_empty_and_was_not(led: Ground) -> None:
    before = led.keyspace()

    assert "AGAIN" == restore(led, one_shot(), seen_entry="7-1", seen_t=5)[0]
    assert before == led.keyspace()


# -- hold and wake --------------------------------------------------------------------------------


def test_nothing_fires_while_something_is_put_back(led: Ground) -> None:
    led.put(("b", 5), allow_past=1)

    restore(led, one_shot())

    assert ["HELD", hold(led)] == led.fire_reply()[::2]
    led.pass_time(LEASE_MS)
    assert 1 == led.fire().runs


@pytest.mark.parametrize("how", ["restore", "report"])
def test_a_hold_is_set_and_not_shortened_and_an_absurd_one_replaced(led: Ground, how: str) -> None:
    def hold_for(ms: int) -> None:
        restore(led, one_shot(), hold_for_ms=ms) if how == "restore" else led.report(hold_for_ms=ms)

    hold_for(0)
    assert 0 == hold(led)
    hold_for(2000)
    first = hold(led)
    assert led.now_ms + 1000 < first <= led.now_ms + 2000
    hold_for(1500)
    assert first == hold(led)
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + HOUR_MS)
    hold_for(2000)
    assert led.now_ms + 1000 < hold(led) <= led.now_ms + 2000


def test_a_daemon_that_sleeps_is_woken_for_what_is_back(led: Ground) -> None:
    with led.redis.pubsub() as listening:
        listening.subscribe(led.keys.wake())
        listening.get_message(timeout=5)

        restore(led, one_shot(id="b")._replace(due_ms=DUE_MS + 5), one_shot(), one_shot("paused", "p", note="5 "))

        message = listening.get_message(timeout=5)
    assert message is not None
    assert str(DUE_MS).encode() == message["data"]


# -- merged ---------------------------------------------------------------------------------------


def test_a_merged_entry_says_which_histories_are_here(led: Ground) -> None:
    reply = merged(led, Position(1, 2, 3), Position(4, 5, 6))

    assert [led.last.id, led.last.t] == reply[1:]
    assert {"archive": "archive-1", "positions": "1-2 3\n4-5 6"} == led.last.fields
    assert 0 == hold(led)


def test_an_empty_redis_takes_a_merged_entry(ground: Ground) -> None:
    merged(ground, Position(1, 2, 3))

    assert ("0-1", "merged") == (ground.last.id, ground.last.kind)


# -- out of memory --------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [lambda g: restore(g, gone("b"), one_shot(), rule(), run(id="c")), merged])
def test_out_of_memory_nothing_is_put_back(led: Ground, call: Any) -> None:
    led.put(("b", DUE_MS))
    for name in ("restore", "merged"):
        led.scripts.ensure(name)
    before = led.keyspace()

    led.redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(RedisRefused, match="maxmemory"):
            call(led)
        assert before == led.keyspace()
    finally:
        led.redis.config_set("maxmemory", 0)
    call(led)
    assert before != led.keyspace()


def test_broken_rq_queues_let_nothing_be_put_back(led: Ground) -> None:
    led.redis.set("rq:queues", "a text")
    before = led.keyspace()

    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        restore(led, one_shot(), run(id="c"))
    assert before == led.keyspace()


def test_a_restorer_needs_no_lease() -> None:
    assert not {"lease"} & {key for name in ("restore", "merged", "report") for key in load(name).keys}
