"""Reading the log: pages, searching while it is trimmed, and the bounds of reading it from its end."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import redis

from zsched.core.clock import ManualClock, SystemClock
from zsched.core.entry import Position
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import RunStatus
from zsched.daemon.loop import Bell
from zsched.storage import log as module
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryReader
from zsched.storage.keys import Keys
from zsched.storage.last_minutes import LastMinutes
from zsched.storage.log import Log
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

KEYS = Keys("default")
START_US = 1_767_225_600_000_000
STEP_US = 1_000_000

# Seq is dense over all epochs; some epochs have one entry, and the numbers of digits change on the way.
EPOCHS = [1] * 7 + [2] + [9] * 30 + [10] + [11] + [100] * 61
POSITIONS = [Position(epoch, n + 1, START_US + n * STEP_US) for n, epoch in enumerate(EPOCHS)]
ROWS, ROW_BYTES = 200, 1200  # what schedule_many puts into one entry
MIB = 1_048_576


@pytest.fixture
def log(link: Link, redis_client: redis.Redis) -> Log:
    """A log with the entries POSITIONS."""
    write(redis_client, POSITIONS)
    return Log(link, KEYS)


def write(client: redis.Redis, positions: list[Position]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for position in positions:
            pipeline.xadd(KEYS.log(), {"kind": "cancel", "t": position.t_us, "rows": 1, "a": 5}, id=position.id)
        pipeline.execute()


def forget_before(client: redis.Redis, first_kept: Position) -> object:
    return client.xtrim(KEYS.log(), minid=first_kept.id, approximate=False)


class Interrupted:
    """A channel that calls a function after its command number *number*, and counts commands."""

    def __init__(self, link: Link, number: int = -1, happen: Callable[[], object] = lambda: None) -> None:
        self._link, self._number, self._happen = link, number, happen
        self.commands = 0

    def execute(self, *command: Any) -> Any:
        reply = self._link.execute(*command)
        self.commands += 1
        assert self.commands < 1000, "it does not end"
        if self.commands == self._number:
            self._happen()
        return reply


def test_a_page_begins_with_the_named_entry_and_the_log_has_a_first_and_a_last(log: Log) -> None:
    assert POSITIONS[:3] == [entry.position for entry in log.read("-", 3)]
    assert POSITIONS[6:10] == [entry.position for entry in log.read(POSITIONS[6].id, 4)]
    assert POSITIONS[-1:] == [entry.position for entry in log.read(POSITIONS[-1].id, 4)]
    assert [] == log.read("101-0", 4)
    assert [POSITIONS[0], POSITIONS[-1]] == [entry.position for entry in (log.first(), log.last()) if entry]


def test_read_returns_an_entry_unchanged(log: Log) -> None:
    [entry] = log.read("9-9", 1)

    assert (POSITIONS[8], "cancel", [b"rows", b"1", b"a", b"5"]) == (entry.position, entry.kind, entry.body)


def test_reading_back_gives_the_newest_first(log: Log) -> None:
    assert POSITIONS[:-4:-1] == [entry.position for entry in log.read_back("+", 3)]
    assert POSITIONS[7:4:-1] == [entry.position for entry in log.read_back("2-8", 3)]
    assert POSITIONS[6:4:-1] == [entry.position for entry in log.read_back("(2-8", 2)]
    assert POSITIONS[:1] == [entry.position for entry in log.read_back("1-1", 3)]
    assert [] == log.read_back("(1-1", 3)


def test_an_empty_log_has_no_entries(link: Link) -> None:
    log = Log(link, KEYS)

    assert (None, None, [], (0, 0)) == (log.first(), log.last(), list(log.entries()), log.size())
    assert log.search(lambda position: True) is None
    assert not log.contains(POSITIONS[0])


@pytest.mark.parametrize("page", [1, 7, 100, 101, 1000])
def test_entries_yields_every_entry_once_for_any_page_size(log: Log, page: int) -> None:
    assert POSITIONS == [entry.position for entry in log.entries(page=page)]
    assert POSITIONS[40:] == [entry.position for entry in log.entries(POSITIONS[40].id, page)]


@pytest.mark.parametrize("n", [0, 7, 8, 37, 49, 50, 99])
def test_the_log_contains_an_entry_by_its_id_and_time_until_it_is_trimmed(
    log: Log, redis_client: redis.Redis, n: int
) -> None:
    there = POSITIONS[n]
    assert log.contains(there)
    assert not log.contains(there._replace(t_us=there.t_us + 1))
    assert not log.contains(there._replace(epoch=there.epoch + 1))

    forget_before(redis_client, POSITIONS[50])

    assert (n >= 50) is log.contains(there)


def test_wait_ends_at_a_new_entry_or_after_its_time(log: Log) -> None:
    assert log.wait(POSITIONS[-2].id, 60_000)
    assert not log.wait(POSITIONS[-1].id, 1)


def test_a_wait_for_a_reply_ends_when_the_bell_rings(log: Log, link: Link) -> None:
    bell = Bell()
    with closing(link.open()) as wire, closing(bell):
        wire.send(*log.wait_command(POSITIONS[-2].id, 60_000))
        assert wire.wait_for_data(60, bell)
        assert wire.receive()

        wire.send(*log.wait_command(POSITIONS[-1].id, 60_000))
        bell.ring()
        assert not wire.wait_for_data(60, bell)
        assert bell.is_rung


def test_the_size_is_entries_and_bytes(log: Log) -> None:
    length, size = log.size()

    assert len(POSITIONS) == length
    assert 1000 < size < 100_000


@pytest.mark.parametrize("first", [0, 3, 6, 7, 8, 20, 38, 39, 40, 99])
def test_a_search_finds_the_first_entry_that_is_far_enough(log: Log, redis_client: redis.Redis, first: int) -> None:
    forget_before(redis_client, POSITIONS[first])
    expected = [max(n, first) for n in range(len(POSITIONS))]

    by_seq = [log.search(lambda at, n=n: at.seq >= POSITIONS[n].seq) for n in range(len(POSITIONS))]
    by_time = [log.search(lambda at, n=n: at.t_us >= POSITIONS[n].t_us) for n in range(len(POSITIONS))]

    assert [POSITIONS[n] for n in expected] == by_seq == by_time


def test_a_search_for_a_time_between_two_entries_finds_the_later_entry_and_for_a_later_one_nothing(log: Log) -> None:
    found = [log.search(lambda at, t=position.t_us + 1: at.t_us >= t) for position in POSITIONS]

    assert [*POSITIONS[1:], None] == found


def test_a_search_finds_the_first_entry_of_several_at_one_time(link: Link, redis_client: redis.Redis) -> None:
    positions = [Position(1, n + 1, START_US + n // 10) for n in range(100)]
    write(redis_client, positions)

    found = [Log(link, KEYS).search(lambda at, t=START_US + n: at.t_us >= t) for n in range(10)]

    assert positions[::10] == found


def test_a_search_reads_few_entries(link: Link, redis_client: redis.Redis) -> None:
    write(redis_client, [Position(3, n + 1, START_US + n) for n in range(10_000)])
    channel = Interrupted(link)

    found = Log(channel, KEYS).search(lambda position: position.seq >= 7_777)

    assert Position(3, 7_777, START_US + 7_776) == found
    assert channel.commands <= 20


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("first", [1, 8, 40, 45, 60, 69, 70, 71, 80, 99, None])
def test_a_search_in_a_log_that_is_being_trimmed_or_emptied_finds_the_first_remaining_entry(
    log: Log, link: Link, redis_client: redis.Redis, number: int, first: int | None
) -> None:
    def trim() -> object:
        return redis_client.delete(KEYS.log()) if first is None else forget_before(redis_client, POSITIONS[first])

    found = Log(Interrupted(link, number, trim), KEYS).search(lambda position: position.seq >= POSITIONS[70].seq)

    if first is None:
        assert found is None or found in POSITIONS[70:]
        return
    assert found is not None
    assert POSITIONS[70].seq <= found.seq <= POSITIONS[max(70, first)].seq


def test_a_search_skips_a_gap_that_a_loss_left(link: Link, redis_client: redis.Redis) -> None:
    there = [Position(1, seq, START_US + seq) for seq in (1, 2, 50, 51, 100)]
    write(redis_client, there)

    found = [Log(Interrupted(link), KEYS).search(lambda at, seq=seq: at.seq >= seq) for seq in range(1, 101)]

    assert [next(position for position in there if position.seq >= seq) for seq in range(1, 101)] == found


# -- from its end -------------------------------------------------------------------------------------


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
    return list(HistoryReader(link, KEYS).search(Wanted(frozenset(What), frozenset(RunStatus), 20)))


@pytest.mark.parametrize("look", [look_for_a_run, look_at_the_last_minutes, look_for_occurrences])
def test_reading_large_entries_backwards_reads_few_bytes_per_command(
    counting: CountingLink, redis_client: redis.Redis, look: Callable[[Link], Any]
) -> None:
    write_heavy(redis_client, 50)

    found = look(counting)

    assert max(counting.sizes) <= 2 * MIB
    if look is look_for_a_run:
        assert (None, True) == (found, sum(counting.sizes) <= 5 * MIB)


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
