"""Reading the last minutes of a log backwards: the reach, the size of pages, and the cost."""

from __future__ import annotations

import pytest
import redis

from zsched.core.changes import What
from zsched.core.clock import ManualClock, SystemClock
from zsched.core.recent import Recent
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log, recent

pytestmark = pytest.mark.redis
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


def fired(found: Recent) -> list[tuple[int, int]]:
    return [(stretch.span_ms, stretch.happened.get(What.FIRED, 0)) for stretch in found.stretches]


def test_every_entry_of_a_short_log_is_counted(redis_url: str, redis_client: redis.Redis) -> None:
    write(redis_client, 1000, over_ms=600_000)

    found = recent(Log(Link.from_url(redis_url, 5), KEYS), NOW_MS, "", ManualClock())  # it has all the time

    assert ([(60_000, 100), (300_000, 500), (1_800_000, 1000)], False) == (fired(found), found.is_cut)


def test_an_empty_log_is_complete(redis_url: str, redis_client: redis.Redis) -> None:
    found = recent(Log(Link.from_url(redis_url, 5), KEYS), NOW_MS, "", SystemClock())

    assert ([(60_000, 0), (300_000, 0), (1_800_000, 0)], False) == (fired(found), found.is_cut)


@pytest.mark.parametrize("number", [7, 8, 9, 24])  # around the ends of pages
def test_a_trimmed_log_is_counted_to_its_first_entry(redis_url: str, redis_client: redis.Redis, number: int) -> None:
    write(redis_client, number, from_seq=100, over_ms=90_000)

    found = recent(Log(Link.from_url(redis_url, 5), KEYS), NOW_MS, "", SystemClock())

    assert ((89_999, number), True) == (fired(found)[-1], found.is_cut)


@pytest.mark.parametrize("number", [8, 24])
def test_an_untrimmed_log_that_ends_with_a_page_is_complete(
    redis_url: str, redis_client: redis.Redis, number: int
) -> None:
    write(redis_client, number, over_ms=90_000)

    found = recent(Log(Link.from_url(redis_url, 5), KEYS), NOW_MS, "", SystemClock())

    assert ((1_800_000, number), False) == (fired(found)[-1], found.is_cut)


def test_recent_reads_no_further_back_than_its_period(redis_url: str, redis_client: redis.Redis) -> None:
    write(redis_client, 10_000, over_ms=36_000_000)  # ten hours: 500 of them count
    log = SlowLog(Link.from_url(redis_url, 5), ManualClock(), 0.0)

    found = recent(log, NOW_MS, "", ManualClock())

    assert (1_800_000, 500) == fired(found)[-1]
    assert sum(log.counts) <= 1500


def test_recent_stops_reading_a_slow_redis(redis_url: str, redis_client: redis.Redis) -> None:
    write(redis_client, 1000)
    clock = ManualClock()
    log = SlowLog(Link.from_url(redis_url, 5), clock, 60.0)

    found = recent(log, NOW_MS, "", clock)

    assert 5 == len(log.counts)  # 300 ms
    assert found.is_cut
    assert [(60 * sum(log.counts) - 1, sum(log.counts))] == fired(found)
