"""The last minutes of a log, read backwards; and the number of schedules that are due soon, by queue."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.builders.entries import add_entry, end_fields
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry
from zsched.core.known import Known
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import RecentActivity
from zsched.core.runs.run import Run, RunStatus
from zsched.errors import RedisUnavailable
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.last_minutes import LastMinutes
from zsched.storage.log import Log
from zsched.storage.queues import MOST_RULES, SAMPLE
from zsched.storage.reader import Reader

KEYS = Keys("default")
NOW_MS = 1_800_000_000_000


def write(client: redis.Redis, number: int, *, from_seq: int = 1, over_ms: int = 60_000) -> None:
    """Write *number* fires of one run each, evenly over the last *over_ms*, the first 1 ms later than the beginning."""
    with client.pipeline(transaction=False) as pipeline:
        for n in range(number):
            t_us = (NOW_MS - over_ms + 1 + over_ms * n // number) * 1000
            pipeline.xadd(KEYS.log(), {"kind": "fire", "t": t_us, "runs": f"a-{t_us // 1000}"}, id=f"3-{from_seq + n}")
        pipeline.execute()


class SlowLog(Log):
    """A log whose reads take time on *clock*."""

    def __init__(self, link: Link, clock: ManualClock, took_ms: float) -> None:
        super().__init__(link, KEYS)
        self._clock, self._took_ms = clock, took_ms
        self.counts: list[int] = []

    def read_back(self, last: str, count: int) -> list:  # type: ignore[type-arg]
        self.counts.append(count)
        self._clock.advance(self._took_ms)
        return super().read_back(last, count)


def fired(found: RecentActivity) -> list[tuple[int, int]]:
    return [(stretch.span_ms, stretch.happened.get(What.FIRED, 0)) for stretch in found.stretches]


def read(log: Log) -> RecentActivity:
    """Return a first reading."""
    return LastMinutes(log, "").read(NOW_MS, ManualClock())


@pytest.mark.parametrize(
    ("number", "from_seq", "over_ms", "last", "is_cut"),
    [
        (0, 1, 60_000, (1_800_000, 0), False),
        (1000, 1, 600_000, (1_800_000, 1000), False),
        *((number, 100, 90_000, (89_999, number), True) for number in (7, 8, 9, 24)),  # around the ends of pages
        *((number, 1, 90_000, (1_800_000, number), False) for number in (8, 24)),
    ],
)
def test_a_log_is_counted_to_its_first_entry_and_is_complete_if_untrimmed(
    link: Link, redis_client: redis.Redis, number: int, from_seq: int, over_ms: int, last: tuple[int, int], is_cut: bool
) -> None:
    write(redis_client, number, from_seq=from_seq, over_ms=over_ms)

    found = read(Log(link, KEYS))

    assert (last, is_cut) == (fired(found)[-1], found.is_cut)


def test_recent_reads_no_further_back_than_its_period(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 10_000, over_ms=36_000_000)  # ten hours: 500 of them count
    log = SlowLog(link, ManualClock(), 0.0)

    found = read(log)

    assert (1_800_000, 500) == fired(found)[-1]
    assert sum(log.counts) <= 1500


def test_recent_stops_reading_a_slow_redis(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 1000)
    clock = ManualClock()
    log = SlowLog(link, clock, 60.0)

    found = LastMinutes(log, "").read(NOW_MS, clock)

    assert 5 == len(log.counts)  # 300 ms
    assert found.is_cut
    assert [(60 * sum(log.counts) - 1, sum(log.counts))] == fired(found)


def test_a_second_reading_counts_only_new_entries(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 1000, over_ms=600_000)
    log = SlowLog(link, ManualClock(), 0.0)
    minutes = LastMinutes(log, "")
    minutes.read(NOW_MS, ManualClock())
    write(redis_client, 5, from_seq=1001, over_ms=10)
    log.counts.clear()

    found = minutes.read(NOW_MS, ManualClock())

    assert [(60_000, 105), (300_000, 505), (1_800_000, 1005)] == fired(found)
    assert 1 == len(log.counts)


def test_a_reading_with_other_known_failures_counts_all_anew(link: Link, redis_client: redis.Redis) -> None:
    runs = [Run(f"{id}-{NOW_MS}", RunStatus.FAILED, error="E", func=f"app.{id}") for id in "ab"]
    add_entry(redis_client, KEYS.log(), "3-1", "end", NOW_MS * 1000, *end_fields(*runs))
    minutes, known = LastMinutes(Log(link, KEYS), ""), [Known.of("app.a", None, "1h", "", "ann", NOW_MS)]

    found = [minutes.read(NOW_MS, ManualClock(), each).failures for each in ([], known, known, [])]

    assert [2, 1, 1, 2] == list(map(len, found))


def test_later_readings_continue_where_a_reading_had_to_stop(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 1000)
    clock = ManualClock()
    minutes = LastMinutes(SlowLog(link, clock, 60.0), "")

    readings = [minutes.read(NOW_MS, clock) for _ in range(12)]

    counts = [fired(found)[0][1] for found in readings]
    assert sorted(counts) == counts
    assert ([True] * 3, 1000, False) == ([found.is_cut for found in readings[:3]], counts[-1], readings[-1].is_cut)


@pytest.mark.parametrize(("is_lost", "later_ms", "number"), [(True, 0, 3), (False, 1_200_000, 20)])
def test_a_log_that_has_begun_anew_or_a_clock_that_was_set_back_make_a_reading_count_anew(
    link: Link, redis_client: redis.Redis, is_lost: bool, later_ms: int, number: int
) -> None:
    write(redis_client, 20)
    minutes = LastMinutes(Log(link, KEYS), "")
    minutes.read(NOW_MS + later_ms, ManualClock())
    if is_lost:
        redis_client.flushall()
        write(redis_client, 3)

    found = minutes.read(NOW_MS, ManualClock())

    assert ([number] * 3, False) == ([count for _, count in fired(found)], found.is_cut)


def test_a_reading_that_failed_leaves_no_counts_behind(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 20)

    class FailingLog(Log):
        """A log that fails once."""

        fails = 1

        def back(self, *given: Any, **bounds: Any) -> Iterator[Entry]:
            for number, entry in enumerate(super().back(*given, **bounds)):
                if number == 10 and self.fails:
                    self.fails -= 1
                    raise RedisUnavailable("gone")
                yield entry

    minutes = LastMinutes(FailingLog(link, KEYS), "")
    with pytest.raises(RedisUnavailable):
        minutes.read(NOW_MS, ManualClock())

    assert 20 == fired(minutes.read(NOW_MS, ManualClock()))[0][1]


def test_a_later_reading_goes_no_further_back_than_its_period(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, 10_000, over_ms=36_000_000)  # ten hours: 500 of them count
    clock = ManualClock()
    slow, quick = (SlowLog(link, clock, took_ms) for took_ms in (60.0, 0.0))
    minutes = LastMinutes(slow, "")
    assert minutes.read(NOW_MS, clock).is_cut
    minutes._log = quick

    found = minutes.read(NOW_MS, clock)

    assert ((1_800_000, 500), False) == (fired(found)[-1], found.is_cut)
    assert sum(quick.counts) <= 1500


# -- due soon -----------------------------------------------------------------------------------------


@pytest.fixture
def reader(client: Client) -> Reader:
    return client._reader


def test_an_empty_namespace_has_nothing_due(reader: Reader) -> None:
    assert {} == reader.due_soon()


def test_few_schedules_are_counted_exactly_by_queue_and_time(reader: Reader, client: Client) -> None:
    emails, pushes = [(30, "high"), (300, "low")], [(301, "normal"), (3000, "low"), (9000, "low")]
    for queue, rows in (("email", emails), ("push", pushes)):
        for after, priority in rows:
            client.schedule("app.run", id=f"s{after}", after=after, queue=queue, priority=priority)
    client.schedule("app.run", id="rule", every=59, queue="sms")  # 60: at the end of a minute

    found = reader.due_soon()

    assert {
        "email": {"1m": 1, "10m": 2, "60m": 2},
        "push": {"1m": 0, "10m": 1, "60m": 2},
        "sms": {"1m": 1, "10m": 10, "60m": 61},
    } == found


def test_overdue_schedules_count_and_paused_ones_do_not(reader: Reader, client: Client) -> None:
    client.schedule("app.run", id="late", after=0.001, queue="email")
    client.schedule("app.run", id="paused", after=30, queue="email")
    client.pause("paused")

    assert {"email": {"1m": 1, "10m": 1, "60m": 1}} == reader.due_soon()


def test_the_queues_of_many_schedules_are_estimated_from_a_sample(reader: Reader, client: Client) -> None:
    many, share = 100 * SAMPLE, 4
    client.schedule_many(
        {"func": "app.run", "id": f"s{n}", "after": 120 + n / 100, "queue": "push" if n % share else "email"}
        for n in range(many)
    )

    found = reader.due_soon()

    assert many == pytest.approx(sum(one["10m"] for one in found.values()), abs=2)
    assert many / share == pytest.approx(found["email"]["10m"], rel=0.4)
    assert found["email"]["1m"] == 0


def test_the_round_trips_do_not_grow_with_the_schedules(
    reader: Reader, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule_many({"func": "app.run", "id": f"s{n}", "after": 700 + n / 1000} for n in range(2000))
    commands: list[object] = []
    send = Wire.send
    monkeypatch.setattr(Wire, "send", lambda wire, *command: (commands.append(command), send(wire, *command))[1])

    reader.due_soon()

    assert len(commands) < 3 * SAMPLE + 40


def test_the_runs_of_many_recurring_schedules_are_estimated_from_some(reader: Reader, client: Client) -> None:
    number = 3 * MOST_RULES
    client.schedule_many({"func": "app.run", "id": f"s{n}", "every": 30, "queue": "push"} for n in range(number))

    found = reader.due_soon()

    assert {"1m": 2 * number, "10m": 20 * number, "60m": 120 * number} == found["push"]
