"""run_now.lua and replan.lua: runs for occurrences that passed, and waiting occurrences at other times."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import EPOCH, HOUR_MS, Namespace
from tests.builders.progress import change_progress
from tests.prefix import RQ
from zsched.core.clock import from_ms

AT = 1_700_000_000_000
LATER = AT + 60_000


@pytest.fixture
def rule(led: Namespace) -> Namespace:
    """A namespace with a recurring schedule r."""
    led.put_recurring("r")
    return led


def backfill(ns: Namespace, *times: int, how: str = "once", op: str = "op-1", **over: Any) -> list[Any]:
    """Backfill *times*; return the word, then the outcome of each."""
    rows = [text for ms in times for text in (ms, how)]
    version = over.get("seen_version") or ns.schedule("r")["version"]
    word, _, *runs = ns.call("run_now", rows, id="r", seen_version=version, op=op)
    return [word, *runs]


def iso(ms: int) -> str:
    """Format an instant as RQ does."""
    return from_ms(ms).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_backfilled_runs_are_queued_in_order_with_the_ids_of_their_occurrences(rule: Namespace) -> None:
    rule.redis.rpush(f"{RQ}:queue:default", "others")

    assert ["fired", f"r-{AT}", f"r-{LATER}"] == backfill(rule, AT, LATER)

    assert ["others", f"r-{AT}", f"r-{LATER}"] == rule.queue()
    assert {f"{RQ}:queue:default".encode()} == rule.redis.smembers(f"{RQ}:queues")
    assert ("backfill", {"id": "r", "runs": f"r-{AT} r-{LATER}"}) == (rule.last.kind, rule.last.fields)


def test_a_run_is_a_copy_of_the_template_that_is_queued_now(rule: Namespace) -> None:
    backfill(rule, AT)

    job = rule.job(f"r-{AT}")
    assert job.keys() == rule.template("r").keys() | {"status", "created_at", "enqueued_at"}
    assert rule.template("r").items() <= job.items()
    assert "queued" == job["status"]
    assert iso(rule.now_ms) == job["created_at"] == job["enqueued_at"]
    assert -1 == rule.redis.pttl(f"{RQ}:job:r-{AT}")


def test_a_backfill_leaves_the_schedule_unchanged_and_goes_to_the_back(led: Namespace) -> None:
    led.put_recurring("r", own={"policy": "f"})
    now = led.call("run_now", id="r")[2]
    before = led.schedule("r"), led.places()

    backfill(led, AT, LATER)

    assert before == (led.schedule("r"), led.places())
    assert [now, f"r-{AT}", f"r-{LATER}"] == led.queue()


@pytest.mark.parametrize("status", ["queued", "started", "finished", "failed"])
def test_a_backfill_does_not_push_an_existing_run_again(rule: Namespace, status: str) -> None:
    rule.redis.hset(f"{RQ}:job:r-{AT}", "status", status)
    before = rule.keyspace()

    assert ["fired", "-"] == backfill(rule, AT)
    assert before == rule.keyspace()
    assert ["fired", "-", f"r-{LATER}"] == backfill(rule, AT, LATER)
    assert ([f"r-{LATER}"], {"id": "r", "runs": f"r-{LATER}"}) == (rule.queue(), rule.last.fields)


OPEN = ("created", "queued", "deferred", "ready_to_enqueue", "rate_limited", "scheduled", "started")


@pytest.mark.parametrize("status", [None, "finished", "failed", "canceled", *OPEN])
def test_a_backfill_with_again_gives_each_extra_run_a_new_id_but_no_open_one(
    rule: Namespace, status: str | None
) -> None:
    if status:
        rule.redis.hset(f"{RQ}:job:r-{AT}", "status", status)

    _, first = backfill(rule, AT, how="again")
    rule.redis.delete(f"{RQ}:job:{first}")
    _, second = backfill(rule, AT, how="again", op="op-2")

    assert (["-", "-"] if status in OPEN else [f"r-{AT}-r2", f"r-{AT}-r3"]) == [first, second]
    assert ([] if status in OPEN else [first, second]) == rule.queue()


def test_the_deadline_of_a_backfilled_run_counts_from_the_push(led: Namespace) -> None:
    led.put_recurring("r", template={"zs_expires": str(HOUR_MS)})

    backfill(led, AT)

    pushed_ms = int(led.last.t) // 1000
    assert str(pushed_ms + HOUR_MS) == led.job(f"r-{AT}")["zs_deadline"]
    assert HOUR_MS - 60_000 < led.redis.pttl(f"{RQ}:job:r-{AT}") <= HOUR_MS


@pytest.mark.parametrize("place", ["paused", "ended"])
def test_a_paused_or_ended_schedule_can_be_backfilled(led: Namespace, place: str) -> None:
    led.put_recurring("r", 5)
    if place == "paused":
        led.call("pause", ["r"], note="")
    else:
        _end(led)

    assert ["fired", f"r-{AT}"] == backfill(led, AT)

    assert [f"r-{AT}"] == led.queue()[-1:]


def _end(ns: Namespace) -> None:
    """End the schedule as advance does when its rule is exhausted."""
    ns.redis.zrem(ns.keys.due_normal(), "r")
    change_progress(ns.redis, ns.keys, "r", nominal=None)
    ns.redis.hset(ns.keys.schedule("r"), "ended_at", ns.now_ms)


def _quarantine(ns: Namespace) -> None:
    ns.redis.zrem(ns.keys.due_normal(), "r")
    ns.redis.hset(ns.keys.quarantine(), "r", "normal 5 5 why")


def _hash_of_another_type(ns: Namespace) -> None:
    ns.redis.rename(ns.keys.recurring(), ns.keys.schedule("r"))
    ns.redis.sadd(ns.keys.recurring(), "r")


REFUSED: dict[str, tuple[Callable[[Namespace], Any], str]] = {
    "of nothing": (lambda ns: ns.call("cancel", ["r"]), "NOTFOUND"),
    "of one that was changed": (
        lambda ns: ns.put_recurring("r", trigger="rule-2", digest="digest-2"),
        "CHANGED",
    ),
    "of one that is a one-shot now": (lambda ns: ns.put_later("r"), "CHANGED"),
    "of one in quarantine": (_quarantine, "QUARANTINED"),
    "without a template": (lambda ns: ns.redis.delete(ns.keys.template("r")), "QUARANTINED"),
    "into a queue that is none": (lambda ns: ns.redis.set(f"{RQ}:queue:default", "x"), "WRONGTYPE"),
    "of what another writer made of it": (_hash_of_another_type, "WRONGTYPE"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_backfill_that_is_refused_writes_nothing(rule: Namespace, what: str) -> None:
    version = rule.schedule("r")["version"]
    change, word = REFUSED[what]
    change(rule)
    before = rule.keyspace()

    assert [word] == [told.partition(":")[0] for told in backfill(rule, AT, seen_version=version)]

    assert before == rule.keyspace()


def test_backfilled_run_ids_contain_the_namespace(redis_client: Any, redis_server: Any) -> None:
    shop = Namespace(redis_client, redis_server.url, "shop")
    shop.lead()
    shop.put_recurring("r")

    first = backfill(shop, AT)
    shop.redis.hset(f"{RQ}:job:r-{AT}-nshop", "status", "finished")
    again = backfill(shop, AT, how="again", op="op-2")
    shop.close()

    assert [["fired", f"r-{AT}-nshop"], ["fired", f"r-{AT}-nshop-r3"]] == [first, again]


# -- replan ------------------------------------------------------------------------------------------


def replan(ns: Namespace, *rows: Any, tzdata: str = "2026a", is_done: int = 0, **over: Any) -> tuple[str, list[str]]:
    """Return the version before, and a word per row."""
    texts = [each for row in rows for each in row]
    _now_ms, before, *words = ns.call("replan", texts, meta_field="tzdata", plans_by=tzdata, is_done=is_done, **over)
    return before, words


def row_of(ns: Namespace, id: str, new_ms: int, jitter_ms: int = 0) -> list[Any]:
    """Return a row that moves *id* from its current time."""
    schedule = ns.schedule(id)
    due_ms = ns.places()[id].split()[-1]
    return [id, schedule["version"], due_ms, schedule["nominal"], new_ms, new_ms + jitter_ms, "-"]


def test_replan_moves_a_waiting_occurrence_in_its_lane(led: Namespace) -> None:
    _, _, _, due_ms = led.put_recurring("r", lane="high")
    before = led.schedule("r")
    new_ms = int(due_ms) - HOUR_MS
    row = row_of(led, "r", new_ms, 7)

    assert ("", ["moved"]) == replan(led, row)

    assert {"r": f"high {new_ms + 7}"} == led.places()
    assert before | {"nominal": str(new_ms)} == led.schedule("r")
    entry = led.last
    assert (f"{EPOCH}-2", "replan", {"of": "tzdata", "old": "", "new": "2026a"}) == (entry.id, entry.kind, entry.fields)
    assert [f"r {due_ms} {new_ms} {new_ms + 7} -"] == entry.rows


def test_replan_moves_a_paused_schedule_and_keeps_pause_time_and_note(led: Namespace) -> None:
    _, _, _, due_ms = led.put_recurring("r", lane="low")
    led.call("pause", ["r"], note="until the sale is over")
    _, _, since_ms, note = led.redis.hget(led.keys.paused(), "r").decode().split(" ", 3)
    new_ms = int(due_ms) + HOUR_MS

    assert ["moved"] == replan(led, row_of(led, "r", new_ms))[1]

    assert f"low {new_ms} {since_ms} {note}" == led.redis.hget(led.keys.paused(), "r").decode()
    assert str(new_ms) == led.schedule("r")["nominal"]
    led.call("resume", ["r", ""], missed="fire")
    assert {"r": f"low {new_ms}"} == led.places()


CHANGED = {
    "another rule": lambda g, row: [row[0], "0-1", *row[2:]],
    "another due time": lambda g, row: [*row[:2], int(row[2]) - 1, *row[3:]],
    "another nominal time": lambda g, row: [*row[:3], int(row[3]) - 1, *row[4:]],
    "it is gone": lambda g, row: g.call("cancel", ["r"]) and row,
    "quarantined": lambda g, row: g.call("quarantine", ["r", "normal", row[2], g.progress("r"), "why"]) and row,
    "a one-shot of its name": lambda g, row: g.put(("r", row[2]), allow_past=1) and row,
    "wrong type at its key": lambda g, row: (g.redis.delete(g.keys.schedule("r")), g.redis.set(g.keys.schedule("r"), 1),
                                             row)[-1],
}  # fmt: skip


@pytest.mark.parametrize("why", CHANGED)
def test_replan_skips_a_schedule_that_changed_since_it_was_read(led: Namespace, why: str) -> None:
    _, _, _, due_ms = led.put_recurring("r")
    led.put_recurring("other")
    new_ms = int(due_ms) + HOUR_MS
    row, other = row_of(led, "r", new_ms), row_of(led, "other", new_ms)
    row = CHANGED[why](led, row)
    place, schedule = led.places().get("r"), led.redis.dump(led.keys.schedule("r"))

    assert ["changed", "moved"] == replan(led, row, other)[1]

    assert (place, schedule) == (led.places().get("r"), led.redis.dump(led.keys.schedule("r")))
    assert f"normal {new_ms}" == led.places()["other"]
    assert [f"other {other[3]} {new_ms} {new_ms} -"] == led.last.rows


def test_replanning_twice_changes_nothing_more(led: Namespace) -> None:
    _, _, _, due_ms = led.put_recurring("r")
    row = row_of(led, "r", int(due_ms) + HOUR_MS)
    replan(led, row)
    before = led.keyspace()

    assert ["changed"] == replan(led, row)[1]
    assert before == led.keyspace()


def test_replan_stores_the_tzdata_version_when_it_is_done(led: Namespace) -> None:
    _, _, _, due_ms = led.put_recurring("r")

    assert "" == replan(led, row_of(led, "r", int(due_ms) + 1))[0]
    assert led.redis.hget(led.keys.meta(), "tzdata") is None
    assert "" == replan(led, is_done=1)[0]
    assert "2026a" == replan(led, tzdata="2026b")[0]
    assert "2026a" == replan(led, row_of(led, "r", int(due_ms) + 2), tzdata="2026b", is_done=1)[0]

    assert {"old": "2026a", "new": "2026b"} == {name: led.last.fields[name] for name in ("old", "new")}
    assert b"2026b" == led.redis.hget(led.keys.meta(), "tzdata")
    assert ["put_recurring", "replan", "replan"] == [entry.kind for entry in led.entries()]
