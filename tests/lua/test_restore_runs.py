"""restore.lua: runs that Redis lost are pushed again, skipped, or left to RQ."""

from __future__ import annotations

import pytest

from tests.lua.ground import HOUR_MS, TEMPLATE, Ground
from tests.lua.restoring import DUE_MS, gone, logged, one_shot, restore, rule, run, texts_of
from tests.prefix import RQ
from zsched.core.log.recovery import Restored


def test_an_open_run_is_pushed_again_and_marked_uncertain(led: Ground) -> None:
    reply = restore(led, run())

    job = led.job(f"a-{DUE_MS}")
    assert ("queued", "1", "call") == (job["status"], job["zs_uncertain"], job["data"])
    assert job["created_at"] == job["enqueued_at"]
    assert ([f"a-{DUE_MS}"], {f"{RQ}:queue:default".encode()}) == (led.queue(), led.redis.smembers(f"{RQ}:queues"))
    assert ({}, ["open"]) == (led.places(), reply[3])


def test_restored_runs_are_pushed_in_order_and_runs_of_front_schedules_first(led: Ground) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "others")
    of_rule = run(id="r")._replace(job=texts_of(TEMPLATE), own=texts_of({"flags": "f"}))

    restore(led, run(id="a"), run(id="b", flags="f"), of_rule, run(id="c"), run(id="d", flags="f"))

    assert [f"{id}-{DUE_MS}" for id in "brd"] + ["others", f"a-{DUE_MS}", f"c-{DUE_MS}"] == led.queue()
    assert "flags" not in led.job(f"r-{DUE_MS}")


def test_a_skipped_run_is_only_recorded(led: Ground) -> None:
    before = led.keyspace()

    restore(led, run("skipped"), hold_for_ms=0)

    changed = {key for key, value in led.keyspace().items() if before.get(key) != value}
    assert {led.keys.log().encode(), led.keys.meta().encode()} == changed
    assert ["skipped"] == [row.place for row in logged(led.last)]


def test_a_run_without_a_queue_or_for_a_broken_one_is_refused_and_the_others_go_on(led: Ground) -> None:
    led.redis.set(f"{RQ}:queue:broken", "a text")
    without = run(id="w")._replace(job=texts_of({"data": "call"}))

    reply = restore(led, run(id="x", queue="broken"), without, run(id="y"), one_shot(id="z"))

    assert ([f"y-{DUE_MS}"], {"z": f"low {DUE_MS}"}) == (led.queue(), led.places())
    assert {} == led.job(f"x-{DUE_MS}")
    assert ["refused", "refused", "open", "due"] == [row.place for row in logged(led.last)] == reply[3]


def test_a_run_whose_job_exists_is_not_pushed_again_also_if_its_queue_is_broken(led: Ground) -> None:
    restore(led, run(), run(id="b"))
    before = led.job(f"a-{DUE_MS}")
    led.redis.set(f"{RQ}:queue:broken", "a text")

    reply = restore(led, run(), run(id="b", queue="broken"))

    assert ([f"a-{DUE_MS}", f"b-{DUE_MS}"], before) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", "held"] == [row.place for row in logged(led.last)] == reply[3]


@pytest.mark.parametrize("place", ["open", "skipped"])
@pytest.mark.parametrize("status", ["failed", "finished", "started"])
def test_a_run_with_only_a_workers_fields_is_left_to_rq(led: Ground, place: str, status: str) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", status)

    reply = restore(led, run(place), run(place, id="b"))

    pushed = [f"b-{DUE_MS}"] if place == "open" else []
    assert (pushed, {"status": status, "zs_uncertain": "1"}) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", place] == [row.place for row in logged(led.last)] == reply[3]
    assert run(place).job == logged(led.last)[0].job


def test_a_dry_run_says_what_would_be_logged_and_writes_nothing(led: Ground) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "started")
    led.redis.set(f"{RQ}:queue:broken", "a text")
    before = led.keyspace()

    reply = restore(led, run(), run("skipped", id="b"), run(id="c", queue="broken"), one_shot(id="d"), reason="dry")

    assert ["-", "0", ["held", "skipped", "refused", "due"]] == reply[1:]
    assert before == led.keyspace()


@pytest.mark.parametrize("there", ["due", "paused"])
@pytest.mark.parametrize("back", [one_shot()._replace(run=str(DUE_MS + 5), due_ms=DUE_MS + 5), rule(id="a"), gone("a")])
def test_a_run_whose_schedule_was_removed_is_pushed_again(led: Ground, back: Restored, there: str) -> None:
    led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", ["a"], note="")

    restore(led, back, run())

    assert ([f"a-{DUE_MS}"], "queued") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert [back.place, "open"] == [row.place for row in logged(led.last)]


def test_a_scheduled_run_that_rq_cancelled_is_not_pushed(led: Ground) -> None:
    led.put(("a", DUE_MS))
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "canceled")

    restore(led, rule(id="a"), run())

    assert ([], "canceled") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert ["due", "held"] == [row.place for row in logged(led.last)]


@pytest.mark.parametrize(("left_ms", "is_guarded"), [(HOUR_MS, True), (-1, False)])
def test_a_restored_run_has_the_rest_of_its_guard(led: Ground, left_ms: int, is_guarded: bool) -> None:
    pushed_ms = led.now_ms - HOUR_MS
    one = run(ms=pushed_ms)._replace(t_us=pushed_ms * 1000)
    one = one._replace(job=(*one.job, b"zs_unique", str(HOUR_MS + left_ms).encode()))

    restore(led, one)

    guard = led.redis.get(f"{led.keys.unique_prefix()}a")
    assert (f"{pushed_ms + HOUR_MS + left_ms} a-{pushed_ms}".encode() if is_guarded else None) == guard
