"""put_recurring.lua: recurring schedules."""

from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, OWN, TEMPLATE, Namespace, flat
from tests.builders.progress import change_progress
from tests.prefix import RQ
from zsched.core.log.kinds import changes
from zsched.core.log.puts import PutRecurringEntry
from zsched.core.occurrences.outcomes import What


def test_a_new_recurring_schedule_has_a_place_a_rule_and_a_template(ns: Namespace) -> None:
    next_ms = ns.now_ms + HOUR_MS

    word, now_ms, version, due_ms = ns.put_recurring("r", next_ms, lane="low")

    assert ("created", f"0-1-{ns.last.t}", str(next_ms)) == (word, version, due_ms)
    assert {"r": f"low {next_ms}"} == ns.places()
    assert {b"r"} == ns.redis.smembers(ns.keys.recurring())
    assert TEMPLATE | {"status": "queued"} == ns.template("r")
    assert [] == ns.redis.keys(f"{RQ}:job:*")  # which others could change
    now = str(now_ms)
    own = {"version": version, "trigger": "rule-1", "digest": "digest-1", "lane": "low", "nominal": str(next_ms)}
    assert own | OWN | {"anchor": now, "created_at": now, "updated_at": now} == ns.schedule("r")


def test_the_log_entry_contains_schedule_and_template(ns: Namespace) -> None:
    next_ms = ns.now_ms + HOUR_MS

    _, now_ms, _, _ = ns.put_recurring("r", next_ms)

    entry = ns.last
    assert ("0-1", "put_recurring") == (entry.id, entry.kind)
    assert entry.t.startswith(str(now_ms))
    texts = entry.texts
    assert ["shapes", "1", "lane", "normal", "schedule", "1", *flat(OWN), "template", "4"] == texts[:10]
    template = dict(zip(texts[10:18:2], texts[11:18:2], strict=True))
    assert TEMPLATE | {"status": "queued"} == template | {"data": texts[-1]}
    words = f"1 {next_ms} {next_ms} {now_ms} {now_ms} - - - - digest-1"
    assert ["rows", "1", "r", words, "trigger", "rule-1", "data", "call"] == texts[18:]


@pytest.mark.parametrize("is_updated", [False, True])
def test_an_archive_reads_the_record_that_redis_holds(ns: Namespace, is_updated: bool) -> None:
    ns.put_recurring("r", own={"tags": '["a"]'})
    if is_updated:
        change_progress(ns.redis, ns.keys, "r", last="r-1")
        ns.put_recurring("r", digest="digest 2", template={"data": "new"}, lane="high")

    record = PutRecurringEntry(ns.parsed()[-1]).record_of(0)

    own = {name.decode(): value.decode() for name, value in record.own_fields().items()}
    own |= {"nominal": str(record.nominal_ms)} | ({"last": record.last} if record.last else {})
    here = {name: value for name, value in ns.schedule("r").items() if name != "version"}  # which is the entry's
    assert (here, here["lane"]) == (own, record.lane)
    job = {name.decode(): value.decode() for name, value in record.job_fields().items()}
    assert ns.template("r") == job | {"status": "queued"}


@pytest.mark.parametrize("has_failed", [False, True])
def test_putting_the_same_definition_again_changes_and_logs_nothing(ns: Namespace, has_failed: bool) -> None:
    _, _, _, due_ms = ns.put_recurring("r")
    if has_failed:
        change_progress(ns.redis, ns.keys, "r", last="r-1")
        ns.redis.zadd(ns.keys.failing(), {"r": 2})
    ns.pass_time(60_000)

    again = ns.put_recurring("r")

    assert ["unchanged", due_ms] == [again[0], again[3]]
    assert 1 == len(ns.entries())


@pytest.mark.parametrize("lane", ["normal", "high"])
@pytest.mark.parametrize("in_ms", [HOUR_MS, 1000])  # then it is overdue
def test_a_new_payload_or_lane_keeps_anchor_due_time_and_last_run(ns: Namespace, in_ms: int, lane: str) -> None:
    _, created_ms, _, due_ms = ns.put_recurring("r", ns.now_ms + in_ms)
    change_progress(ns.redis, ns.keys, "r", last="r-1")
    ns.pass_time(60_000)
    new = {"digest": "digest-2", "template": {"data": "new"}, "lane": lane}

    word, now_ms, version, new_due_ms = ns.put_recurring("r", ns.now_ms + HOUR_MS, **new)

    assert ("updated", f"0-2-{ns.last.t}", due_ms) == (word, version, new_due_ms)
    schedule = ns.schedule("r")
    assert str(created_ms) == schedule["anchor"] == schedule["created_at"]
    assert [due_ms, "r-1", str(now_ms)] == [schedule[name] for name in ("nominal", "last", "updated_at")]
    assert "new" == ns.template("r")["data"]
    assert {"r": f"{lane} {due_ms}"} == ns.places()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, "o d") for field in ("progress", "anchor", "created_at", "ended_at")),
        *((field, None) for field in ("progress", "anchor", "trigger", "digest")),
    ],
)
def test_a_put_of_the_same_rule_repairs_a_broken_or_lost_field(ns: Namespace, field: str, value: str | None) -> None:
    ns.put_recurring("r")
    ns.redis.hdel(ns.keys.schedule("r"), field)
    if value is not None:
        ns.redis.hset(ns.keys.schedule("r"), field, value)

    assert "updated" == ns.put_recurring("r")[0]

    assert value != (ns.redis.hget(ns.keys.schedule("r"), field) or b"").decode()
    assert "version" in ns.schedule("r")


def test_a_new_rule_gets_a_new_anchor_and_its_own_first_time(ns: Namespace) -> None:
    ns.put_recurring("r", own={"tags": '["a"]'})
    ns.pass_time(60_000)
    next_ms = ns.now_ms + 5000

    word, now_ms, _, due_ms = ns.put_recurring("r", next_ms, trigger="rule-2", digest="digest-2")

    assert ("updated", str(next_ms)) == (word, due_ms)
    schedule = ns.schedule("r")
    assert [str(now_ms), str(next_ms), "rule-2"] == [schedule[name] for name in ("anchor", "nominal", "trigger")]
    assert "tags" not in schedule
    assert {"r": f"normal {next_ms}"} == ns.places()


def test_new_jitter_keeps_the_anchor_and_the_waiting_occurrence(ns: Namespace) -> None:
    rule, more = '{"expr":"1","jitter_ms":600,"kind":"every"}', '{"expr":"1","jitter_ms":900,"kind":"every"}'
    none = '{"expr":"1","kind":"every"}'
    _, _, _, due_ms = ns.put_recurring("r", ns.now_ms + 1000, trigger=rule, jitter_ms=600)
    before = ns.schedule("r")
    ns.pass_time(1500)

    for number, trigger in enumerate((more, none, rule)):
        later_ms = ns.now_ms + HOUR_MS
        assert due_ms == ns.put_recurring("r", later_ms, trigger=trigger, jitter_ms=5, digest=f"new-{number}")[3]

    after = ns.schedule("r")
    assert [before["anchor"], before["nominal"]] == [after["anchor"], after["nominal"]]
    assert {"r": f"normal {due_ms}"} == ns.places()


def test_an_interval_begins_at_the_servers_time(ns: Namespace) -> None:
    ns.pass_time(HOUR_MS)

    _, now_ms, _, due_ms = ns.put_recurring("r", "+30000")

    assert str(now_ms + 30_000) == due_ms
    assert [str(now_ms), due_ms] == [ns.schedule("r")[name] for name in ("anchor", "nominal")]


@pytest.mark.parametrize(("from_in", "until_in"), [(1000, 9000), (-9000, -1000)])
def test_a_plan_that_is_stale_at_the_servers_time_returns_again(led: Namespace, from_in: int, until_in: int) -> None:
    window = {"from_ms": led.now_ms + from_in, "until_ms": led.now_ms + until_in}

    word, told_ms, _, due_ms = led.put_recurring("r", led.now_ms + until_in, op="op-1", **window)

    assert ("AGAIN", led.now_ms, "-") == (word, told_ms, due_ms)
    assert ({}, []) == (led.places(), led.entries())
    assert "created" == led.put_recurring("r", op="op-1")[0]  # that reply was not stored


@pytest.mark.parametrize(("if_exists", "word"), [("keep", "kept"), ("error", "EXISTS")])
def test_a_put_with_keep_or_error_keeps_a_schedule(ns: Namespace, if_exists: str, word: str) -> None:
    _, _, _, due_ms = ns.put_recurring("r")
    before = ns.keyspace()

    reply = ns.put_recurring("r", trigger="rule-2", digest="digest-2", if_exists=if_exists)

    assert [word, due_ms] == [reply[0], reply[3]]
    assert before == ns.keyspace()


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_recurring_put_replaces_a_one_shot_but_not_its_cancelled_run(ns: Namespace, is_cancelled: bool) -> None:
    due_ms = ns.put_later("r", lane="high")
    if is_cancelled:
        ns.redis.hset(f"{RQ}:job:r-{due_ms}", "status", "canceled")

    word, *_ = ns.put_recurring("r", due_ms + 1)

    assert ("updated", {"r": f"normal {due_ms + 1}"}) == (word, ns.places())
    assert ("canceled" if is_cancelled else None) == ns.job(f"r-{due_ms}").get("status")


@pytest.mark.parametrize("trigger", ["rule-1", "rule-2"])
def test_a_put_never_resumes_a_paused_schedule(ns: Namespace, trigger: str) -> None:
    _, _, _, due_ms = ns.put_recurring("r")
    ns.call("pause", ["r"], note="a note")
    next_ms = ns.now_ms + 2 * HOUR_MS

    word, *_ = ns.put_recurring("r", next_ms, trigger=trigger, digest="digest-2", lane="high")

    assert "updated" == word
    assert {"r": f"paused high {due_ms if trigger == 'rule-1' else next_ms}"} == ns.places()
    assert ns.redis.hget(ns.keys.paused(), "r").endswith(b" a note")
    assert "paused" == _state(ns)


def _end(ns: Namespace, id: str) -> None:
    ns.redis.zrem(ns.keys.due_normal(), id)
    change_progress(ns.redis, ns.keys, id, nominal=None)
    ns.redis.hset(ns.keys.schedule(id), "ended_at", 17)


@pytest.mark.parametrize(("digest", "word"), [("digest-1", "unchanged"), ("digest-2", "updated")])
def test_an_ended_schedule_stays_ended_while_its_rule_is_the_same(ns: Namespace, digest: str, word: str) -> None:
    ns.put_recurring("r")
    _end(ns, "r")

    reply = ns.put_recurring("r", digest=digest)

    assert [word, "-"] == [reply[0], reply[3]]
    assert {} == ns.places()
    schedule = ns.schedule("r")
    assert ("17", False) == (schedule["ended_at"], "nominal" in schedule)


@pytest.mark.parametrize(("rule", "ended_at"), [("2", "17"), ("1", "soon")])
def test_a_new_rule_or_a_broken_end_time_restarts_an_ended_schedule(ns: Namespace, rule: str, ended_at: str) -> None:
    ns.put_recurring("r")
    _end(ns, "r")
    ns.redis.hset(ns.keys.schedule("r"), "ended_at", ended_at)
    next_ms = ns.now_ms + HOUR_MS

    assert "updated" == ns.put_recurring("r", next_ms, trigger=f"rule-{rule}", digest=f"digest-{rule}")[0]

    assert {"r": f"normal {next_ms}"} == ns.places()
    assert "ended_at" not in ns.schedule("r")


@pytest.mark.parametrize("missing", [None, "progress", "anchor"])
def test_a_put_of_the_same_definition_repairs_a_quarantined_schedule(ns: Namespace, missing: str | None) -> None:
    _, _, _, due_ms = ns.put_recurring("r")
    ns.redis.zrem(ns.keys.due_normal(), "r")
    ns.redis.hset(ns.keys.quarantine(), "r", f"normal {due_ms} 1 cannot be planned")
    if missing is not None:
        ns.redis.hdel(ns.keys.schedule("r"), missing)
    next_ms = ns.now_ms + 2 * HOUR_MS

    word, *_ = ns.put_recurring("r", next_ms)

    new_ms = due_ms if missing is None else str(next_ms)
    assert ("updated", {"r": f"normal {new_ms}"}) == (word, ns.places())
    assert new_ms == ns.schedule("r")["nominal"]
    assert ns.schedule("r")["anchor"].isdigit()


def test_an_update_based_on_a_stale_version_is_refused_also_of_a_replaced_or_removed_schedule(ns: Namespace) -> None:
    def update() -> str:
        before = ns.keyspace()
        word = str(ns.put_recurring("r", digest="mine", seen_version=version)[0])
        assert before == ns.keyspace()
        return word

    _, _, version, _ = ns.put_recurring("r")
    ns.put_recurring("r", digest="of somebody else")
    assert f"CHANGED:{ns.schedule('r')['version']}" == update()

    due_ms = ns.put_later("r")
    assert f"CHANGED:{ns.job(ns.run('r', due_ms))['created_at']}" == update()

    ns.call("cancel", ["r"])
    assert "CHANGED:-" == update()


@pytest.mark.parametrize("key", ["schedule", "template"])
def test_a_key_of_another_type_is_reported_and_nothing_is_written(ns: Namespace, key: str) -> None:
    ns.put_recurring("r")
    name = getattr(ns.keys, key)("r")
    ns.redis.delete(name)
    ns.redis.set(name, "not ours")
    before = ns.keyspace()

    assert "WRONGTYPE" == ns.put_recurring("r", digest="digest-2")[0]
    assert before == ns.keyspace()


def _state(ns: Namespace) -> str:
    """Return the state of the only row of the last entry: paused, or -."""
    texts = ns.last.texts
    return texts[texts.index("rows") + 3].split(" ")[7]


def test_a_paused_one_shot_that_becomes_recurring_is_logged_as_paused(ns: Namespace) -> None:
    ns.put(("r", "+60000"))
    ns.call("pause", ["r"], note="")
    next_ms = ns.now_ms + HOUR_MS

    ns.put_recurring("r", next_ms)

    assert {"r": f"paused normal {next_ms}"} == ns.places()
    assert "paused" == _state(ns)


def test_the_log_entry_of_an_unpaused_schedule_has_no_paused_field(ns: Namespace) -> None:
    ns.put_recurring("r")
    of_new = _state(ns)
    ns.put_recurring("r", digest="digest-2")
    of_active = _state(ns)
    ns.redis.zrem(ns.keys.due_normal(), "r")
    ns.redis.hset(ns.keys.quarantine(), "r", f"normal {ns.now_ms} 1 cannot be planned")
    ns.put_recurring("r", digest="digest-3")

    assert ("-", "-", "-") == (of_new, of_active, _state(ns))


# -- many rows ----------------------------------------------------------------------------------------


def test_rows_of_several_shapes_are_put_in_one_entry(ns: Namespace) -> None:
    next_ms = ns.now_ms + HOUR_MS
    rows = [
        ns.rule("a", next_ms),
        ns.rule("b", next_ms + 1, own={"tags": '["b"]'}, lane="high", trigger="rule-2"),
        ns.rule("c", next_ms + 2, template={"data": "of c"}, digest="digest-c"),
    ]

    _, version, *answers = ns.put_rules(*rows)

    assert ["created", str(next_ms), "created", str(next_ms + 1), "created", str(next_ms + 2)] == answers
    assert [("put_recurring", version)] == [(entry.kind, f"{entry.id}-{entry.t}") for entry in ns.entries()]
    assert ["shapes", "2"] == ns.last.texts[:2]
    assert {"a": f"normal {next_ms}", "b": f"high {next_ms + 1}", "c": f"normal {next_ms + 2}"} == ns.places()
    assert [version] * 3 == [ns.schedule(id)["version"] for id in "abc"]
    assert ["call", "call", "of c"] == [ns.template(id)["data"] for id in "abc"]
    assert [None, '["b"]', None] == [ns.schedule(id).get("tags") for id in "abc"]
    assert ["rule-1", "rule-2", "rule-1"] == [ns.schedule(id)["trigger"] for id in "abc"]


def test_every_row_has_its_own_answer_and_only_changed_rows_are_logged(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS
    ns.put_rules(*(ns.rule(id, due_ms) for id in ("same", "kept", "taken", "seen", "broken", "paused")))
    ns.put(("once", due_ms))
    ns.call("pause", ["paused"], note="")
    ns.redis.delete(ns.keys.template("broken"))
    ns.redis.set(ns.keys.template("broken"), "not ours")
    next_ms = due_ms + 1
    other, present = {"trigger": "rule-2", "digest": "digest-2"}, ns.schedule("seen")["version"]

    _, _, *answers = ns.put_rules(
        ns.rule("same", next_ms),
        ns.rule("kept", next_ms, if_exists="keep", **other),
        ns.rule("taken", next_ms, if_exists="error", **other),
        ns.rule("seen", next_ms, seen_version="0-99", **other),
        ns.rule("broken", next_ms, **other),
        ns.rule("late", next_ms, until_ms=1),
        ns.rule("once", next_ms),
        ns.rule("paused", next_ms, **other),
        ns.rule("new", next_ms),
    )

    words = ["unchanged", "kept", "EXISTS", f"CHANGED:{present}", "WRONGTYPE", "AGAIN", "updated", "updated", "created"]
    assert words == answers[::2]
    due = [str(due_ms)] * 3 + ["-"] * 3 + [str(next_ms)] * 3
    assert due == answers[1::2]
    assert ["once", "paused", "new"] == [put.id for put in PutRecurringEntry(ns.parsed()[-1]).rows()]
    assert f"paused normal {next_ms}" == ns.places()["paused"]
    assert {} == ns.job(f"once-{due_ms}")


def test_a_call_with_many_rows_that_is_sent_again_gets_the_first_reply(ns: Namespace) -> None:
    rows = [ns.rule("a", "+5000", if_exists="error"), ns.rule("b", until_ms=1), ns.rule("c")]
    first = ns.put_rules(*rows, op="op-1")
    ns.pass_time(1000)

    assert [str(one) for one in first] == ns.put_rules(*rows, op="op-1")
    assert 1 == len(ns.entries())


def test_a_full_call_is_put_whatever_its_shapes(ns: Namespace) -> None:
    many = {f"zs_field_{n:02}": "x" * n for n in range(16)}
    rows = [ns.rule(f"r-{n:03}", own={"tags": str(n)}, template=many | {"meta": str(n)}) for n in range(100)]

    answers = ns.put_rules(*rows)[2:]

    assert ["created"] * 100 == answers[::2]
    assert ["shapes", "100"] == ns.last.texts[:2]
    assert "99" == ns.template("r-099")["meta"] == ns.schedule("r-099")["tags"]


def test_the_daemon_is_woken_once_for_the_earliest_of_many_rows(ns: Namespace) -> None:
    first_ms = ns.now_ms + HOUR_MS

    with ns.heard(ns.keys.wake()) as heard:
        ns.put_rules(*(ns.rule(f"r-{n}", first_ms + (n - 2) ** 2) for n in range(5)))

    assert [str(first_ms).encode()] == heard


def test_a_disabled_rule_is_paused_in_the_same_step(ns: Namespace) -> None:
    word, _, _, due_ms = ns.put_recurring("r", enabled=0)

    assert ("created", {"r": f"paused normal {due_ms}"}) == (word, ns.places())
    assert ns.redis.hget(ns.keys.paused(), "r").endswith(b" put with enabled=False")
    assert (["put_recurring"], "paused") == ([entry.kind for entry in ns.entries()], _state(ns))


@pytest.mark.parametrize("trigger", ["rule-1", "rule-2"])
def test_a_disabled_put_pauses_an_active_rule_once(ns: Namespace, trigger: str) -> None:
    ns.put_recurring("r")

    words = [ns.put_recurring("r", trigger=trigger, enabled=0)[0] for _ in range(2)]

    assert ["updated", "unchanged"] == words
    assert ns.places()["r"].startswith("paused normal ")


def test_an_enabled_put_resumes_a_paused_rule_at_its_due_time_and_forgets_failures(ns: Namespace) -> None:
    due_ms = ns.put_recurring("r", own={"pause_after": "3"})[3]
    ns.redis.hset(ns.keys.schedule("r"), "failures", 2)
    ns.call("pause", ["r"], note="a note")

    word = ns.put_recurring("r", own={"pause_after": "3"}, enabled=1)[0]

    assert ("updated", {"r": f"normal {due_ms}"}) == (word, ns.places())
    assert not ns.redis.hexists(ns.keys.schedule("r"), "failures")
    assert "unchanged" == ns.put_recurring("r", own={"pause_after": "3"}, enabled=1)[0]
    assert "-" == _state(ns)


def test_a_paused_rule_that_is_disabled_again_keeps_its_note(ns: Namespace) -> None:
    ns.put_recurring("r")
    ns.call("pause", ["r"], note="a note")

    assert "updated" == ns.put_recurring("r", digest="digest-2", enabled=0)[0]
    assert ns.redis.hget(ns.keys.paused(), "r").endswith(b" a note")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_new_rule_records_the_overdue_occurrence_that_it_drops(ns: Namespace, is_paused: bool) -> None:
    nominal_ms = ns.now_ms + HOUR_MS
    ns.put_recurring("r", nominal_ms, jitter_ms=5)
    if is_paused:
        ns.call("pause", ["r"], note="")
    ns.pass_time(2 * HOUR_MS)

    ns.put_recurring("r", nominal_ms + 3 * HOUR_MS, trigger="rule-2", digest="digest-2")

    put, skipped = changes(ns.parsed()[-1])
    assert (What.PUT, "paused" if is_paused else "") == (put.what, put.why)
    assert (What.SKIPPED, nominal_ms, "rule_changed") == (skipped.what, skipped.nominal_ms, skipped.why)
    assert [1, 1] == sorted(+number for number in PutRecurringEntry(ns.parsed()[-1]).counts().happened.values())


@pytest.mark.parametrize(
    "change",
    [{"trigger": "rule-1", "template": {"data": "new"}}, {"trigger": "rule-2"}],
    ids=["of the payload of an overdue rule", "of a rule that is not due"],
)
def test_a_put_that_drops_no_occurrence_records_none(ns: Namespace, change: dict[str, Any]) -> None:
    ns.put_recurring("r", ns.now_ms + HOUR_MS)
    if change["trigger"] == "rule-1":
        ns.pass_time(2 * HOUR_MS)

    ns.put_recurring("r", ns.now_ms + HOUR_MS, digest="digest-2", **change)

    assert [What.PUT] == [one.what for one in changes(ns.parsed()[-1])]
