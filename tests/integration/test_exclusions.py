"""Excluded times and calendars with a real daemon: what fires, what is recorded, and what a lost Redis gets back."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.clocks import now_ms, set_back
from tests.ledger import queued
from tests.waiting import eventually
from zsched import Client, InvalidSchedule
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.story.verdict import Word
from zsched.storage.archivers import ArchiveState
from zsched.web.console.drawing import Mark, mark_of, words_of

FUNC = "app.tasks.run"
MINUTE_MS = 60_000
AGO_MS = 30 * MINUTE_MS + 30_000


def days_around(redis_client: redis.Redis) -> str:
    """Return yesterday, today and tomorrow as dates of a calendar."""
    today = from_ms(now_ms(redis_client)).date()
    return f"{today - timedelta(days=1)}..{today + timedelta(days=1)}"


def told(client: Client) -> str:
    return "\n".join(text for _, text in client.why("tick").lines)


def is_today(client: Client, redis_client: redis.Redis, id: str) -> bool:
    return (client.get(id).next_ms or 0) - now_ms(redis_client) < MINUTE_MS


def fire_past(client: Client, redis_client: redis.Redis, redis_url: str) -> str:
    """Let a daemon fire half an hour of minutes, without five of them in the window that is returned."""
    began = from_ms(now_ms(redis_client) - AGO_MS)
    window = f"{began + timedelta(minutes=10):%H:%M}-{began + timedelta(minutes=15):%H:%M}"
    with set_back(redis_client, AGO_MS):
        client.schedule(FUNC, id="tick", cron="* * * * *", catch_up="all", overlap="allow", exclude=[window])
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: (client.get("tick").next_ms or 0) > now_ms(redis_client))
    return window


def test_occurrences_at_excluded_times_are_recorded_and_do_not_fire(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    window = fire_past(client, redis_client, redis_url)

    [excluded] = [one for one in client.history("tick", limit=200) if one.what is What.EXCLUDED]
    assert (5, window) == (excluded.count, excluded.why)
    fired = {one.nominal_ms for one in client.history("tick", limit=200) if one.what is What.FIRED}
    times = range(min(ms or 0 for ms in fired), client.get("tick").nominal_ms or 0, MINUTE_MS)
    assert excluded.first_ms is not None
    assert excluded.last_ms is not None
    assert {ms for ms in times if not excluded.first_ms <= ms <= excluded.last_ms} == fired
    assert len(fired) == len(queued(redis_client))
    assert "excluded 5 occurrences" in told(client)


def test_a_changed_calendar_moves_the_next_occurrence_there_and_back(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.put_calendar("shut", dates=[f"{days_around(redis_client)} Inventory"])
    client.schedule(FUNC, id="tick", cron="* * * * *", exclude=["shut"])
    assert not is_today(client, redis_client, "tick")

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        assert "updated" == client.put_calendar("shut", dates=["2020-01-01"])
        eventually(lambda: is_today(client, redis_client, "tick"))
        assert "updated" == client.put_calendar("shut", dates=[f"{days_around(redis_client)} Inventory"])
        eventually(lambda: not is_today(client, redis_client, "tick"))

    moves = [one for one in client.history("tick", limit=200) if one.what is What.REPLANNED]
    assert "a calendar changed" in told(client)
    assert not [one for one in moves if one.why != "calendars"]


def test_calendars_return_with_the_schedules_after_a_loss(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    client.put_calendar("shut", dates=[days_around(redis_client)], windows=["Sat,Sun"])
    client.put_calendar("gone", dates=["12-25"])
    client.delete_calendar("gone")
    before = client.calendars()
    client.schedule(FUNC, id="tick", cron="* * * * *", exclude=["shut"], durable=False)
    next_ms = client.get("tick").next_ms

    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("term_began")
        eventually(lambda: [ArchiveState.FOLLOWING] == [one.state for one in client._overview().archives])
        client.schedule(FUNC, id="other", after=3600, durable=True)
        redis_client.flushall()
        eventually(lambda: [one.id for one in client.list()] == ["other", "tick"])
        eventually(lambda: before == client.calendars())

    assert next_ms == client.get("tick").next_ms
    assert ["shut"] == list(before)


def test_a_calendar_that_schedules_name_cannot_be_deleted(client: Client) -> None:
    client.put_calendar("shut", dates=["12-25"])
    client.schedule(FUNC, id="tick", cron="* * * * *", exclude=["shut"])

    with pytest.raises(InvalidSchedule, match="named by 1 schedule: tick"):
        client.delete_calendar("shut")


def test_an_unknown_calendar_is_refused_with_the_known_ones(client: Client) -> None:
    client.put_calendar("us", dates=["07-04"])

    with pytest.raises(InvalidSchedule, match=r"name us, or put it first") as caught:
        client.schedule(FUNC, id="tick", cron="* * * * *", exclude=["kr"])
    assert ("exclude", "kr") == (caught.value.field, caught.value.value)
    assert [] == list(client.list())


def test_a_run_that_moves_fires_at_the_end_of_the_excluded_time(client: Client, redis_client: redis.Redis) -> None:
    tomorrow = from_ms(now_ms(redis_client)).date() + timedelta(days=1)

    put = client.schedule(
        FUNC, id="tick", cron="0 9 * * *", exclude=[days_around(redis_client)], on_excluded="next_open"
    )

    assert put.next_at is not None
    assert tomorrow + timedelta(days=1) == put.next_at.date()
    assert (0, 0) == (put.next_at.hour, put.next_at.minute)


@pytest.mark.parametrize("skips", [0, 1], ids=["", "with a skip by hand"])
def test_why_says_first_that_the_newest_occurrence_was_excluded(
    client: Client, redis_client: redis.Redis, skips: int
) -> None:
    at = from_ms(now_ms(redis_client))
    window = f"{at - timedelta(minutes=15):%H:%M}-{at + timedelta(hours=1):%H:%M}"
    with set_back(redis_client, 10 * MINUTE_MS):  # within the window: nothing of it is recorded
        client.schedule(FUNC, id="tick", cron="* * * * *", exclude=[window])
    if skips:
        client.skip("tick", next=skips)

    verdict = client.why("tick").verdict

    assert Word.EXCLUDED is verdict.word
    assert f" was excluded: {window}; next " in verdict.text
    assert "nothing to do: it fires at its next time" == verdict.remedy


def test_excluded_occurrences_are_found_counted_and_no_failure(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    window = fire_past(client, redis_client, redis_url)
    [found] = client.history(status="excluded")

    assert (What.EXCLUDED, 5, window) == (found.what, found.count, found.why)
    assert Mark.EXCLUDED is mark_of(found)
    assert f"5 excluded: {window}" == words_of(found)


@pytest.mark.parametrize("given", ["at", "after"])
def test_a_one_shot_at_an_excluded_time_moves_or_is_refused_with_the_next_open_time(
    client: Client, redis_client: redis.Redis, given: str
) -> None:
    client.put_calendar("shut", dates=[f"{days_around(redis_client)} Inventory"])
    at = from_ms(now_ms(redis_client)) + timedelta(minutes=5)
    open_at = datetime.combine(at.date() + timedelta(days=2), time(), UTC)
    when: Any = {"at": at} if given == "at" else {"after": 300}

    with pytest.raises(InvalidSchedule) as refused:
        client.schedule(FUNC, id="once", **when, exclude=["shut"])
    moved = client.schedule(FUNC, id="once", **when, exclude=["shut"], on_excluded="next_open")
    many = client.schedule_many([{"func": FUNC, **when, "exclude": ["shut"], "on_excluded": "next_open"}] * 3)

    assert (given, "excluded: calendar shut: Inventory") == (refused.value.field, refused.value.problem)
    assert f"the next open time is {open_at.isoformat()}" in refused.value.remedy
    assert open_at == moved.next_at
    assert 3 == many.done
    assert {open_at} == {from_ms(one.next_ms or 0) for one in client.list()}


def test_a_one_shot_at_an_open_time_stays_there(client: Client, redis_client: redis.Redis) -> None:
    at = from_ms(now_ms(redis_client)) + timedelta(days=1)
    day = f"{at.date() + timedelta(days=3)}"

    put = client.schedule(FUNC, id="once", at=at, exclude=[day])
    again = client.schedule(FUNC, id="once", at=at, exclude=[day], on_excluded="next_open")

    assert (at, "unchanged") == (put.next_at, again.outcome)
    with pytest.raises(InvalidSchedule, match="of a one-shot only when it is put"):
        client.update("once", exclude=[day])


def test_an_excluded_local_time_of_a_one_shot_is_of_its_zone(client: Client) -> None:
    at = datetime(2030, 6, 3, 23, 30)

    put = client.schedule(FUNC, at=at, tz="Asia/Seoul", exclude=["22:00-07:00"], on_excluded="next_open")

    assert datetime(2030, 6, 3, 22, tzinfo=UTC) == put.next_at


def test_a_preview_of_a_rule_leaves_out_a_calendar(client: Client, redis_client: redis.Redis) -> None:
    client.put_calendar("shut", dates=[days_around(redis_client)])

    [first] = client.preview(cron="0 12 * * *", exclude=["shut"], n=1)

    assert from_ms(now_ms(redis_client)).date() + timedelta(days=2) == first.date()


def test_show_says_first_that_the_newest_occurrence_was_excluded(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    at = from_ms(now_ms(redis_client))
    window = f"{at - timedelta(minutes=15):%H:%M}-{at + timedelta(hours=1):%H:%M}"
    with set_back(redis_client, 10 * MINUTE_MS):
        client.schedule(FUNC, id="tick", cron="* * * * *", exclude=[window])

    lines = Zsched(redis_url)("show", "tick").stdout.splitlines()

    assert re.match(f"EXCLUDED: .* was excluded: {window}; next ", lines[0])
    assert f'  exclude        ["{window}"]' in lines
