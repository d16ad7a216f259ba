"""lib/pushed.lua: an existing hash suppresses no run, and no run is pushed twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lua.ground import HOUR_MS, Ground
from tests.lua.restoring import DUE_MS, one_shot, restore, run
from tests.prefix import RQ

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


def _advance(ground: Ground) -> str:
    version = ground.schedule("r")["version"]
    [word] = ground.advance((["r", "normal", str(AT), version], AT, AT + HOUR_MS))
    return "-" if word == "duplicate" else word


def _backfill(ground: Ground) -> str:
    version = ground.schedule("r")["version"]
    return str(ground.call("backfill", [AT, "once"], id="r", planned_version=version)[2])


def _restore(ground: Ground) -> str:
    [place] = restore(ground, run(id="r", ms=AT))[3]
    return "pushed" if place == "open" else "-"


CALLS: dict[str, Callable[[Ground], str]] = {"advance": _advance, "backfill": _backfill, "restore": _restore}


@pytest.fixture
def rule(led: Ground) -> Ground:
    led.put_recurring("r", AT)
    return led


@pytest.mark.parametrize("fields", [*NOT_PUSHED, None], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_forged_hash_or_key_is_replaced_by_the_run(rule: Ground, name: str, fields: dict[str, str] | None) -> None:
    if fields is None:
        rule.redis.set(f"{RQ}:job:r-{AT}", "x", ex=1000)
    else:
        rule.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" != CALLS[name](rule)
    job = rule.job(f"r-{AT}")
    assert ([f"r-{AT}"], "queued", "call") == (rule.queue(), job["status"], job["data"])
    assert ("x" in job, -1) == (False, rule.redis.ttl(f"{RQ}:job:r-{AT}"))


@pytest.mark.parametrize("fields", PUSHED, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_was_pushed_or_taken_is_left_alone(rule: Ground, name: str, fields: dict[str, str]) -> None:
    rule.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" == CALLS[name](rule)
    mark = {"zs_uncertain": "1"} if name == "restore" else {}
    assert ([], fields | mark) == (rule.queue(), rule.job(f"r-{AT}"))


@pytest.mark.parametrize(
    "fields", [{"zs": "1"}, {"zs": "1fse", "zs_expires": "1"}, {"status": "queued", "zs": "1"}], ids=str
)
def test_a_forged_one_shot_does_not_remove_a_rule_from_its_lane(led: Ground, fields: dict[str, str]) -> None:
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


def test_a_one_shot_stays_a_one_shot_whatever_fields_its_job_has(led: Ground) -> None:
    due_ms = led.now_ms - 1000
    led.put_recurring("r")
    led.put(("a", due_ms), allow_past=1)
    led.redis.hset(f"{RQ}:job:a-{due_ms}", mapping={**led.schedule("r"), "zs": "1"})

    fired = led.fire()

    assert (1, []) == (fired.runs, fired.recurring)


def test_a_recurring_schedule_is_recognised_without_the_set_of_recurring_ids(led: Ground) -> None:
    due_ms = led.now_ms - 1000
    led.put_recurring("r", due_ms)
    led.put(("a", due_ms), allow_past=1)
    led.redis.delete(led.keys.recurring())
    led.redis.set(led.keys.recurring(), "x")
    led.redis.hset(f"{RQ}:job:r-{due_ms}", mapping={"status": "scheduled", "origin": "evil", "zs": "1"})

    fired = led.fire()

    assert (1, ["r"], [led.keys.recurring()]) == (fired.runs, [row[0] for row in fired.recurring], fired.wrong)


def test_restoring_the_run_of_a_waiting_one_shot_changes_nothing(led: Ground) -> None:
    led.put(("r", AT), allow_past=1)

    assert "-" == _restore(led)
    assert {"r": f"normal {AT}"} == led.places()


def test_a_restored_one_shot_replaces_a_job_key_of_another_type(led: Ground) -> None:
    led.redis.set(f"{RQ}:job:a-{DUE_MS}", "x")

    restore(led, one_shot())

    assert ({"a": f"low {DUE_MS}"}, "scheduled") == (led.places(), led.job(f"a-{DUE_MS}")["status"])


def test_a_run_on_request_avoids_an_id_that_a_forged_hash_occupies(rule: Ground) -> None:
    rule.freeze(AT + 5)
    rule.redis.hset(f"{RQ}:job:r-{AT + 5}-r1", "status", "queued")

    word, _, pushed = rule.call("run_now", id="r")

    assert ("fired", f"r-{AT + 5}-r2") == (word, pushed)
