"""client.cancel, pause, resume and get."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import redis

from tests.faults.clocks import freeze
from tests.integration.client.ground import KEYS, pass_time, queued
from zsched import Client, InvalidSchedule, ScheduleNotFound
from zsched.core.choices import Missed, ScheduleState
from zsched.core.clock import from_ms, to_ms


def test_cancel_returns_the_outcome(client: Client, redis_client: redis.Redis, soon: datetime) -> None:
    client.schedule("app.task", id="a", at=soon)
    client.schedule("app.task", id="now", at=soon)
    client.run_now("now")

    assert ["cancelled", "not_found", "already_fired", "not_found"] == [
        client.cancel("a"), client.cancel("a"), client.cancel("now"), client.cancel("no"),
    ]  # fmt: skip
    assert 1 == len(queued(redis_client))


def test_a_pause_and_a_resume_of_a_one_shot_keep_the_time_of_its_creation(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon)
    made = client.get("a")
    pass_time(redis_client, timedelta(minutes=1))

    changed = [client.pause("a"), client.resume("a")]

    assert [made.created_ms] * 2 == [one and one.created_ms for one in changed]
    assert 3 == len({made.version, *(one and one.version for one in changed)})
    assert "unchanged" == client.schedule("app.task", id="a", at=soon).outcome


def test_cancelling_an_id_that_was_cancelled_after_a_run_returns_not_found(client: Client, soon: datetime) -> None:
    client.schedule("app.task", id="rule", every=3600)
    client.run_now("rule")
    client.schedule("app.task", id="again", at=soon)
    client.run_now("again")
    client.schedule("app.task", id="again", at=soon + timedelta(hours=1))

    first, second = ([client.cancel(id) for id in ("rule", "again")] for _ in range(2))

    assert (["cancelled"] * 2, ["not_found"] * 2) == (first, second)


def test_cancelling_a_one_shot_that_was_skipped_returns_not_found(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon)
    client.pause("a")
    pass_time(redis_client, timedelta(days=2))
    client.resume("a", "skip")

    assert "not_found" == client.cancel("a")


def test_cancelling_a_one_shot_whose_run_was_retried_returns_already_fired(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon)
    run_id = client.run_now("a")
    client.cancel_run(run_id)
    client.retry(run_id)

    assert "already_fired" == client.cancel("a")


def test_a_paused_schedule_resumes_at_its_time_without_the_note(client: Client, soon: datetime) -> None:
    client.schedule("app.task", id="a", at=soon)

    paused = client.pause("a", note="until the sale is over")
    resumed = client.resume("a")

    assert (ScheduleState.PAUSED, "until the sale is over", soon) == (paused.state, paused.note, paused.next_at)
    assert resumed is not None
    assert (ScheduleState.ACTIVE, soon, None) == (resumed.state, resumed.next_at, resumed.note)


@pytest.mark.parametrize("missed", ["fire", Missed.FIRE])
def test_an_overdue_schedule_fires_after_resume(
    client: Client, redis_client: redis.Redis, soon: datetime, missed: Any
) -> None:
    client.schedule("app.task", id="a", at=soon)
    client.pause("a")
    pass_time(redis_client, timedelta(days=2))

    resumed = client.resume("a", missed)

    assert resumed is not None
    assert (ScheduleState.ACTIVE, soon) == (resumed.state, resumed.next_at)


def test_resume_with_skip_removes_an_overdue_one_shot(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    client.schedule("app.task", id="a", at=soon)
    client.pause("a")
    pass_time(redis_client, timedelta(days=2))

    assert client.resume("a", "skip") is None
    assert [] == list(client.list())


@pytest.mark.parametrize("rule", [{"every": 60}, {"cron": "*/5 * * * *"}, {"rrule": "FREQ=DAILY;BYHOUR=0,6,12,18"}])
def test_resume_with_skip_records_the_missed_occurrences(
    client: Client, redis_client: redis.Redis, rule: dict[str, Any]
) -> None:
    now = from_ms(freeze(redis_client)) + timedelta(days=3)
    client.schedule("app.task", id="r", **rule)
    first_ms = client.get("r").next_ms
    client.pause("r")
    pass_time(redis_client, timedelta(days=3))

    resumed = client.resume("r", "skip")

    assert resumed is not None
    assert ScheduleState.ACTIVE is resumed.state
    assert [resumed.next_at] == list(client.preview("r", n=1, start=now))
    [(_, entry)] = redis_client.xrevrange(KEYS.log(), count=1)
    _, _, first, _, count, _ = entry[b"r"].split(b" ")
    assert (str(first_ms).encode(), True) == (first, int(count) > 10)


def test_life_cycle_calls_on_an_unknown_id_raise_schedule_not_found(client: Client) -> None:
    for call in (client.get, client.pause, client.resume, client.run_now, client.update, client.preview):
        with pytest.raises(ScheduleNotFound, match="'nothing' in namespace 'default'"):
            call("nothing")
        with pytest.raises(InvalidSchedule, match=r"^id="):
            call("a.b")
    with pytest.raises(InvalidSchedule, match=r"^id="):
        client.cancel("a b")


def test_pause_and_resume_refuse_quarantined_and_ended_schedules(
    client: Client, redis_client: redis.Redis, soon: datetime
) -> None:
    redis_client.hset(KEYS.quarantine(), "q", f"normal {to_ms(soon)} 1 its hash is gone")
    client.schedule("app.task", id="e", every=60)
    redis_client.zrem(KEYS.due_normal(), "e")

    for id, problem in (("q", "quarantined"), ("e", "ended")):
        for call in (client.pause, client.resume):
            with pytest.raises(InvalidSchedule, match=problem):
                call(id)
    assert ("its hash is gone", ScheduleState.ENDED) == (client.get("q").note, client.get("e").state)
    assert ["cancelled", "cancelled"] == [client.cancel("q"), client.cancel("e")]


def test_bad_notes_and_modes_are_refused(client: Client) -> None:
    with pytest.raises(InvalidSchedule, match=r"^note="):
        client.pause("a", "two\nlines")
    with pytest.raises(InvalidSchedule, match=r"^missed="):
        client.resume("a", "all")
