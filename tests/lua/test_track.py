"""look.lua, track.lua and note.lua: RQ's facts about runs, the record of ended runs, and the notes of tasks."""

import zlib
from base64 import b64encode
from typing import Any

import pytest

from tests.builders.entries import LogEntry
from tests.builders.namespaces import EPOCH, Namespace
from tests.prefix import RQ
from zsched.core.runs.job import JOB_FIELDS, JobFacts
from zsched.errors import RedisRefused
from zsched.storage.jobs import Jobs
from zsched.storage.scripts import load

STARTED, ENDED = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.000001Z"
A, B = "a-1767225600000", "b-1767225600000"
NOTHING = ["-", "0", 0, []]
REGISTRIES = dict.fromkeys(("failed", "stopped"), f"{RQ}:failed:default") | {
    status: f"{RQ}:{status}:default" for status in ("finished", "canceled")
}


def job(ns: Namespace, run: str, status: str | None, **more: str) -> None:
    fields = {"origin": "default"} | ({"status": status} if status else {})
    ns.redis.hset(ns.keys.rq.job(run), mapping=fields | more)


def over(run: str, seen: str = f"finished {ENDED}", counts: str = "-") -> list[str]:
    """Return the texts of one ended run, which was seen with these facts."""
    return [run.rpartition("-")[0], run, seen, counts, "told", "{}"]


def track(ns: Namespace, seen: LogEntry, *texts: list[str], **more: Any) -> list[Any]:
    arguments = {"seen_entry": seen.id, "seen_t": seen.t}
    now_ms, *found = ns.call("track", [each for run in texts for each in run], **(arguments | more))
    if not found:
        return [now_ms]
    entry, t, again, ended, paused = found
    assert [] == again
    return [now_ms, entry, t, len(ended), paused]


# -- look -----------------------------------------------------------------------------------------


def test_look_returns_all_fields_that_rq_has_of_a_run(led: Namespace) -> None:
    texts = {
        "status": "started", "enqueued_at": STARTED, "started_at": ENDED, "ended_at": "", "last_heartbeat": ENDED,
        "worker_name": "w", "origin": "mail", "retries_left": "1", "zs_retries": "3", "number_of_retries": "2",
        "zs_on_lost": "fail", "timeout": "180",
    }  # fmt: skip
    led.redis.hset(led.keys.rq.job(A), mapping=texts | {"zs_attempts": '[[1,"w"]]', "zs_note": '{"sent":\0 1}'})

    [told] = Jobs(led.link, led.keys).read([A])

    expected = {field: texts.get(name, "") for field, name in JOB_FIELDS.items()}
    assert JobFacts(**expected | {"note": '{"sent":\0 1}', "attempts": '[[1,"w"]]'}) == told


@pytest.mark.parametrize(
    ("status", "fields", "func"),
    [
        ("failed", {"description": "app.f"}, "app.f"),
        ("failed", {"description": "Bills", "zs_func": "app.f"}, "app.f"),
        ("failed", {}, ""),
        ("finished", {"description": "Bills", "zs_func": "app.f"}, ""),
    ],
)
def test_look_returns_the_function_of_a_failed_run(
    led: Namespace, status: str, fields: dict[str, str], func: str
) -> None:
    job(led, A, status, **fields)

    [told] = Jobs(led.link, led.keys).read([A])

    assert told is not None
    assert func == told.func


def test_look_returns_the_newest_error_of_a_failed_run(led: Namespace) -> None:
    job(led, A, "failed")
    led.redis.hset(led.keys.rq.job(A), "zs_attempts", "[[1, 2]]")
    newest = "Traceback (most recent call last):\n  somewhere\nValueError: new"
    for text in ("old", f"{newest}\n"):
        packed = b64encode(zlib.compress(text.encode()))
        led.redis.xadd(f"{RQ}:results:{A}", {"type": 2, "exc_string": packed})

    [told] = Jobs(led.link, led.keys).read([A])

    assert told is not None
    assert "ValueError: new" == told.error
    assert newest == told.traceback
    assert "[[1, 2]]" == told.attempts


@pytest.mark.parametrize("text", ["[\0]", "[\n]", "[\x7f]", "x" * 4001, "\xe9" * 2001])
def test_look_leaves_attempts_out_that_no_worker_of_ours_wrote(led: Namespace, text: str) -> None:
    job(led, A, "finished")
    led.redis.hset(led.keys.rq.job(A), mapping={"zs_attempts": text, "zs_note": "{}"})

    [told] = Jobs(led.link, led.keys).read([A])

    assert told is not None
    assert ("", "{}") == (told.attempts, told.note)


@pytest.mark.parametrize("error", [b"", b"no base64!", b64encode(b"no zlib"), b"x" * 300_000, None])
def test_look_returns_a_run_without_its_error_if_that_is_unreadable(led: Namespace, error: bytes | None) -> None:
    job(led, A, "failed")
    if error is None:
        led.redis.set(f"{RQ}:results:{A}", "of a wrong type")
    else:
        led.redis.xadd(f"{RQ}:results:{A}", {"type": 2, "exc_string": error})

    [told] = Jobs(led.link, led.keys).read([A])

    assert told is not None
    assert ("failed", "") == (told.status, told.error)


@pytest.mark.parametrize("broken", ["no key", "no status", "another type"])
def test_look_returns_none_for_a_missing_or_corrupted_job(led: Namespace, broken: str) -> None:
    if broken == "no status":
        job(led, A, None)
    elif broken == "another type":
        led.redis.set(led.keys.rq.job(A), "?")

    assert [None] == Jobs(led.link, led.keys).read([A])


def test_a_job_that_may_not_be_read_does_not_count_as_deleted(led: Namespace) -> None:
    job(led, A, "started")
    led.redis.execute_command("ACL", "SETUSER", "default", "resetkeys", "~zsched:*")
    try:
        with pytest.raises(RedisRefused):
            Jobs(led.link, led.keys).read([A, B])
    finally:
        led.redis.execute_command("ACL", "SETUSER", "default", "allkeys")


# -- track ----------------------------------------------------------------------------------------


def test_track_records_the_end_of_an_unchanged_run(led: Namespace, seen: LogEntry) -> None:
    job(led, A, "finished", ended_at=ENDED)

    reply = track(led, seen, over(A))

    end = led.last
    assert [end.id, end.t, 1, []] == reply[1:]
    assert (f"{EPOCH}-2", "end", [f"{A} told {{}}"]) == (end.id, end.kind, end.rows)


@pytest.mark.parametrize(
    ("status", "wishes", "ttl_s", "left_s"),
    [
        ("finished", {"zs_result_ttl": "0"}, 60, -2),
        ("finished", {"zs_result_ttl": "20"}, 60, 20),
        ("finished", {"zs_result_ttl": "20"}, 50, 10),
        ("finished", {"zs_result_ttl": "20"}, 39, -2),  # it ended long before anybody looked
        ("finished", {"zs_result_ttl": "20"}, -1, 20),
        ("finished", {"zs_failure_ttl": "0"}, 60, 60),
        *(("finished", {"zs_result_ttl": odd}, 60, 60) for odd in ("soon", "", "-1", "1e1", "60", "9" * 15, "9" * 400)),
        ("finished", {}, 500, 500),
        ("failed", {"zs_result_ttl": "0", "zs_failure_ttl": "0"}, 60, -2),
        ("failed", {"zs_failure_ttl": "59"}, 60, 59),
        ("failed", {"zs_result_ttl": "0"}, 31_536_000, 31_536_000),
        ("stopped", {"zs_failure_ttl": "0"}, 60, -2),
        ("canceled", {"zs_result_ttl": "0", "zs_failure_ttl": "0"}, 60, 60),
    ],
)
def test_a_recorded_run_is_kept_as_long_as_its_schedule_wishes(
    led: Namespace, seen: LogEntry, status: str, wishes: dict[str, str], ttl_s: int, left_s: int
) -> None:
    job(led, A, status, ended_at=ENDED, **wishes)
    led.redis.xadd(f"{RQ}:results:{A}", {"type": "1"})
    registry, keys, since_ms = REGISTRIES[status], (led.keys.rq.job(A), f"{RQ}:results:{A}"), led.server_ms
    led.redis.zadd(registry, {A: 9e9})
    for key in keys if ttl_s >= 0 else ():
        led.redis.expire(key, ttl_s)

    assert 1 == track(led, seen, over(A, f"{status} {ENDED}"))[3]

    assert all(led.is_life(key, left_s, since_ms) for key in keys)
    assert (left_s == -2) == (led.redis.zscore(registry, A) is None)
    assert "end" == led.last.kind


def test_a_run_that_is_not_over_keeps_its_job(led: Namespace, seen: LogEntry) -> None:
    job(led, A, "queued", zs_result_ttl="0")

    assert NOTHING == track(led, seen, over(A))[1:]
    assert -1 == led.redis.pttl(led.keys.rq.job(A))


def test_a_registry_of_a_wrong_type_does_not_stop_the_record_of_an_end(led: Namespace, seen: LogEntry) -> None:
    job(led, A, "finished", ended_at=ENDED, zs_result_ttl="0")
    led.redis.set(REGISTRIES["finished"], "?")

    assert 1 == track(led, seen, over(A))[3]
    assert 1 == led.redis.exists(led.keys.rq.job(A))


@pytest.mark.parametrize(
    ("status", "ended_at", "was_seen"),
    [
        *((status, at, f"finished {ENDED}") for status, at in (("queued", ""), ("started", ENDED), ("failed", ENDED))),
        ("finished", STARTED, f"finished {ENDED}"),
        ("queued", "", "gone"),
    ],
)
def test_track_skips_a_run_that_changed(
    led: Namespace, seen: LogEntry, status: str, ended_at: str, was_seen: str
) -> None:
    job(led, A, status, ended_at=ended_at)
    before = led.keyspace()

    assert NOTHING == track(led, seen, over(A, was_seen))[1:]
    assert before == led.keyspace()


@pytest.mark.parametrize(
    ("told", "ended_at", "recorded"), [(None, "", 1), (None, ENDED, 1), (STARTED, ENDED, 1), (ENDED, ENDED, 0)]
)
def test_a_cancelled_run_is_recorded_unless_its_cancellation_was_logged(
    led: Namespace, seen: LogEntry, told: str | None, ended_at: str, recorded: int
) -> None:
    job(led, A, "canceled", **({"ended_at": ended_at} if ended_at else {}), **({"zs_told": told} if told else {}))

    assert recorded == track(led, seen, over(A, f"canceled {ended_at}"))[3]


@pytest.mark.parametrize("broken", ["no key", "no status", "another type"])
def test_track_records_a_deleted_run_as_gone_also_by_an_earlier_entry(
    led: Namespace, seen: LogEntry, broken: str
) -> None:
    if broken == "no status":
        job(led, A, None)
    elif broken == "another type":
        led.redis.set(led.keys.rq.job(A), "?")
    led.put(("later", "+60000"))

    assert 1 == track(led, seen, over(A, "gone"))[3]


def test_track_writes_one_entry_with_a_row_per_ended_run(led: Namespace, seen: LogEntry) -> None:
    runs = [f"r{number}-1767225600000" for number in range(200)]
    for number, run in enumerate(runs):
        job(led, run, "finished" if number % 2 else "started", ended_at=ENDED)

    reply = track(led, seen, *map(over, runs))

    assert 100 == reply[3]
    assert [f"{run} told {{}}" for run in runs[1::2]] == led.last.rows
    assert 2 == len(led.entries())


@pytest.mark.parametrize("other", [{"seen_entry": f"{EPOCH}-2"}, {"seen_t": "1767225600000000"}, {}])
def test_track_is_refused_for_another_history_or_without_a_log(
    led: Namespace, seen: LogEntry, other: dict[str, str]
) -> None:
    if not other:
        led.redis.delete(led.keys.log())
        led.redis.hdel(led.keys.meta(), "seq")
    before = led.keyspace()

    assert ["LOST"] == track(led, seen, over(A, "gone"), **other)
    assert before == led.keyspace()


JOB = f"{RQ}:job:a-1700000000000"


def note(ns: Namespace, text: str, seen: str = "", field: str = "zs_note") -> str:
    word: bytes = ns.link.execute("EVAL", load("note").text, 1, JOB, field, seen, text)[1]
    return word.decode()


def test_a_note_is_stored_in_its_field_of_the_job_unless_it_is_based_on_a_stale_note(ns: Namespace) -> None:
    ns.redis.hset(JOB, mapping={"data": "call", "status": "started"})

    assert "noted" == note(ns, '{"sent":1}')
    assert "AGAIN" == note(ns, '{"failed":1}')
    assert "noted" == note(ns, '{"sent":2}', seen='{"sent":1}')
    assert "noted" == note(ns, "a", field="zs_next")
    held = {b"data": b"call", b"status": b"started", b"zs_note": b'{"sent":2}', b"zs_next": b"a"}
    assert (held, []) == (ns.redis.hgetall(JOB), ns.entries())


@pytest.mark.parametrize("there", ["half of a job", "another type"])
def test_a_note_does_not_recreate_a_deleted_job(ns: Namespace, there: str) -> None:
    if there == "half of a job":
        ns.redis.hset(JOB, "status", "started")
    else:
        ns.redis.set(JOB, "x")
    before = ns.keyspace()

    assert "GONE" == note(ns, "{}")
    assert before == ns.keyspace()
