"""A product's schedules in its tests: time passes when the test says so, on fakeredis and on a real Redis alike."""

import asyncio
import re
import warnings
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.prefix import RQ
from tests.unit.testing import tasks
from tests.unit.testing.tasks import HOUR, KEYS, MINUTE, NINE, nominal
from zsched import AsyncClient, Client, InvalidSchedule, ZschedError
from zsched.core.clock import SystemClock
from zsched.core.options.choices import ScheduleState
from zsched.testing import Fired, ManualScheduler


def test_an_hourly_schedule_fires_three_times_in_three_hours_at_its_nominal_times(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, args=(1,), kwargs={}, id="hourly", every=HOUR, queue="mail")

    runs = scheduler.advance(hours=3)

    assert [NINE + n * HOUR for n in (1, 2, 3)] == nominal(runs) == [run.at for run in runs]
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC)
    first = Fired("hourly-1767261600000", "hourly", f"{tasks.__name__}.note", (1,), {}, "mail", ten, ten)
    assert first == runs[0]
    assert [run.id.encode() for run in runs] == scheduler.redis.lrange(f"{RQ}:queue:mail", 0, -1)


def test_skips_and_a_pause_with_an_end_hold_over_the_hours_of_a_test(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="hourly", every=HOUR)
    scheduler.client.skip("hourly", NINE + 2 * HOUR, note="holiday")
    first = scheduler.advance(hours=3)
    scheduler.client.pause("hourly", until=NINE + 5.5 * HOUR)
    then = scheduler.advance(hours=4)

    assert [NINE + n * HOUR for n in (1, 3)] == nominal(first)
    assert [NINE + n * HOUR for n in (6, 7)] == nominal(then)
    told = [text for _, text in scheduler.client.why("hourly").lines]
    assert 1 == sum("skipped by hand" in text for text in told)
    assert 1 == sum("resumed, as" in text for text in told)


def test_the_next_time_is_exact_to_the_millisecond(scheduler: ManualScheduler) -> None:
    client = scheduler.client

    assert NINE + MINUTE == client.schedule(tasks.note, after=60).next_at
    assert NINE + HOUR == client.schedule(tasks.note, cron="0 * * * *").next_at
    assert datetime(2026, 1, 2, tzinfo=UTC) == client.schedule(tasks.note, at=tasks.at_nine(2), tz="Asia/Seoul").next_at
    assert [NINE + MINUTE] == client.preview(every=60, n=1)
    assert NINE == scheduler.now


def test_the_days_of_a_calendar_have_no_runs_and_a_changed_calendar_counts_at_once(scheduler: ManualScheduler) -> None:
    client, day = scheduler.client, 24 * HOUR
    client.put_calendar("shut", dates=["2026-01-02..2026-01-04 Inventory"])
    client.schedule(tasks.note, id="daily", cron="0 9 * * *", exclude=["shut"])

    assert [NINE + 4 * day] == nominal(scheduler.advance(days=4))
    client.put_calendar("shut", dates=["2026-01-06"])
    assert [NINE + 6 * day, NINE + 7 * day] == nominal(scheduler.advance(days=3))
    excluded = [(one.count, one.why) for one in client.history("daily", status="excluded")]
    assert [(1, "calendar shut: 2026-01-06")] == excluded


def test_the_schedulers_clock_stands_still_while_real_time_passes(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="soon", after=0.005)
    machine = SystemClock()
    until_ms = machine.monotonic_ms() + 10
    while machine.monotonic_ms() < until_ms:
        scheduler.client._overview()

    assert [] == scheduler.tick()
    assert int(NINE.timestamp()) * 1000 == scheduler.client._overview().now_ms
    assert NINE == scheduler.now
    assert ["soon"] == [run.schedule_id for run in scheduler.advance(seconds=0.005)]


def test_a_client_made_by_the_product_sees_the_same_time(scheduler: ManualScheduler) -> None:
    products = Client(scheduler.redis)

    assert NINE + HOUR == products.schedule(tasks.note, id="a", every=HOUR).next_at
    assert NINE + HOUR == products.schedule(tasks.note, after=HOUR).next_at
    assert 2 == len(scheduler.advance(HOUR))


def test_advancing_by_a_year_fires_every_month(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="monthly", cron="0 9 1 * *", tz="America/New_York")

    runs = scheduler.advance_to(datetime(2027, 1, 1, tzinfo=UTC))

    assert 12 == len(runs)
    assert datetime(2026, 7, 1, 13, tzinfo=UTC) == runs[6].nominal_at  # daylight saving time
    assert datetime(2027, 1, 1, tzinfo=UTC) == scheduler.now


def test_the_instant_that_is_advanced_to_is_included(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, at=NINE + HOUR)

    assert [] == scheduler.advance(minutes=59, seconds=59.999)
    assert 1 == len(scheduler.advance(seconds=0.001))


def test_a_due_schedule_fires_without_time_passing(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, at=NINE - HOUR, allow_past=True)

    [run] = scheduler.tick()

    assert (NINE - HOUR, NINE) == (run.nominal_at, run.at)
    assert [] == scheduler.tick()


@pytest.mark.parametrize("when", [NINE - MINUTE, datetime(2027, 1, 1)])
def test_time_can_go_neither_backward_nor_to_an_invalid_instant(scheduler: ManualScheduler, when: datetime) -> None:
    with pytest.raises(InvalidSchedule, match=r"^when="):
        scheduler.advance_to(when)

    assert NINE == scheduler.now


def test_a_naive_time_is_refused_with_a_remedy_that_advance_to_takes(scheduler: ManualScheduler) -> None:
    with pytest.raises(InvalidSchedule, match=r"^when=2026-01-02T00:00:00: .*give an aware one, such as datetime\("):
        scheduler.advance_to(datetime(2026, 1, 2))
    with pytest.raises(InvalidSchedule, match=r"^start="):
        ManualScheduler(start=datetime(2026, 1, 1, 9))


def test_a_run_at_the_start_fires_without_doubt_or_hold(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", at=NINE, allow_past=True, on_uncertain="skip")

    assert ["a"] == [run.schedule_id for run in scheduler.tick()]


def test_entries_of_the_log_have_the_frozen_time(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="a", every=HOUR)
    scheduler.advance(hours=2)

    entries, _ = scheduler.client.log()

    times = [entry.position.t_us for entry in entries]
    assert times == sorted(times)
    nine_us = int(NINE.timestamp()) * 1_000_000
    assert [nine_us, nine_us + 3_600_000_000, nine_us + 7_200_000_000] == times[1:]


def test_broken_schedules_stop_no_other_schedule(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule(tasks.note, id="broken", every=MINUTE)
    scheduler.client.schedule(tasks.note, id="well", every=HOUR)
    scheduler.redis.delete(KEYS.schedule("broken"))

    assert ["well"] == [run.schedule_id for run in scheduler.advance(HOUR)]
    assert ScheduleState.QUARANTINED is scheduler.client.get("broken").state


def test_the_error_of_an_endless_instant_names_it(scheduler: ManualScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.testing.scheduler._MOST_PASSES", 2)
    monkeypatch.setattr(scheduler, "work", lambda raises: ["a run"])

    with pytest.raises(ZschedError, match=r"^2026-01-01T09:00:00\+00:00: 2 rounds .* does a task schedule itself"):
        scheduler.advance(seconds=1, work=True)


def test_why_tells_what_a_change_in_the_millisecond_of_the_creation_changed(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule("app.task", id="r", every=3600)
    scheduler.client.update("r", queue="email")

    assert "queue: default → email" in scheduler.client.why("r").lines[1][1]


def test_why_does_not_compare_a_schedule_with_a_cancelled_schedule_of_its_id(scheduler: ManualScheduler) -> None:
    scheduler.client.schedule("app.task", id="r", every=3600)
    scheduler.client.cancel("r")
    scheduler.advance(seconds=1)
    scheduler.client.schedule("app.task", id="r", every=3600, queue="email")

    assert not any("queue:" in line for _, line in scheduler.client.why("r").lines)


# -- asyncio ----------------------------------------------------------------------------------------


async def remind_and_cancel(client: AsyncClient) -> list[str]:
    made = await tasks.remind.schedule(client, after=60, event_id="e1")
    await client.schedule(tasks.note, id="hourly", every=HOUR)
    await asyncio.gather(*(client.schedule(tasks.note, id=f"many-{n}", after=1) for n in range(20)))
    await client.schedule_many({"func": tasks.note, "id": f"row-{n}", "after": 1} for n in range(3))
    await asyncio.gather(*(client.cancel(f"many-{n}") for n in range(20)))
    return [made.id, *[schedule.id async for schedule in client.list(match="h*")]]


def test_an_asynchronous_client_schedules_what_the_test_advances(scheduler: ManualScheduler) -> None:
    assert ["reminder-e1", "hourly"] == asyncio.run(remind_and_cancel(scheduler.async_client))

    runs = scheduler.advance(hours=1, work=True)

    assert ["reminder-e1", "hourly"] == [run.schedule_id for run in runs if not run.schedule_id.startswith("row-")]
    assert NINE + MINUTE == runs[3].at
    assert scheduler.client.why("reminder-e1").lines == asyncio.run(lines(scheduler.async_client))


async def lines(client: AsyncClient) -> object:
    async with client:  # as a service ends
        return (await client.why("reminder-e1")).lines


# -- many runs --------------------------------------------------------------------------------------


def test_a_long_advance_warns_once_on_a_fake_redis_and_names_the_real_one(
    scheduler: ManualScheduler, ground: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.testing.scheduler._MANY", 3)
    scheduler.client.schedule(tasks.note, id="often", every=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        numbers = [len(heard) for seconds in (3, 4, 4) if scheduler.advance(seconds=seconds)]

    assert ([0, 1, 1] if ground is None else [0, 0, 0]) == numbers
    assert all(re.search(r"500 runs .* 10 to 20 ms .* ManualScheduler\(redis\)", str(each.message)) for each in heard)
