"""backfill.lua: runs for occurrences that passed without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, Ground
from tests.prefix import RQ
from zsched.core.clock import from_ms

AT = 1_700_000_000_000
LATER = AT + 60_000


@pytest.fixture
def rule(led: Ground) -> Ground:
    """A namespace with a recurring schedule r."""
    led.put_recurring("r")
    return led


def backfill(ground: Ground, *times: int, how: str = "once", op: str = "op-1", **over: Any) -> list[Any]:
    """Backfill *times*; return the word, then the outcome of each."""
    rows = [text for ms in times for text in (ms, how)]
    version = over.get("planned_version") or ground.schedule("r")["version"]
    word, _, *runs = ground.call("backfill", rows, id="r", planned_version=version, op=op, keep_op_ms=60_000)
    return [word, *runs]


def iso(ms: int) -> str:
    """Format an instant as RQ does."""
    return from_ms(ms).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_backfilled_runs_are_queued_in_order_with_the_ids_of_their_occurrences(rule: Ground) -> None:
    rule.redis.rpush(f"{RQ}:queue:default", "others")

    assert ["backfilled", f"r-{AT}", f"r-{LATER}"] == backfill(rule, AT, LATER)

    assert ["others", f"r-{AT}", f"r-{LATER}"] == rule.queue()
    assert {f"{RQ}:queue:default".encode()} == rule.redis.smembers(f"{RQ}:queues")
    assert ("backfill", {"id": "r", "runs": f"r-{AT} r-{LATER}"}) == (rule.last.kind, rule.last.fields)


def test_a_run_is_a_copy_of_the_template_that_is_queued_now(rule: Ground) -> None:
    backfill(rule, AT)

    job = rule.job(f"r-{AT}")
    assert job.keys() == rule.template("r").keys() | {"status", "created_at", "enqueued_at"}
    assert rule.template("r").items() <= job.items()
    assert "queued" == job["status"]
    assert iso(rule.now_ms) == job["created_at"] == job["enqueued_at"]
    assert -1 == rule.redis.pttl(f"{RQ}:job:r-{AT}")


def test_a_backfill_leaves_the_schedule_unchanged_and_goes_to_the_back(led: Ground) -> None:
    led.put_recurring("r", own={"flags": "f"})
    now = led.call("run_now", id="r")[2]
    before = led.schedule("r"), led.places()

    backfill(led, AT, LATER)

    assert before == (led.schedule("r"), led.places())
    assert [now, f"r-{AT}", f"r-{LATER}"] == led.queue()


@pytest.mark.parametrize("status", ["queued", "started", "finished", "failed"])
def test_a_backfill_does_not_push_an_existing_run_again(rule: Ground, status: str) -> None:
    rule.redis.hset(f"{RQ}:job:r-{AT}", "status", status)
    before = rule.keyspace()

    assert ["backfilled", "-"] == backfill(rule, AT)
    assert before == rule.keyspace()
    assert ["backfilled", "-", f"r-{LATER}"] == backfill(rule, AT, LATER)
    assert ([f"r-{LATER}"], {"id": "r", "runs": f"r-{LATER}"}) == (rule.queue(), rule.last.fields)


@pytest.mark.parametrize("status", [None, "finished", "failed", "canceled"])
def test_a_backfill_with_again_gives_each_extra_run_a_new_id(rule: Ground, status: str | None) -> None:
    if status:
        rule.redis.hset(f"{RQ}:job:r-{AT}", "status", status)

    _, first = backfill(rule, AT, how="again")
    rule.redis.delete(f"{RQ}:job:{first}")
    _, second = backfill(rule, AT, how="again", op="op-2")

    assert [f"r-{AT}-r2", f"r-{AT}-r3"] == [first, second]
    assert [first, second] == rule.queue()


@pytest.mark.parametrize(
    "status", ["created", "queued", "deferred", "ready_to_enqueue", "rate_limited", "scheduled", "started"]
)
def test_an_open_run_is_not_backfilled_again(rule: Ground, status: str) -> None:
    rule.redis.hset(f"{RQ}:job:r-{AT}", "status", status)

    assert ["backfilled", "-"] == backfill(rule, AT, how="again")


def test_the_deadline_of_a_backfilled_run_counts_from_the_push(led: Ground) -> None:
    led.put_recurring("r", template={"zs_expires": str(HOUR_MS)})

    backfill(led, AT)

    pushed_ms = int(led.last.t) // 1000
    assert str(pushed_ms + HOUR_MS) == led.job(f"r-{AT}")["zs_deadline"]
    assert HOUR_MS - 60_000 < led.redis.pttl(f"{RQ}:job:r-{AT}") <= HOUR_MS


@pytest.mark.parametrize("place", ["paused", "ended"])
def test_a_paused_or_ended_schedule_can_be_backfilled(led: Ground, place: str) -> None:
    led.put_recurring("r", 5)
    if place == "paused":
        led.call("pause", ["r"], note="")
    else:
        _end(led)

    assert ["backfilled", f"r-{AT}"] == backfill(led, AT)

    assert [f"r-{AT}"] == led.queue()[-1:]


def _end(ground: Ground) -> None:
    """End the schedule as advance does when its rule is exhausted."""
    ground.redis.zrem(ground.keys.due_normal(), "r")
    ground.redis.hdel(ground.keys.schedule("r"), "nominal")
    ground.redis.hset(ground.keys.schedule("r"), "ended_at", ground.now_ms)


def _quarantine(ground: Ground) -> None:
    ground.redis.zrem(ground.keys.due_normal(), "r")
    ground.redis.hset(ground.keys.quarantine(), "r", "normal 5 5 why")


def _hash_of_another_type(ground: Ground) -> None:
    ground.redis.rename(ground.keys.recurring(), ground.keys.schedule("r"))
    ground.redis.sadd(ground.keys.recurring(), "r")


REFUSED: dict[str, tuple[Callable[[Ground], Any], str]] = {
    "of nothing": (lambda ground: ground.call("cancel", ["r"]), "NOTFOUND"),
    "of one that was changed": (
        lambda ground: ground.put_recurring("r", trigger="rule-2", digest="digest-2"),
        "CHANGED",
    ),
    "of one that is a one-shot now": (lambda ground: ground.put_later("r"), "CHANGED"),
    "of one in quarantine": (_quarantine, "QUARANTINED"),
    "without a template": (lambda ground: ground.redis.delete(ground.keys.template("r")), "QUARANTINED"),
    "into a queue that is none": (lambda ground: ground.redis.set(f"{RQ}:queue:default", "x"), "WRONGTYPE"),
    "of what another writer made of it": (_hash_of_another_type, "WRONGTYPE"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_backfill_that_is_refused_writes_nothing(rule: Ground, what: str) -> None:
    version = rule.schedule("r")["version"]
    change, word = REFUSED[what]
    change(rule)
    before = rule.keyspace()

    assert [word] == backfill(rule, AT, planned_version=version)

    assert before == rule.keyspace()


def test_backfilled_run_ids_contain_the_namespace(redis_client: Any, redis_server: Any) -> None:
    shop = Ground(redis_client, redis_server.url, "shop")
    shop.lead()
    shop.put_recurring("r")

    first = backfill(shop, AT)
    shop.redis.hset(f"{RQ}:job:r-{AT}-nshop", "status", "finished")
    again = backfill(shop, AT, how="again", op="op-2")
    shop.close()

    assert [["backfilled", f"r-{AT}-nshop"], ["backfilled", f"r-{AT}-nshop-r3"]] == [first, again]
