"""restore.lua and lib/pushed.lua: lost runs are pushed again, and an existing hash suppresses no run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.builders.records import DUE_MS, TEMPLATE, gone, job, one_shot, open_run, rule
from tests.lua.restoring import logged, restore
from tests.prefix import RQ
from zsched.core.record import Record


def test_an_open_run_is_pushed_again_and_marked_uncertain(led: Namespace) -> None:
    reply = restore(led, open_run())

    job = led.job(f"a-{DUE_MS}")
    assert ("queued", "1", "call") == (job["status"], job["zs_uncertain"], job["data"])
    assert job["created_at"] == job["enqueued_at"]
    assert ([f"a-{DUE_MS}"], {f"{RQ}:queue:default".encode()}) == (led.queue(), led.redis.smembers(f"{RQ}:queues"))
    assert ({}, ["open"]) == (led.places(), reply[3])


def test_restored_runs_are_pushed_in_order_and_runs_of_front_schedules_first(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "others")
    of_rule = open_run(id="r", job=TEMPLATE, own=[b"flags", b"f"])

    b, d = (open_run(id=id, job=job(zs="f")) for id in "bd")
    restore(led, open_run(id="a"), b, of_rule, open_run(id="c"), d)

    assert [f"{id}-{DUE_MS}" for id in "brd"] + ["others", f"a-{DUE_MS}", f"c-{DUE_MS}"] == led.queue()
    assert "flags" not in led.job(f"r-{DUE_MS}")


def test_a_skipped_run_is_only_recorded(led: Namespace) -> None:
    before = led.keyspace()

    restore(led, open_run("skipped"), hold_for_ms=0)

    changed = {key for key, value in led.keyspace().items() if before.get(key) != value}
    assert {led.keys.log().encode(), led.keys.meta().encode()} == changed
    assert ["skipped"] == [row.place for row in logged(led.last)]


def test_a_run_without_a_queue_or_for_a_broken_one_is_refused_and_the_others_go_on(led: Namespace) -> None:
    led.redis.set(f"{RQ}:queue:broken", "a text")
    without = open_run(id="w", job=[b"data", b"call"])

    reply = restore(led, open_run(id="x", job=job(origin="broken")), without, open_run(id="y"), one_shot(id="z"))

    assert ([f"y-{DUE_MS}"], {"z": f"low {DUE_MS}"}) == (led.queue(), led.places())
    assert {} == led.job(f"x-{DUE_MS}")
    assert ["refused", "refused", "open"] == [row.place for row in logged(led.last)]
    assert ["due", "refused", "refused", "open"] == reply[3]


def test_a_run_whose_job_exists_is_not_pushed_again_also_if_its_queue_is_broken(led: Namespace) -> None:
    restore(led, open_run(), open_run(id="b"))
    before = led.job(f"a-{DUE_MS}")
    led.redis.set(f"{RQ}:queue:broken", "a text")

    reply = restore(led, open_run(), open_run(id="b", job=job(origin="broken")))

    assert ([f"a-{DUE_MS}", f"b-{DUE_MS}"], before) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", "held"] == [row.place for row in logged(led.last)] == reply[3]


@pytest.mark.parametrize("place", ["open", "skipped"])
@pytest.mark.parametrize("status", ["failed", "finished", "started"])
def test_a_run_with_only_a_workers_fields_is_left_to_rq(led: Namespace, place: str, status: str) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", status)

    reply = restore(led, open_run(place), open_run(place, id="b"))

    pushed = [f"b-{DUE_MS}"] if place == "open" else []
    assert (pushed, {"status": status, "zs_uncertain": "1"}) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", place] == [row.place for row in logged(led.last)] == reply[3]
    assert open_run(place).job_fields() == logged(led.last)[0].job_fields()


def test_a_dry_run_says_what_would_be_logged_and_writes_nothing(led: Namespace) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "started")
    led.redis.set(f"{RQ}:queue:broken", "a text")
    before = led.keyspace()

    broken = open_run(id="c", job=job(origin="broken"))
    reply = restore(led, open_run(), open_run("skipped", id="b"), broken, one_shot(id="d"), reason="dry")

    assert ["-", "0", ["due", "held", "skipped", "refused"]] == reply[1:]
    assert before == led.keyspace()


@pytest.mark.parametrize("there", ["due", "paused"])
@pytest.mark.parametrize("back", [one_shot(run=str(DUE_MS + 5)), rule(id="a"), gone("a")])
def test_a_run_whose_schedule_was_removed_is_pushed_again(led: Namespace, back: Record, there: str) -> None:
    led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", ["a"], note="")

    reply = restore(led, back, open_run())

    assert ([f"a-{DUE_MS}"], "queued") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert [back.place, "open"] == reply[3]


def test_a_scheduled_run_that_rq_cancelled_is_not_pushed(led: Namespace) -> None:
    led.put(("a", DUE_MS))
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "canceled")

    reply = restore(led, rule(id="a"), open_run())

    assert ([], "canceled") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert ["due", "held"] == reply[3]


@pytest.mark.parametrize(("left_ms", "is_guarded"), [(HOUR_MS, True), (-1, False)])
def test_a_restored_run_has_the_rest_of_its_guard(led: Namespace, left_ms: int, is_guarded: bool) -> None:
    pushed_ms = led.now_ms - HOUR_MS
    one = open_run(run=str(pushed_ms), t_us=pushed_ms * 1000)
    one = replace(one, job=(*one.job, b"zs_unique", str(HOUR_MS + left_ms).encode()))

    restore(led, one)

    guard = led.redis.get(f"{led.keys.unique_prefix()}a")
    assert (f"{pushed_ms + HOUR_MS + left_ms} a-{pushed_ms}".encode() if is_guarded else None) == guard


# -- a hash that exists already ----------------------------------------------------------------------


NOT_PUSHED = [
    {"x": "1"},
    {"status": "scheduled", "data": "mine"},
    {"status": "created"},
    {"status": "", "started_at": "", "worker_name": ""},
    {"zs": "1", "origin": "default", "data": "mine"},
]
PUSHED = [
    *({"status": status} for status in ("queued", "started", "deferred", "finished", "failed", "stopped", "canceled")),
    {"status": "of a later RQ"},
    {"status": "scheduled", "enqueued_at": "2026-01-01T00:00:00.000000Z"},  # it waits for another attempt
    *({field: "x"} for field in ("enqueued_at", "started_at", "ended_at", "last_heartbeat", "worker_name")),
]
AT = 1_700_000_000_000


def _advance(ns: Namespace) -> str:
    version = ns.schedule("r")["version"]
    [word] = ns.advance((["r", "normal", str(AT), version], AT, AT + HOUR_MS))
    return "-" if word == "duplicate" else word


def _backfill(ns: Namespace) -> str:
    version = ns.schedule("r")["version"]
    return str(ns.call("run_now", [AT, "once"], id="r", seen_version=version)[2])


def _restore(ns: Namespace) -> str:
    [place] = restore(ns, open_run(id="r", run=str(AT)))[3]
    return "pushed" if place == "open" else "-"


CALLS: dict[str, Callable[[Namespace], str]] = {"advance": _advance, "backfill": _backfill, "restore": _restore}


@pytest.fixture
def ruled(led: Namespace) -> Namespace:
    led.put_recurring("r", AT)
    return led


@pytest.mark.parametrize("fields", [*NOT_PUSHED, None], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_forged_hash_or_key_is_replaced_by_the_run(
    ruled: Namespace, name: str, fields: dict[str, str] | None
) -> None:
    if fields is None:
        ruled.redis.set(f"{RQ}:job:r-{AT}", "x", ex=1000)
    else:
        ruled.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" != CALLS[name](ruled)
    job = ruled.job(f"r-{AT}")
    assert ([f"r-{AT}"], "queued", "call") == (ruled.queue(), job["status"], job["data"])
    assert ("x" in job, -1) == (False, ruled.redis.ttl(f"{RQ}:job:r-{AT}"))


@pytest.mark.parametrize("fields", PUSHED, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_was_pushed_or_taken_is_left_alone(ruled: Namespace, name: str, fields: dict[str, str]) -> None:
    ruled.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" == CALLS[name](ruled)
    mark = {"zs_uncertain": "1"} if name == "restore" else {}
    assert ([], fields | mark) == (ruled.queue(), ruled.job(f"r-{AT}"))


@pytest.mark.parametrize(
    "fields", [{"zs": "1"}, {"zs": "1fse", "zs_expires": "1"}, {"status": "queued", "zs": "1"}], ids=str
)
def test_a_forged_one_shot_does_not_remove_a_rule_from_its_lane(led: Namespace, fields: dict[str, str]) -> None:
    due_ms = led.now_ms - 1000
    led.put_recurring("r", due_ms)
    forged = {"status": "scheduled", "origin": "evil", "data": "mine", **fields}
    led.redis.hset(f"{RQ}:job:r-{due_ms}", mapping=forged)

    fired = led.fire()

    assert ([], [], 0) == (fired.cancelled, fired.expired, fired.runs)
    assert ["r"] == [row[0] for row in fired.recurring]
    assert ({"r": f"normal {due_ms}"}, []) == (led.places(), led.queue("evil"))
    assert forged == led.job(f"r-{due_ms}")
    words = led.advance((fired.recurring[0], due_ms, due_ms + HOUR_MS))
    expected = (["duplicate"], []) if fields.get("status") == "queued" else (["fired"], [f"r-{due_ms}"])
    assert expected == (words, led.queue())
    assert ({"r": f"normal {due_ms + HOUR_MS}"}, []) == (led.places(), led.queue("evil"))


def test_a_one_shot_and_a_rule_are_recognised_without_the_set_of_recurring_ids_and_by_no_field(led: Namespace) -> None:
    due_ms = led.now_ms - 1000
    led.put_recurring("r", due_ms)
    led.put(("a", due_ms), allow_past=1)
    led.redis.set(led.keys.recurring(), "x")
    led.redis.hset(f"{RQ}:job:r-{due_ms}", mapping={"status": "scheduled", "origin": "evil", "zs": "1"})
    led.redis.hset(f"{RQ}:job:a-{due_ms}", mapping={**led.schedule("r"), "zs": "1"})

    fired = led.fire()

    assert (1, ["r"], [led.keys.recurring()]) == (fired.runs, [row[0] for row in fired.recurring], fired.wrong)


def test_restoring_the_run_of_a_waiting_one_shot_changes_nothing(led: Namespace) -> None:
    led.put(("r", AT), allow_past=1)

    assert "-" == _restore(led)
    assert {"r": f"normal {AT}"} == led.places()


def test_a_restored_one_shot_replaces_a_job_key_of_another_type(led: Namespace) -> None:
    led.redis.set(f"{RQ}:job:a-{DUE_MS}", "x")

    restore(led, one_shot())

    assert ({"a": f"low {DUE_MS}"}, "scheduled") == (led.places(), led.job(f"a-{DUE_MS}")["status"])


def test_a_run_on_request_avoids_an_id_that_a_forged_hash_occupies(ruled: Namespace) -> None:
    ruled.freeze(AT + 5)
    ruled.redis.hset(f"{RQ}:job:r-{AT + 5}-r1", "status", "queued")

    word, _, pushed = ruled.call("run_now", id="r")

    assert ("fired", f"r-{AT + 5}-r2") == (word, pushed)
