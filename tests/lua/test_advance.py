"""advance.lua: planned occurrences of recurring schedules."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import EPOCH, HOUR_MS, LEASE_MS, TEMPLATE, Namespace
from tests.builders.progress import change_progress
from tests.prefix import RQ
from zsched.core.clock import from_ms

_HEARTBEAT_MS = 62_000


def _due(ns: Namespace, *ids: str, **put: Any) -> list[list[str]]:
    """Return rows of due recurring schedules, as fire answers them."""
    for id in ids or ("r",):
        ns.put_recurring(id, ns.now_ms - 1000, **({"template": {"status": "queued"}} | put))
    return ns.fire().recurring


def _iso(ms: int) -> str:
    return from_ms(ms).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def test_a_planned_occurrence_is_copied_from_the_template_and_pushed(led: Namespace) -> None:
    [row] = _due(led)
    due_ms, next_ms = int(row[2]), led.now_ms + HOUR_MS

    words = led.advance((row, due_ms, next_ms))

    run = f"r-{due_ms}"
    assert (["fired"], [run], {"r": f"normal {next_ms}"}) == (words, led.queue(), led.places())
    job = led.job(run)
    now = _iso(int(led.last.t[:13]))
    assert TEMPLATE | {"status": "queued", "created_at": now, "enqueued_at": now} == job
    schedule = led.schedule("r")
    assert [run, str(next_ms)] == [schedule["last"], schedule["nominal"]]
    assert TEMPLATE | {"status": "queued"} == led.template("r")


def test_a_log_entry_of_advance_has_a_row_per_schedule(led: Namespace) -> None:
    first, second = _due(led, "a", "b")
    due_a, due_b, next_ms = int(first[2]), int(second[2]), led.now_ms + HOUR_MS

    led.advance((first, due_a, next_ms), (second, due_b + 500, "", due_b, due_b + 400, 3))

    entry = led.last
    assert (f"{EPOCH}-3", "advance") == (entry.id, entry.kind)
    assert [
        f"a fired {due_a} {next_ms} {next_ms} -",
        f"b fired {due_b + 500} - - coalesced:{due_b}:{due_b + 400}:3",
    ] == entry.rows


CHANGES: dict[str, Callable[[Namespace], Any]] = {
    "its rule": lambda led: led.put_recurring("r", led.now_ms + HOUR_MS, trigger="rule-2", digest="digest-2"),
    "its payload": lambda led: led.put_recurring("r", digest="digest-2"),
    "a cancel": lambda led: led.call("cancel", ["r"]),
    "a pause": lambda led: led.call("pause", ["r"], note=""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_advance_skips_a_schedule_that_changed_since_fire(led: Namespace, change: str) -> None:
    [row] = _due(led)
    CHANGES[change](led)
    before = led.keyspace()

    assert ["changed"] == led.advance((row, int(row[2]), led.now_ms + 5000))
    assert before == led.keyspace()


def test_schedules_with_the_same_plan_are_checked_individually(led: Namespace) -> None:
    due_ms, next_ms = led.now_ms - 1000, led.now_ms + HOUR_MS
    for id in ("changed", "first", "plain", "pushed"):
        led.put_recurring(id, due_ms, own={"policy": "f" if id == "first" else ""})
    rows = led.fire().recurring
    change_progress(led.redis, led.keys, "changed", version="7-999-9")
    led.redis.hset(led.keys.rq.job(f"pushed-{due_ms}"), "status", "finished")

    words = led.advance(*((row, due_ms, next_ms) for row in rows))

    assert [("changed", "changed"), ("first", "fired"), ("plain", "fired"), ("pushed", "duplicate")] == [
        (row[0], word) for row, word in zip(rows, words, strict=True)
    ]
    assert [f"first-{due_ms}", f"plain-{due_ms}"] == led.queue()


def test_an_advance_that_is_sent_twice_pushes_one_run(led: Namespace) -> None:
    [row] = _due(led)
    due_ms, next_ms = int(row[2]), led.now_ms + HOUR_MS

    led.advance((row, due_ms, next_ms))

    assert ["changed"] == led.advance((row, due_ms, next_ms))
    assert 1 == len(led.queue())


def test_a_run_id_that_exists_already_is_not_pushed_again_and_the_schedule_continues(led: Namespace) -> None:
    [row] = _due(led)
    due_ms, next_ms = int(row[2]), led.now_ms + HOUR_MS
    led.redis.hset(f"{RQ}:job:r-{due_ms}", mapping={"status": "finished", "data": "old"})

    words = led.advance((row, due_ms, next_ms))

    assert (["duplicate"], [], {"r": f"normal {next_ms}"}) == (words, led.queue(), led.places())
    assert {"status": "finished", "data": "old"} == led.job(f"r-{due_ms}")
    assert led.last.rows[0].startswith(f"r duplicate {due_ms} ")


def _with_previous(led: Namespace, **job: str) -> list[str]:
    """Return the row of a due schedule whose last run is *job*."""
    [row] = _due(led)
    change_progress(led.redis, led.keys, "r", last="r-1")
    led.redis.hset(f"{RQ}:job:r-1", mapping=job)
    return [*row[:3], led.progress("r")]


@pytest.mark.parametrize("status", ["queued", "started", "deferred", "scheduled"])
def test_a_run_whose_previous_one_is_open_is_skipped_and_recorded(led: Namespace, status: str) -> None:
    row = _with_previous(led, status=status, enqueued_at=_iso(led.now_ms), last_heartbeat=_iso(led.now_ms))
    next_ms = led.now_ms + HOUR_MS

    words = led.advance((row, int(row[2]), next_ms))

    assert (["overlap"], [], {"r": f"normal {next_ms}"}) == (words, led.queue(), led.places())
    assert led.last.rows[0].endswith(" - r-1")
    assert "r-1" == led.schedule("r")["last"]
    assert 0 == led.redis.exists(f"{RQ}:job:r-{row[2]}")


@pytest.mark.parametrize(
    ("job", "word", "why"),
    [
        ({"status": "started", "last_heartbeat": -_HEARTBEAT_MS - 5000}, "fired", "previous_worker_silent"),
        ({"status": "started", "last_heartbeat": -_HEARTBEAT_MS + 5000}, "overlap", "r-1"),
        ({"status": "started"}, "overlap", "r-1"),
        ({"status": "started", "last_heartbeat": ""}, "overlap", "r-1"),
        ({"status": "queued", "enqueued_at": -HOUR_MS - 5000}, "fired", "previous_waits_too_long"),
        ({"status": "queued", "enqueued_at": -HOUR_MS + 5000}, "overlap", "r-1"),
        ({"status": "scheduled", "enqueued_at": -HOUR_MS - 5000}, "fired", "previous_waits_too_long"),
        ({"status": "scheduled", "enqueued_at": -HOUR_MS + 5000}, "overlap", "r-1"),
    ],
)
def test_advance_records_why_a_dead_or_old_run_is_ignored(
    led: Namespace, job: dict[str, Any], word: str, why: str
) -> None:
    times = {name: _iso(led.now_ms + ago) for name, ago in job.items() if isinstance(ago, int)}
    row = _with_previous(led, **(job | times))

    assert [word] == led.advance((row, int(row[2]), led.now_ms + HOUR_MS))
    assert led.last.rows[0].endswith(f" - {why}")


@pytest.mark.parametrize(("flags", "word"), [("", "uncertain"), ("s", "skipped")])
def test_an_occurrence_due_before_the_doubt_is_uncertain_or_skipped(led: Namespace, flags: str, word: str) -> None:
    [row] = _due(led, own={"policy": flags})
    run, next_ms = f"r-{row[2]}", led.now_ms + HOUR_MS
    led.redis.hset(led.keys.meta(), "doubt", row[2])

    assert [word] == led.advance((row, int(row[2]), next_ms))

    assert (([], None) if flags else ([run], "1")) == (led.queue(), led.job(run).get("zs_uncertain"))
    assert {"r": f"normal {next_ms}"} == led.places()
    assert led.last.rows[0].startswith(f"r {word} {row[2]} ")
    assert (None if flags else run) == led.schedule("r").get("last")
    assert "zs_uncertain" not in led.template("r")


def test_the_doubt_is_compared_with_the_fired_occurrence(led: Namespace) -> None:
    [row] = _due(led)
    due_ms = int(row[2])
    led.redis.hset(led.keys.meta(), "doubt", due_ms)

    assert ["fired"] == led.advance((row, due_ms + 500, led.now_ms + HOUR_MS, due_ms, due_ms, 1))
    assert [f"r-{due_ms + 500}"] == led.queue()


def test_the_doubt_is_compared_with_the_due_time_whose_jitter_is_in_the_log_row(led: Namespace) -> None:
    [row] = _due(led, own={"policy": "s"})
    nominal_ms, next_ms = int(row[2]) - 500, led.now_ms + HOUR_MS  # jitter: nothing can have pushed it before
    led.redis.hset(led.keys.meta(), "doubt", nominal_ms + 100)

    assert ["fired"] == led.advance((row, nominal_ms, next_ms), jitter_ms=500)
    assert [f"r-{nominal_ms}"] == led.queue()
    assert [f"r fired {nominal_ms}+500 {next_ms} {next_ms} -"] == led.last.rows


def test_a_run_with_the_front_flag_is_pushed_to_the_front_also_without_a_set_of_queues(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "waiting")
    led.redis.set(f"{RQ}:queues", "not a set")
    [row] = _due(led, own={"policy": "f"})

    assert ["fired"] == led.advance((row, int(row[2]), led.now_ms + HOUR_MS))
    assert [f"r-{row[2]}", "waiting"] == led.queue()


def test_an_exhausted_schedule_is_marked_ended_and_stays_readable(led: Namespace) -> None:
    [row] = _due(led)

    assert ["fired"] == led.advance((row, int(row[2]), ""))
    assert {} == led.places()
    schedule = led.schedule("r")
    assert led.last.t.startswith(schedule["ended_at"])
    assert "nominal" not in schedule
    assert {b"r"} == led.redis.smembers(led.keys.recurring())
    assert [] == led.fire().recurring


@pytest.mark.parametrize("broken", ["template gone", "template of another type"])
def test_a_schedule_that_cannot_be_pushed_is_quarantined_and_the_rest_continue(led: Namespace, broken: str) -> None:
    [bad] = _due(led, "bad", template={"origin": "broken"})
    [_, good] = _due(led, "good")
    led.redis.delete(led.keys.template("bad"))
    if broken == "template of another type":
        led.redis.set(led.keys.template("bad"), "a string")
    next_ms = led.now_ms + HOUR_MS

    words = led.advance((bad, int(bad[2]), next_ms), (good, int(good[2]), next_ms))

    assert ["quarantined", "fired"] == words
    assert {"bad": f"quarantine normal {bad[2]}", "good": f"normal {next_ms}"} == led.places()
    assert [f"good-{good[2]}"] == led.queue()
    _, _, since_ms, reason = led.redis.hget(led.keys.quarantine(), "bad").decode().split(" ", 3)
    assert (led.last.t[:13], "its template is gone or of the wrong type") == (since_ms, reason)


def test_advance_is_refused_during_a_hold_and_after_a_clock_jump(led: Namespace) -> None:
    [row] = _due(led)
    planned = [row[1], 1, 1, f"1 {row[2]} {row[2]} skip 1 - - -", row[0], row[3]]

    jumped = led.call("advance", planned, clock_from_ms=led.now_ms + 9000)
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + LEASE_MS)
    held = led.call("advance", planned)

    assert ["JUMPED", "HELD"] == [jumped[0], held[0]]
    assert [] == led.queue()


def test_the_run_of_another_namespace_carries_its_name(led: Namespace, redis_url: str) -> None:
    email = Namespace(led.redis, redis_url, "email")
    email.lead()
    [row] = _due(email)

    email.advance((row, int(row[2]), email.now_ms + HOUR_MS))

    assert [f"r-{row[2]}-nemail"] == led.queue()
    assert f"r-{row[2]}-nemail" == email.schedule("r")["last"]
    email.check_log()
    email.close()
