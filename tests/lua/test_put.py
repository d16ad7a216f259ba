"""put.lua: one-shots, their log entries and the wake-up of the daemon. Over existing data: test_put_existing."""

from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, Namespace
from tests.prefix import RQ
from zsched.core.clock import from_ms


def test_a_new_one_shot_is_in_its_lane_and_has_a_scheduled_rq_job(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS

    reply, words = ns.put_reply(("a", due_ms, "payload"), lane="high")

    assert [("created", str(due_ms))] == words
    assert {"a": f"high {due_ms}"} == ns.places()
    job = ns.job(f"a-{due_ms}")
    assert FIELDS | {"data": "payload", "status": "scheduled", "created_at": job["created_at"]} == job
    made_at = from_ms(reply[0] - 1).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "002Z"  # a µs by the number of the entry
    assert (f"0-1/{made_at}", made_at) == (reply[1], job["created_at"])
    assert {b"seq": b"1", b"rq_prefix": RQ.encode()} == ns.redis.hgetall(ns.keys.meta())


def test_the_log_entry_of_a_put_contains_everything_to_repeat_it(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS

    reply, _ = ns.put_reply(("a", due_ms, "one"), ("b", due_ms + 1, "two"))

    entry = ns.last
    assert ("0-1", "put") == (entry.id, entry.kind)
    assert entry.id == reply[1].partition("/")[0]
    assert entry.t.startswith(str(reply[0]))
    shared = [text for pair in sorted(FIELDS.items()) for text in pair]
    rows = ["a", str(due_ms), "data", "one", "b", str(due_ms + 1), "data", "two"]
    assert ["lane", "normal", "fields", "4", *shared, "rows", "2", *rows] == entry.texts


def test_entry_ids_continue_after_the_epoch_and_seq_in_meta(ns: Namespace) -> None:
    ns.put(("a", "+1000"))
    ns.redis.hset(ns.keys.meta(), "epoch", 41)

    ns.put(("b", "+1000"))

    assert ["0-1", "41-2"] == [entry.id for entry in ns.entries()]
    assert ["41-2", ns.last.t] == ns.call("get", ["a"])[1:3]


@pytest.mark.parametrize(
    ("data", "fields", "lane", "later_ms"),
    [
        ("other", FIELDS, "low", 0),
        ("call", FIELDS | {"timeout": "60"}, "low", 0),
        ("call", FIELDS | {"result_ttl": "60"}, "low", 0),
        ("call", {"origin": "default", "timeout": "180", "zs": "1"}, "low", 0),
        ("call", FIELDS, "high", 0),
        ("call", FIELDS, "low", 5),
    ],
)
def test_a_put_with_another_payload_lane_or_time_replaces_the_job_and_moves_the_place(
    ns: Namespace, data: str, fields: dict[str, str], lane: str, later_ms: int
) -> None:
    first_ms = ns.put_later("a", lane="low")
    due_ms = first_ms + later_ms

    words = ns.put(("a", due_ms, data), fields=fields, lane=lane)

    assert [("updated", str(due_ms))] == words
    assert {"a": f"{lane} {due_ms}"} == ns.places()
    job = ns.job(f"a-{due_ms}")
    assert fields | {"data": data, "status": "scheduled", "created_at": job["created_at"]} == job
    assert (later_ms == 0) == bool(ns.job(f"a-{first_ms}"))


@pytest.mark.parametrize("enabled", ["", 0])
@pytest.mark.parametrize(("if_exists", "word"), [("keep", "kept"), ("error", "EXISTS")])
def test_a_put_with_keep_or_error_keeps_a_schedule(ns: Namespace, if_exists: str, word: str, enabled: Any) -> None:
    due_ms = ns.put_later("a")

    words = ns.put(("a", due_ms + 9, "other"), ("b", due_ms), if_exists=if_exists, enabled=enabled)

    assert [(word, str(due_ms)), ("created", str(due_ms))] == words
    assert {"a": f"normal {due_ms}", "b": f"{'paused ' if enabled == 0 else ''}normal {due_ms}"} == ns.places()


@pytest.mark.parametrize(("allow_past", "word"), [(0, "PAST"), (1, "created")])
def test_times_count_by_the_servers_clock_and_a_passed_one_has_to_be_allowed(
    led: Namespace, allow_past: int, word: str
) -> None:
    past_ms, later_ms = led.now_ms - 1000, led.now_ms + 90_000

    words = led.put(("late", past_ms), ("good", "+90000"), allow_past=allow_past)

    assert [(word, str(past_ms)), ("created", str(later_ms))] == words
    late = {"late": f"normal {past_ms}"} if allow_past else {}
    assert late | {"good": f"normal {later_ms}"} == led.places()
    assert bool(allow_past) == bool(led.job(f"late-{past_ms}"))


def test_an_overdue_schedule_may_change_its_payload_at_its_old_time(ns: Namespace) -> None:
    due_ms = ns.now_ms + 500
    ns.put(("a", due_ms))
    ns.pass_time(10_000)

    assert [("updated", str(due_ms))] == ns.put(("a", due_ms, "other"))


def test_only_a_put_earlier_than_the_head_of_its_lane_wakes_the_daemon(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS

    with ns.heard(ns.keys.wake()) as heard:
        ns.put(("first", due_ms))
        ns.put(("later", due_ms + 1))
        ns.put(("same", due_ms))
        ns.put(("low", due_ms + 2), lane="low")
        ns.put(("later still", due_ms + 3), ("earlier", due_ms - 1))

    assert [str(ms).encode() for ms in (due_ms, due_ms + 2, due_ms - 1)] == heard


def test_two_hundred_new_rows_of_one_call_are_logged_as_one_entry_of_its_rows_alone(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS

    words = ns.put(*((f"id-{n}", due_ms + n, f"data-{n}") for n in range(200)))

    assert {"created"} == {word for word, _ in words}
    assert (200, 1, []) == (len(ns.places()), len(ns.entries()), _beside_rows(ns))


# -- replaced and paused schedules in the log entry ---------------------------------------------------


def _beside_rows(ns: Namespace) -> list[str]:
    """Return the texts of the last entry behind its rows."""
    texts = ns.last.texts
    rows = texts.index("rows")
    return texts[rows + 2 + 4 * int(texts[rows + 1]) :]


def test_the_log_entry_names_replaced_schedules_and_schedules_that_stay_paused(ns: Namespace) -> None:
    due_ms = ns.put_later("there", "paused")
    ns.put_recurring("recurring")
    ns.redis.hset(ns.keys.quarantine(), "bad", f"normal {due_ms} 1 its hash is gone")
    ns.call("pause", ["paused"], note="")

    ns.put(*((id, due_ms + 1) for id in ("new", "there", "paused", "recurring", "bad")))

    assert ["replaced", "there paused recurring bad", "paused", "paused"] == _beside_rows(ns)


def test_the_log_names_only_written_rows_as_replaced_or_paused(ns: Namespace) -> None:
    due_ms = ns.put_later("same", "paused")
    ns.call("pause", ["paused"], note="")

    words = ns.put(("same", due_ms), ("paused", due_ms), ("late", due_ms - 2 * HOUR_MS), ("new", due_ms))

    assert ["unchanged", "unchanged", "PAST", "created"] == [word for word, _ in words]
    assert [] == _beside_rows(ns)


def test_a_paused_schedule_that_becomes_a_one_shot_is_logged_as_paused(ns: Namespace) -> None:
    ns.put_recurring("a")
    ns.call("pause", ["a"], note="")

    due_ms = ns.put_later("a")

    assert {"a": f"paused normal {due_ms}"} == ns.places()
    assert ["replaced", "a", "paused", "a"] == _beside_rows(ns)


def test_a_disabled_put_of_an_active_schedule_pauses_it_once(ns: Namespace) -> None:
    due_ms = ns.put_later("a")

    words = [ns.put(("a", due_ms), enabled=0)[0][0] for _ in range(2)]

    assert (["updated", "unchanged"], {"a": f"paused normal {due_ms}"}) == (words, ns.places())
    assert ["replaced", "a", "paused", "a"] == _beside_rows(ns)


def test_a_disabled_put_makes_a_paused_schedule_that_never_was_in_a_lane(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS

    words = ns.put(("a", due_ms), enabled=0)

    assert [("created", str(due_ms))] == words
    assert {"a": f"paused normal {due_ms}"} == ns.places()
    assert ns.redis.hget(ns.keys.paused(), "a").endswith(b" put with enabled=False")
    assert (["put"], ["paused", "a"]) == ([entry.kind for entry in ns.entries()], _beside_rows(ns))


@pytest.mark.parametrize(
    ("enabled", "place", "word"), [("", "paused", "unchanged"), (0, "paused", "unchanged"), (1, "normal", "updated")]
)
def test_a_put_resumes_a_paused_schedule_only_if_enabled(ns: Namespace, enabled: Any, place: str, word: str) -> None:
    due_ms = ns.put_later("a")
    ns.call("pause", ["a"], note="a note")
    parked = ns.redis.hget(ns.keys.paused(), "a")

    assert [(word, str(due_ms))] == ns.put(("a", due_ms), enabled=enabled)

    assert ns.places()["a"].startswith(place)
    assert (parked if place == "paused" else None) == ns.redis.hget(ns.keys.paused(), "a")


def test_the_log_names_the_rows_whose_time_had_passed_and_that_did_not_wait_for_it_before(ns: Namespace) -> None:
    now_ms = ns.now_ms
    ns.put(("waits", now_ms - HOUR_MS), ("moves", now_ms - HOUR_MS), allow_past=1)
    first = ns.last

    ns.put(
        ("waits", now_ms - HOUR_MS), ("moves", now_ms - 2 * HOUR_MS), ("new", now_ms - 5), ("later", now_ms + HOUR_MS),
        ("soon", "+0"), ("computed", f"={now_ms - 7}"), allow_past=1, fields=FIELDS | {"timeout": "60"},
    )  # fmt: skip

    assert ["past", "waits moves"] == first.texts[-2:]
    assert ["replaced", "waits moves", "past", "moves new computed"] == ns.last.texts[-4:]
