"""track.lua: which runs are over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.ground import EPOCH, SERVER, TOKEN, Entry, Ground
from zsched.errors import RedisRefused, ServerChanged, Stale

STARTED, ENDED = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.000001Z"
A, B = "a-1767225600000", "b-1767225600000"


@pytest.fixture
def seen(led: Ground) -> Entry:
    """The log's last entry, of an archive that has all of it."""
    led.put(("waits", "+60000"))
    return led.last


def job(ground: Ground, run: str, status: str | None, **more: str) -> None:
    fields = {"origin": "default"} | ({"status": status} if status else {})
    ground.redis.hset(ground.keys.job(run), mapping=fields | more)


def track(ground: Ground, seen: Entry, *runs: str, **over: Any) -> list[Any]:
    arguments = {"token": TOKEN, "expected_server": SERVER, "seen_entry": seen.id, "seen_t": seen.t}
    return ground.call("track", runs, **(arguments | over))


@pytest.mark.parametrize("status", ["finished", "failed", "stopped", "canceled"])
def test_a_run_that_is_over_is_recorded_with_its_times(led: Ground, seen: Entry, status: str) -> None:
    job(led, A, status, started_at=STARTED, ended_at=ENDED)

    reply = track(led, seen, A)

    end = led.last
    assert [end.id, end.t, 1] == reply[1:]
    assert (f"{EPOCH}-2", "end", [f"{A} {status} {STARTED} {ENDED}"]) == (end.id, end.kind, _rows(end))


@pytest.mark.parametrize("status", ["queued", "started", "deferred", "scheduled", "created", "of a later version"])
def test_a_run_that_is_not_over_stays_open(led: Ground, seen: Entry, status: str) -> None:
    job(led, A, status, started_at=STARTED)
    before = led.keyspace()

    assert ["-", "0", 0] == track(led, seen, A)[1:]
    assert before == led.keyspace()


@pytest.mark.parametrize("broken", ["no key", "no status", "another type"])
def test_of_a_run_that_rq_holds_nothing_of_just_that_is_recorded(led: Ground, seen: Entry, broken: str) -> None:
    if broken == "no status":
        job(led, A, None)
    elif broken == "another type":
        led.redis.set(led.keys.job(A), "?")

    track(led, seen, A)

    assert [f"{A} gone - -"] == _rows(led.last)


@pytest.mark.parametrize("time", ["", "two words", "two\nlines"])
def test_a_time_that_is_none_is_left_out(led: Ground, seen: Entry, time: str) -> None:
    job(led, A, "failed", started_at=time, ended_at=ENDED)

    track(led, seen, A)

    assert [f"{A} failed - {ENDED}"] == _rows(led.last)


def test_one_entry_has_a_line_per_run_that_is_over(led: Ground, seen: Entry) -> None:
    runs = [f"r{number}-1767225600000" for number in range(200)]
    for number, run in enumerate(runs):
        job(led, run, "finished" if number % 2 else "started")

    reply = track(led, seen, *runs)

    assert 100 == reply[3]
    assert [f"{run} finished - -" for run in runs[1::2]] == _rows(led.last)
    assert 2 == len(led.entries())


def test_a_schedule_that_waits_is_not_over(led: Ground, seen: Entry) -> None:
    [(_, due)] = led.put(("again", "+60000"))

    assert 0 == track(led, seen, f"again-{due}")[3]


def test_what_cannot_be_a_run_is_left_alone(led: Ground, seen: Entry) -> None:
    assert 0 == track(led, seen, "a b-1767225600000", "a\nb-1767225600000")[3]


def test_an_earlier_entry_of_the_log_proves_the_history_too(led: Ground, seen: Entry) -> None:
    led.put(("later", "+60000"))

    assert 1 == track(led, seen, A)[3]


@pytest.mark.parametrize("over", [{"seen_entry": f"{EPOCH}-2"}, {"seen_t": "1767225600000000"}])
def test_nothing_is_said_of_another_history(led: Ground, seen: Entry, over: dict[str, str]) -> None:
    before = led.keyspace()

    assert ["LOST"] == track(led, seen, A, **over)
    assert before == led.keyspace()


def test_nothing_is_said_where_the_log_is_gone(led: Ground, seen: Entry) -> None:
    led.redis.delete(led.keys.log())
    led.redis.hdel(led.keys.meta(), "seq")

    assert ["LOST"] == track(led, seen, A)


@pytest.mark.parametrize(
    ("fence", "error"),
    [({"token": "daemon-2:8:2000:nonce-2"}, Stale), ({"expected_server": "server-2"}, ServerChanged)],
)
def test_only_the_leader_tracks(led: Ground, seen: Entry, fence: dict[str, str], error: type[Exception]) -> None:
    job(led, A, "finished")
    before = led.keyspace()

    with pytest.raises(error):
        track(led, seen, A, **fence)

    assert before == led.keyspace()


def test_a_job_that_may_not_be_read_is_not_gone(led: Ground, seen: Entry) -> None:
    job(led, A, "started")
    led.redis.execute_command("ACL", "SETUSER", "default", "resetkeys", "~zsched:*")
    try:
        with pytest.raises(RedisRefused):
            track(led, seen, A, B)
    finally:
        led.redis.execute_command("ACL", "SETUSER", "default", "allkeys")

    assert seen == led.last


def _rows(entry: Entry) -> list[str]:
    return entry.fields["rows"].split("\n")
