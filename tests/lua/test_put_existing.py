"""put.lua over an existing run, job or schedule: fired runs, repairs, other states, updates and signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, Ground
from tests.prefix import RQ


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        *(
            ({"status": status, "data": "old", "zs": "1"}, "already_fired")
            for status in ("queued", "started", "finished", "failed", "canceled")
        ),
        ({"status": "finished"}, "already_fired"),  # a worker's fields alone
        ({"status": "queued", "last_heartbeat": "x"}, "already_fired"),
        ({"last_heartbeat": "x"}, "already_fired"),
        ({"data": "theirs", "status": "finished"}, "TAKEN"),  # a foreign job
        ({"data": "theirs", "enqueued_at": "x"}, "TAKEN"),
        ({"data": "theirs", "status": "later"}, "TAKEN"),
    ],
    ids=str,
)
def test_a_put_whose_run_exists_in_rq_leaves_it_alone(ground: Ground, fields: dict[str, str], word: str) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=fields)

    words = ground.put(("a", due_ms, "new"), ("b", due_ms))

    assert [(word, str(due_ms)), ("created", str(due_ms))] == words
    assert (fields, {"b": f"normal {due_ms}"}) == (ground.job(f"a-{due_ms}"), ground.places())


def _forge(**fields: str) -> Callable[[Ground, str], Any]:
    return lambda ground, run: ground.redis.hset(ground.keys.rq.job(run), mapping=fields)


def _lose(ground: Ground, run: str) -> None:
    ground.put_later("a")
    ground.redis.delete(ground.keys.rq.job(run))


def _misplace(ground: Ground, run: str) -> None:
    ground.put_later("a", fields=FIELDS | {"result_ttl": "60"})
    ground.redis.zrem(ground.keys.due_normal(), "a")


def _quarantine(ground: Ground, run: str) -> None:
    ground.redis.hset(ground.keys.quarantine(), "a", f"normal {ground.now_ms + HOUR_MS} 1 its hash is gone")


REPAIRED: dict[str, tuple[Callable[[Ground, str], Any], str]] = {
    "a forged hash": (_forge(x="1"), "created"),
    "a forged hash that is scheduled": (_forge(status="scheduled", x="1"), "created"),
    "a forged hash with empty fields": (_forge(status="", started_at=""), "created"),
    "a schedule without its hash": (_lose, "updated"),
    "a hash that is in no lane": (_misplace, "created"),
    "a schedule in quarantine": (_quarantine, "updated"),
    "a recurring schedule": (lambda ground, run: ground.put_recurring("a"), "updated"),
}


@pytest.mark.parametrize("there", REPAIRED)
def test_a_put_repairs_or_replaces_what_is_there(ground: Ground, there: str) -> None:
    ground.freeze()
    due_ms = ground.now_ms + HOUR_MS
    prepare, word = REPAIRED[there]
    prepare(ground, f"a-{due_ms}")

    assert [(word, str(due_ms))] == ground.put(("a", due_ms))

    assert {"a": f"normal {due_ms}"} == ground.places()
    job = ground.job(f"a-{due_ms}")
    assert FIELDS | {"data": "call", "status": "scheduled", "created_at": job["created_at"]} == job
    assert 0 == ground.redis.exists(ground.keys.recurring(), ground.keys.schedule("a"), ground.keys.template("a"))


@pytest.mark.parametrize(
    ("lane", "later_ms", "word"),
    [("normal", 0, "already_fired"), ("high", 0, "already_fired"), ("normal", 1, "updated")],
)
def test_a_put_keeps_a_run_that_rq_cancelled(ground: Ground, lane: str, later_ms: int, word: str) -> None:
    due_ms = ground.put_later("a")
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", "status", "canceled")

    words = ground.put(("a", due_ms + later_ms, "other"), lane=lane)

    assert [(word, str(due_ms + later_ms))] == words
    assert "canceled" == ground.job(f"a-{due_ms}")["status"]
    assert later_ms == 0 or {"a": f"normal {due_ms + later_ms}"} == ground.places()


def test_a_key_of_another_type_at_the_run_is_reported_and_the_rest_is_put(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.rpush(f"{RQ}:job:bad-{due_ms}", "x")

    words = ground.put(("bad", due_ms), ("good", due_ms))

    assert ["WRONGTYPE", "created"] == [word for word, _ in words]
    assert ["good"] == list(ground.places())


@pytest.mark.parametrize(("later_ms", "lane", "word"), [(0, "normal", "unchanged"), (7, "low", "updated")])
def test_a_put_never_resumes_a_paused_schedule(ground: Ground, later_ms: int, lane: str, word: str) -> None:
    due_ms = ground.put_later("a")
    ground.call("pause", ["a"], note="why not")
    paused_at = ground.redis.hget(ground.keys.paused(), "a").split()[2].decode()

    words = ground.put(("a", due_ms + later_ms), lane=lane)

    assert [(word, str(due_ms + later_ms))] == words
    assert {"a": f"paused {lane} {due_ms + later_ms}"} == ground.places()
    held = ground.redis.hget(ground.keys.paused(), "a").decode()
    assert f"{lane} {due_ms + later_ms} {paused_at} why not" == held


@pytest.mark.parametrize("meanwhile", ["nothing", "another put", "a cancel"])
def test_a_put_is_written_only_if_its_version_is_the_present_one(ground: Ground, meanwhile: str) -> None:
    due_ms = ground.put_later("a")
    seen = _version(ground)
    if meanwhile == "another put":
        ground.put(("a", due_ms, "of somebody else"))
    elif meanwhile == "a cancel":
        ground.call("cancel", ["a"])
    before, present = ground.keyspace(), "-" if meanwhile == "a cancel" else _version(ground)

    [(word, _)] = ground.put(("a", due_ms + 1, "mine"), seen_version=seen)

    assert ("updated" if meanwhile == "nothing" else f"CHANGED:{present}") == word
    assert (meanwhile != "nothing") == (before == ground.keyspace())


def _version(ground: Ground) -> str:
    """Return the version of one-shot a."""
    return ground.job(ground.run("a", ground.places()["a"].split()[-1]))["created_at"]


DUE_MS = 1_900_000_000_000
SIGNATURE, OTHER = f"k1.06d2d3800.{'A' * 22}", f"k2.06d2d3800.{'+/' * 11}"
UNSIGNED = "data"


def test_a_signed_one_shot_has_its_signature_beside_its_data(ground: Ground) -> None:
    ground.put(("a", DUE_MS, "call", SIGNATURE), ("b", DUE_MS, SIGNATURE), ("c", DUE_MS, "call", OTHER))

    jobs = [ground.job(f"{id}-{DUE_MS}") for id in "abc"]
    assert [("call", SIGNATURE), (SIGNATURE, None), ("call", OTHER)] == [
        (job["data"], job.get("zs_sig")) for job in jobs
    ]
    rows = ["a", str(DUE_MS), SIGNATURE, "call", "b", str(DUE_MS), "data", SIGNATURE, "c", str(DUE_MS), OTHER, "call"]
    assert rows == ground.last.texts[-len(rows) :]


@pytest.mark.parametrize(
    ("before", "data", "name", "word"),
    [
        (SIGNATURE, "call", SIGNATURE, "unchanged"),
        (SIGNATURE, "call", OTHER, "updated"),
        (SIGNATURE, "call", UNSIGNED, "updated"),
        (SIGNATURE, "x", SIGNATURE, "updated"),
        (UNSIGNED, "call", UNSIGNED, "unchanged"),
        (UNSIGNED, "call", SIGNATURE, "updated"),
    ],
)
def test_an_equal_one_shot_with_an_equal_signature_is_unchanged(
    ground: Ground, before: str, data: str, name: str, word: str
) -> None:
    ground.put(("a", DUE_MS, "call", before))

    assert [(word, str(DUE_MS))] == ground.put(("a", DUE_MS, data, name))
    assert (1 if word == "unchanged" else 2) == len(ground.entries())
    assert (data, name) == (ground.job(f"a-{DUE_MS}")["data"], ground.job(f"a-{DUE_MS}").get("zs_sig", UNSIGNED))


def test_a_delay_that_the_caller_computed_may_have_passed(ground: Ground) -> None:
    past = ground.now_ms - 5

    words = ground.put(("a", f"={past}", "call", SIGNATURE), ("b", past, "call", SIGNATURE))

    assert [("created", str(past)), ("PAST", str(past))] == words


def test_a_signed_rule_has_its_signature_in_its_template(ground: Ground) -> None:
    def put(id: str, name: str) -> str:
        return str(ground.put_recurring(id, DUE_MS, name=name)[0])

    assert ["created", "unchanged", "updated"] == [put("r", name) for name in (SIGNATURE, SIGNATURE, OTHER)]
    assert OTHER == ground.template("r")["zs_sig"]
    assert [OTHER, "call"] == ground.last.texts[-2:]
    assert ["updated", "unchanged"] == [put("r", UNSIGNED), put("r", UNSIGNED)]
    assert "zs_sig" not in ground.template("r")


def test_a_run_that_is_enqueued_has_the_signed_time_or_none(ground: Ground) -> None:
    first, second = (ground.enqueue("e", FIELDS, run_ms=DUE_MS) for _ in range(2))

    assert (f"e-{DUE_MS}", "AGAIN") == (first[-1], second[0])
