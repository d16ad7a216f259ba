"""Bounds of reading the log from its end: bytes of one command and of a whole search, for each caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from zsched.core.changes import What
from zsched.core.clock import ManualClock, SystemClock
from zsched.core.lookback import Wanted
from zsched.core.runs import RunStatus
from zsched.storage import log as module
from zsched.storage.connection import Link
from zsched.storage.inquiry import Inquiry
from zsched.storage.keys import Keys
from zsched.storage.last_minutes import LastMinutes
from zsched.storage.log import Log
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

pytestmark = pytest.mark.redis
KEYS = Keys("default")
ROWS, ROW_BYTES = 200, 1200  # what schedule_many puts into one entry
MIB = 1_048_576


class CountingLink(Link):
    """A link that notes how many bytes each XREVRANGE of the log brought."""

    def __init__(self, url: str) -> None:
        link = Link.from_url(url, 5)
        super().__init__(link.pool, link.where, link.timeout_s)
        self.sizes: list[int] = []

    def execute(self, *command: Any) -> Any:
        reply = super().execute(*command)
        if command[0] == "XREVRANGE":
            self.sizes.append(sum(len(text) for _, texts in reply for text in texts))
        return reply


@pytest.fixture
def counting(redis_url: str) -> CountingLink:
    return CountingLink(redis_url)


def write_heavy(client: redis.Redis, entries: int, *, from_seq: int = 1) -> None:
    """Write *entries* of the log as large as those of schedule_many."""
    payload = b"x" * ROW_BYTES
    rows = {f"row{n}": payload for n in range(ROWS)}
    for seq in range(from_seq, from_seq + entries):
        client.xadd(KEYS.log(), {"kind": "put", "t": seq, **rows}, id=f"3-{seq}")


def write_light(client: redis.Redis, entries: int, *, from_seq: int = 1) -> None:
    """Write *entries* of one run each."""
    with client.pipeline(transaction=False) as pipeline:
        for seq in range(from_seq, from_seq + entries):
            pipeline.xadd(KEYS.log(), {"kind": "fire", "t": seq, "runs": f"x-{seq}"}, id=f"3-{seq}")
        pipeline.execute()


def look_for_a_run(link: Link) -> Any:
    return Reader(link, KEYS, Encoder()).has_fired("unknown")


def look_at_the_last_minutes(link: Link) -> Any:
    return LastMinutes(Log(link, KEYS), "").read(1000, SystemClock())


def look_for_occurrences(link: Link) -> Any:
    return list(Inquiry(link, KEYS).search(Wanted(frozenset(What), frozenset(RunStatus), 20)))


@pytest.mark.parametrize("look", [look_for_a_run, look_at_the_last_minutes, look_for_occurrences])
def test_reading_large_entries_backwards_reads_few_bytes_per_command(
    counting: CountingLink, redis_client: redis.Redis, look: Callable[[Link], Any]
) -> None:
    write_heavy(redis_client, 50)

    look(counting)

    assert max(counting.sizes) <= 2 * MIB


def test_looking_for_a_run_of_an_unknown_id_reads_a_bounded_number_of_bytes(
    counting: CountingLink, redis_client: redis.Redis
) -> None:
    write_heavy(redis_client, 50)

    assert look_for_a_run(counting) is None

    assert sum(counting.sizes) <= 5 * MIB


def test_a_page_behind_light_entries_is_no_larger_than_the_most(
    counting: CountingLink, redis_client: redis.Redis
) -> None:
    write_heavy(redis_client, 60)
    write_light(redis_client, 500, from_seq=61)

    look_for_a_run(counting)

    assert max(counting.sizes) <= module.MOST_AT_ONCE * ROWS * (ROW_BYTES + 10)


def test_reading_backwards_gives_every_entry_once_and_the_newest_first(link: Link, redis_client: redis.Redis) -> None:
    write_light(redis_client, 100)
    write_heavy(redis_client, 7, from_seq=101)
    write_light(redis_client, 100, from_seq=108)

    pages = list(Log(link, KEYS).pages_back())

    assert list(range(207, 0, -1)) == [entry.position.seq for page in pages for entry in page]


@pytest.mark.parametrize("most", [0, 1, 8, 9, 99, 100, 101])
def test_reading_backwards_gives_at_most_the_entries_that_were_asked_for(
    link: Link, redis_client: redis.Redis, most: int
) -> None:
    write_light(redis_client, 100)

    found = [entry for page in Log(link, KEYS).pages_back(most) for entry in page]

    assert min(most, 100) == len(found)


def test_reading_backwards_ends_when_its_time_is_over(link: Link, redis_client: redis.Redis) -> None:
    write_light(redis_client, 1000)
    clock = ManualClock()

    pages = 0
    for _ in Log(link, KEYS).pages_back(for_ms=250, clock=clock):
        pages += 1
        clock.advance(100)

    assert 3 == pages
