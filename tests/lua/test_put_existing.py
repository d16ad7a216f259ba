"""put.lua over an existing run, job or schedule: fired runs, repairs, other states, and updates."""

from __future__ import annotations

import pytest

from tests.lua.ground import FIELDS, HOUR_MS, Ground
from tests.prefix import RQ


@pytest.mark.parametrize("status", ["queued", "started", "finished", "failed", "canceled"])
def test_a_put_whose_run_exists_in_rq_returns_already_fired(ground: Ground, status: str) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping={"status": status, "data": "old", "zs": "1"})

    words = ground.put(("a", due_ms, "new"))

    assert [("already_fired", str(due_ms))] == words
    assert {"status": status, "data": "old", "zs": "1"} == ground.job(f"a-{due_ms}")
    assert {} == ground.places()


@pytest.mark.parametrize(
    "fields", [{"status": "finished"}, {"status": "queued", "last_heartbeat": "x"}, {"last_heartbeat": "x"}]
)
def test_a_put_whose_run_has_only_a_workers_fields_returns_already_fired(
    ground: Ground, fields: dict[str, str]
) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=fields)

    words = ground.put(("a", due_ms))

    assert [("already_fired", str(due_ms))] == words
    assert (fields, {}) == (ground.job(f"a-{due_ms}"), ground.places())


@pytest.mark.parametrize("fields", [{"status": "finished"}, {"enqueued_at": "x"}, {"status": "later"}])
def test_a_put_whose_run_id_belongs_to_a_foreign_job_is_refused(ground: Ground, fields: dict[str, str]) -> None:
    due_ms, fields = ground.now_ms + HOUR_MS, {"data": "theirs", **fields}
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=fields)

    words = ground.put(("a", due_ms), ("b", due_ms))

    assert ["TAKEN", "created"] == [word for word, _ in words]
    assert fields == ground.job(f"a-{due_ms}")
    assert {"b": f"normal {due_ms}"} == ground.places()


@pytest.mark.parametrize("fields", [{"x": "1"}, {"status": "scheduled", "x": "1"}, {"status": "", "started_at": ""}])
def test_a_forged_hash_does_not_prevent_a_put(ground: Ground, fields: dict[str, str]) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=fields)

    assert [("created", str(due_ms))] == ground.put(("a", due_ms))
    assert FIELDS.keys() | {"data", "status", "created_at"} == ground.job(f"a-{due_ms}").keys()


@pytest.mark.parametrize("lane", ["normal", "high"])
def test_a_put_of_a_run_that_rq_cancelled_returns_already_fired_in_any_lane(ground: Ground, lane: str) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", "status", "canceled")

    words = ground.put(("a", due_ms, "other"), lane=lane)

    assert [("already_fired", str(due_ms))] == words
    assert "canceled" == ground.job(f"a-{due_ms}")["status"]


def test_moving_a_schedule_keeps_its_run_that_rq_cancelled(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", "status", "canceled")

    words = ground.put(("a", due_ms + 1))

    assert [("updated", str(due_ms + 1))] == words
    assert "canceled" == ground.job(f"a-{due_ms}")["status"]
    assert {"a": f"normal {due_ms + 1}"} == ground.places()


def test_a_put_repairs_a_schedule_without_its_hash(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.redis.delete(f"{RQ}:job:a-{due_ms}")

    words = ground.put(("a", due_ms))

    assert [("updated", str(due_ms))] == words
    assert "scheduled" == ground.job(f"a-{due_ms}")["status"]


def test_a_put_repairs_a_scheduled_hash_that_is_in_no_lane(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms), fields=FIELDS | {"result_ttl": "60"})
    ground.redis.zrem(ground.keys.due_normal(), "a")

    words = ground.put(("a", due_ms))

    assert [("created", str(due_ms))] == words
    assert {"a": f"normal {due_ms}"} == ground.places()
    assert FIELDS.keys() | {"data", "status", "created_at"} == ground.job(f"a-{due_ms}").keys()


def test_a_key_of_another_type_at_the_run_is_reported_and_the_rest_is_put(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.rpush(f"{RQ}:job:bad-{due_ms}", "x")

    words = ground.put(("bad", due_ms), ("good", due_ms))

    assert ["WRONGTYPE", "created"] == [word for word, _ in words]
    assert ["good"] == list(ground.places())


def test_a_put_never_resumes_a_paused_schedule(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.call("pause", ["a"], note="why not")
    paused_at = ground.redis.hget(ground.keys.paused(), "a").split()[2]

    words = ground.put(("a", due_ms + 7), lane="low")

    assert [("updated", str(due_ms + 7))] == words
    assert {"a": f"paused low {due_ms + 7}"} == ground.places()
    assert f"low {due_ms + 7} {paused_at.decode()} why not".encode() == ground.redis.hget(ground.keys.paused(), "a")


def test_the_same_put_of_a_paused_schedule_is_unchanged(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    ground.call("pause", ["a"], note="")

    assert [("unchanged", str(due_ms))] == ground.put(("a", due_ms))


def test_a_put_brings_a_quarantined_schedule_back(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.redis.hset(ground.keys.quarantine(), "a", f"normal {due_ms} 1 its hash is gone")

    words = ground.put(("a", due_ms))

    assert [("updated", str(due_ms))] == words
    assert {"a": f"normal {due_ms}"} == ground.places()


def test_a_one_shot_put_replaces_a_recurring_schedule_and_deletes_its_keys(ground: Ground) -> None:
    ground.put_recurring("a")
    due_ms = ground.now_ms + HOUR_MS

    words = ground.put(("a", due_ms))

    assert [("updated", str(due_ms))] == words
    assert {"a": f"normal {due_ms}"} == ground.places()
    assert 0 == ground.redis.exists(ground.keys.recurring(), ground.keys.schedule("a"), ground.keys.template("a"))


def test_a_put_based_on_the_present_version_is_written(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))

    words = ground.put(("a", due_ms + 1, "other"), seen_version=_version(ground))

    assert [("updated", str(due_ms + 1))] == words


def test_a_put_based_on_a_stale_version_is_refused(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    stale = _version(ground)
    ground.put(("a", due_ms, "of somebody else"))

    words = ground.put(("a", due_ms, "mine"), seen_version=stale)

    assert [f"CHANGED:{_version(ground)}"] == [word for word, _ in words]
    assert "of somebody else" == ground.job(f"a-{due_ms}")["data"]


def _version(ground: Ground) -> str:
    """Return the version of one-shot a."""
    return ground.job(ground.run("a", ground.places()["a"].split()[-1]))["created_at"]


def test_an_update_of_a_removed_schedule_is_refused(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms))
    stale = _version(ground)
    ground.call("cancel", ["a"])

    assert ["CHANGED:-"] == [word for word, _ in ground.put(("a", due_ms + 1), seen_version=stale)]
    assert {} == ground.places()
