"""put_recurring.lua: recurring schedules."""

from __future__ import annotations

import pytest

from tests.lua.ground import HOUR_MS, OWN, TEMPLATE, Ground
from tests.prefix import RQ


def test_a_new_recurring_schedule_has_a_place_a_rule_and_a_template(ground: Ground) -> None:
    next_ms = ground.now_ms + HOUR_MS

    word, now_ms, version, due_ms = ground.put_recurring("r", next_ms, lane="low")

    assert ("created", "0-1", str(next_ms)) == (word, version, due_ms)
    assert {"r": f"low {next_ms}"} == ground.places()
    assert {b"r"} == ground.redis.smembers(ground.keys.recurring())
    assert TEMPLATE == ground.template("r")
    now = str(now_ms)
    own = {"version": "0-1", "trigger": "rule-1", "digest": "digest-1", "lane": "low", "nominal": str(next_ms)}
    assert own | OWN | {"anchor": now, "created_at": now, "updated_at": now} == ground.schedule("r")


def test_the_log_entry_contains_schedule_and_template(ground: Ground) -> None:
    next_ms = ground.now_ms + HOUR_MS

    _, now_ms, _, _ = ground.put_recurring("r", next_ms)

    entry = ground.last
    assert ("0-1", "put_recurring") == (entry.id, entry.kind)
    assert entry.t.startswith(str(now_ms))
    texts = entry.texts
    assert ["id", "r", "due", str(next_ms), "schedule"] == texts[:5]
    end = 6 + 2 * int(texts[5])
    assert ground.schedule("r") == dict(zip(texts[6:end:2], texts[7:end:2], strict=True))
    assert ["template", str(len(TEMPLATE))] == texts[end : end + 2]
    assert TEMPLATE == dict(zip(texts[end + 2 :: 2], texts[end + 3 :: 2], strict=True))


def test_putting_the_same_definition_again_changes_and_logs_nothing(ground: Ground) -> None:
    _, _, version, due_ms = ground.put_recurring("r")
    ground.pass_time(60_000)

    again = ground.put_recurring("r")

    assert ["unchanged", version, due_ms] == [again[0], *again[2:]]
    assert 1 == len(ground.entries())


def test_the_same_definition_of_a_fired_and_failed_schedule_changes_nothing(ground: Ground) -> None:
    ground.put_recurring("r")
    ground.redis.hset(ground.keys.schedule("r"), mapping={"last": "r-1", "failures": 2})

    assert "unchanged" == ground.put_recurring("r")[0]
    assert 1 == len(ground.entries())


def test_a_new_payload_keeps_anchor_due_time_and_last_run(ground: Ground) -> None:
    _, created_ms, _, due_ms = ground.put_recurring("r")
    ground.redis.hset(ground.keys.schedule("r"), "last", "r-1")
    ground.pass_time(60_000)

    word, now_ms, version, new_due_ms = ground.put_recurring("r", digest="digest-2", template={"data": "new"})

    assert ("updated", "0-2", due_ms) == (word, version, new_due_ms)
    schedule = ground.schedule("r")
    assert str(created_ms) == schedule["anchor"] == schedule["created_at"]
    assert [due_ms, "r-1", str(now_ms)] == [schedule[name] for name in ("nominal", "last", "updated_at")]
    assert "new" == ground.template("r")["data"]
    assert {"r": f"normal {due_ms}"} == ground.places()


@pytest.mark.parametrize("field", ["version", "anchor", "nominal", "last", "created_at", "ended_at", "failures"])
def test_a_put_of_the_same_rule_repairs_a_malformed_field(ground: Ground, field: str) -> None:
    ground.put_recurring("r")
    ground.redis.hset(ground.keys.schedule("r"), field, "o d")

    assert "updated" == ground.put_recurring("r")[0]

    assert "o d" != ground.schedule("r").get(field)


def test_a_put_with_the_same_pause_after_keeps_the_count_of_failures(ground: Ground) -> None:
    own = {"pause_after": "3", "tags": '["a"]'}
    ground.put_recurring("r", own=own)
    ground.redis.hset(ground.keys.schedule("r"), "failures", 2)

    ground.put_recurring("r", own=own, digest="digest-2")

    assert "2" == ground.schedule("r")["failures"]


def test_a_new_payload_neither_repeats_nor_loses_an_overdue_occurrence(ground: Ground) -> None:
    _, _, _, due_ms = ground.put_recurring("r", ground.now_ms + 1000)
    ground.pass_time(60_000)

    ground.put_recurring("r", ground.now_ms + HOUR_MS, digest="digest-2")

    assert {"r": f"normal {due_ms}"} == ground.places()


def test_a_new_rule_gets_a_new_anchor_and_its_own_first_time(ground: Ground) -> None:
    ground.put_recurring("r", own={"tags": '["a"]'})
    ground.pass_time(60_000)
    next_ms = ground.now_ms + 5000

    word, now_ms, _, due_ms = ground.put_recurring("r", next_ms, trigger="rule-2", digest="digest-2")

    assert ("updated", str(next_ms)) == (word, due_ms)
    schedule = ground.schedule("r")
    assert [str(now_ms), str(next_ms), "rule-2"] == [schedule[name] for name in ("anchor", "nominal", "trigger")]
    assert "tags" not in schedule
    assert {"r": f"normal {next_ms}"} == ground.places()


def test_new_jitter_keeps_the_anchor_and_the_waiting_occurrence(ground: Ground) -> None:
    rule, more = '{"expr":"1","jitter_ms":600,"kind":"every"}', '{"expr":"1","jitter_ms":900,"kind":"every"}'
    none = '{"expr":"1","kind":"every"}'
    _, _, _, due_ms = ground.put_recurring("r", ground.now_ms + 1000, trigger=rule, jitter_ms=600)
    before = ground.schedule("r")
    ground.pass_time(1500)

    for number, trigger in enumerate((more, none, rule)):
        later_ms = ground.now_ms + HOUR_MS
        assert due_ms == ground.put_recurring("r", later_ms, trigger=trigger, jitter_ms=5, digest=f"new-{number}")[3]

    after = ground.schedule("r")
    assert [before["anchor"], before["nominal"]] == [after["anchor"], after["nominal"]]
    assert {"r": f"normal {due_ms}"} == ground.places()


def test_an_interval_begins_at_the_servers_time(ground: Ground) -> None:
    ground.pass_time(HOUR_MS)

    _, now_ms, _, due_ms = ground.put_recurring("r", "+30000")

    assert str(now_ms + 30_000) == due_ms
    assert [str(now_ms), due_ms] == [ground.schedule("r")[name] for name in ("anchor", "nominal")]


@pytest.mark.parametrize(("from_in", "until_in"), [(1000, 9000), (-9000, -1000)])
def test_a_plan_that_is_stale_at_the_servers_time_returns_again(ground: Ground, from_in: int, until_in: int) -> None:
    now_ms = ground.now_ms

    word, told_ms = ground.put_recurring("r", now_ms + until_in, from_ms=now_ms + from_in, until_ms=now_ms + until_in)

    assert "AGAIN" == word
    assert now_ms - 1 <= told_ms <= ground.now_ms
    assert {} == ground.places()
    assert [] == ground.entries()


def test_the_reply_again_is_not_stored_for_an_operation_id(ground: Ground) -> None:
    assert "AGAIN" == ground.put_recurring("r", until_ms=1, op="op-1")[0]
    assert "created" == ground.put_recurring("r", op="op-1")[0]


def test_a_call_sent_again_with_its_operation_id_gets_the_first_reply(ground: Ground) -> None:
    first = ground.put_recurring("r", "+5000", op="op-1", if_exists="error")
    ground.pass_time(1000)

    again = ground.put_recurring("r", "+5000", op="op-1", if_exists="error")

    assert [str(one) for one in first] == again
    assert 1 == len(ground.entries())


@pytest.mark.parametrize(("if_exists", "word"), [("keep", "kept"), ("error", "EXISTS")])
def test_a_put_with_keep_or_error_leaves_an_existing_schedule_alone(ground: Ground, if_exists: str, word: str) -> None:
    _, _, _, due_ms = ground.put_recurring("r")
    before = ground.keyspace()

    reply = ground.put_recurring("r", trigger="rule-2", digest="digest-2", if_exists=if_exists)

    assert [word, due_ms] == [reply[0], reply[3]]
    assert before == ground.keyspace()


def test_a_recurring_put_replaces_a_one_shot_and_its_waiting_run(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("r", due_ms), lane="high")

    word, *_ = ground.put_recurring("r", due_ms + 1)

    assert "updated" == word
    assert {"r": f"normal {due_ms + 1}"} == ground.places()
    assert {} == ground.job(f"r-{due_ms}")


def test_replacing_a_one_shot_keeps_its_run_that_rq_cancelled(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("r", due_ms))
    ground.redis.hset(f"{RQ}:job:r-{due_ms}", "status", "canceled")

    ground.put_recurring("r")

    assert "canceled" == ground.job(f"r-{due_ms}")["status"]


def test_a_put_with_another_lane_moves_the_place_and_keeps_the_time(ground: Ground) -> None:
    _, _, _, due_ms = ground.put_recurring("r", lane="high")

    ground.put_recurring("r", lane="low", digest="digest-2")

    assert {"r": f"low {due_ms}"} == ground.places()


@pytest.mark.parametrize("trigger", ["rule-1", "rule-2"])
def test_a_put_never_resumes_a_paused_schedule(ground: Ground, trigger: str) -> None:
    _, _, _, due_ms = ground.put_recurring("r")
    ground.call("pause", id="r", note="a note")
    next_ms = ground.now_ms + 2 * HOUR_MS

    word, *_ = ground.put_recurring("r", next_ms, trigger=trigger, digest="digest-2", lane="high")

    assert "updated" == word
    assert {"r": f"paused high {due_ms if trigger == 'rule-1' else next_ms}"} == ground.places()
    assert ground.redis.hget(ground.keys.paused(), "r").endswith(b" a note")


def _end(ground: Ground, id: str) -> None:
    ground.redis.zrem(ground.keys.due_normal(), id)
    ground.redis.hdel(ground.keys.schedule(id), "nominal")
    ground.redis.hset(ground.keys.schedule(id), "ended_at", 17)


@pytest.mark.parametrize(("digest", "word"), [("digest-1", "unchanged"), ("digest-2", "updated")])
def test_an_ended_schedule_stays_ended_while_its_rule_is_the_same(ground: Ground, digest: str, word: str) -> None:
    ground.put_recurring("r")
    _end(ground, "r")

    reply = ground.put_recurring("r", digest=digest)

    assert [word, "-"] == [reply[0], reply[3]]
    assert {} == ground.places()
    schedule = ground.schedule("r")
    assert ("17", False) == (schedule["ended_at"], "nominal" in schedule)


def test_a_put_restarts_a_schedule_with_a_corrupted_end_time(ground: Ground) -> None:
    ground.put_recurring("r")
    _end(ground, "r")
    ground.redis.hset(ground.keys.schedule("r"), "ended_at", "soon")
    next_ms = ground.now_ms + HOUR_MS

    assert "updated" == ground.put_recurring("r", next_ms)[0]
    assert {"r": f"normal {next_ms}"} == ground.places()
    assert "ended_at" not in ground.schedule("r")


@pytest.mark.parametrize("field", ["version", "anchor", "trigger", "digest"])
def test_a_put_of_the_same_definition_restores_a_deleted_field(ground: Ground, field: str) -> None:
    ground.put_recurring("r")
    ground.redis.hdel(ground.keys.schedule("r"), field)

    assert "updated" == ground.put_recurring("r")[0]
    assert field in ground.schedule("r")


def test_a_put_with_a_new_rule_restarts_an_ended_schedule(ground: Ground) -> None:
    ground.put_recurring("r")
    _end(ground, "r")
    next_ms = ground.now_ms + HOUR_MS

    ground.put_recurring("r", next_ms, trigger="rule-2", digest="digest-2")

    assert {"r": f"normal {next_ms}"} == ground.places()
    assert "ended_at" not in ground.schedule("r")


def test_a_put_of_the_same_definition_returns_a_quarantined_schedule_to_its_lane(ground: Ground) -> None:
    _, _, _, due_ms = ground.put_recurring("r")
    ground.redis.zrem(ground.keys.due_normal(), "r")
    ground.redis.hset(ground.keys.quarantine(), "r", f"normal {due_ms} 1 cannot be planned")

    word, *_ = ground.put_recurring("r")

    assert "updated" == word
    assert {"r": f"normal {due_ms}"} == ground.places()


@pytest.mark.parametrize("field", ["nominal", "anchor"])
def test_a_put_of_the_same_definition_repairs_a_broken_quarantined_schedule(ground: Ground, field: str) -> None:
    _, _, _, due_ms = ground.put_recurring("r")
    ground.redis.zrem(ground.keys.due_normal(), "r")
    ground.redis.hset(ground.keys.quarantine(), "r", f"normal {due_ms} 1 cannot be planned")
    ground.redis.hdel(ground.keys.schedule("r"), field)
    next_ms = ground.now_ms + 2 * HOUR_MS

    ground.put_recurring("r", next_ms)

    assert {"r": f"normal {next_ms}"} == ground.places()
    assert str(next_ms) == ground.schedule("r")["nominal"]
    assert ground.schedule("r")["anchor"].isdigit()


def test_an_update_based_on_a_stale_version_is_refused(ground: Ground) -> None:
    _, _, version, _ = ground.put_recurring("r")
    ground.put_recurring("r", digest="of somebody else")
    before = ground.keyspace()

    assert "CHANGED" == ground.put_recurring("r", digest="mine", seen_version=version)[0]
    assert before == ground.keyspace()


def test_an_update_of_a_schedule_that_was_removed_or_replaced_is_refused(ground: Ground) -> None:
    _, _, version, _ = ground.put_recurring("r")
    ground.put(("r", "+60000"))

    assert "CHANGED" == ground.put_recurring("r", seen_version=version)[0]
    ground.call("cancel", id="r")
    assert "CHANGED" == ground.put_recurring("r", seen_version=version)[0]


@pytest.mark.parametrize("key", ["schedule", "template"])
def test_a_key_of_another_type_is_reported_and_nothing_is_written(ground: Ground, key: str) -> None:
    ground.put_recurring("r")
    name = getattr(ground.keys, key)("r")
    ground.redis.delete(name)
    ground.redis.set(name, "not ours")
    before = ground.keyspace()

    assert "WRONGTYPE" == ground.put_recurring("r", digest="digest-2")[0]
    assert before == ground.keyspace()


# -- paused schedules in the log entry ----------------------------------------------------------------


def _behind_template(ground: Ground) -> list[str]:
    """The texts of the last entry behind the template's pairs."""
    texts = ground.last.texts
    template = 6 + 2 * int(texts[5])
    assert "template" == texts[template]
    return texts[template + 2 + 2 * int(texts[template + 1]) :]


@pytest.mark.parametrize("trigger", ["rule-1", "rule-2"])
def test_the_log_entry_of_a_paused_schedule_says_that_it_stays_paused(ground: Ground, trigger: str) -> None:
    ground.put_recurring("r")
    ground.call("pause", id="r", note="")

    ground.put_recurring("r", digest="digest-2", trigger=trigger)

    assert ["paused", "1"] == _behind_template(ground)


def test_a_paused_one_shot_that_becomes_recurring_is_logged_as_paused(ground: Ground) -> None:
    ground.put(("r", "+60000"))
    ground.call("pause", id="r", note="")
    next_ms = ground.now_ms + HOUR_MS

    ground.put_recurring("r", next_ms)

    assert {"r": f"paused normal {next_ms}"} == ground.places()
    assert ["paused", "1"] == _behind_template(ground)


def test_the_log_entry_of_an_unpaused_schedule_has_no_paused_field(ground: Ground) -> None:
    ground.put_recurring("r")
    of_new = _behind_template(ground)
    ground.put_recurring("r", digest="digest-2")
    of_active = _behind_template(ground)
    ground.redis.zrem(ground.keys.due_normal(), "r")
    ground.redis.hset(ground.keys.quarantine(), "r", f"normal {ground.now_ms} 1 cannot be planned")
    ground.put_recurring("r", digest="digest-3")

    assert ([], [], []) == (of_new, of_active, _behind_template(ground))
