"""Reading the log of one namespace: the Redis stream that every script appends to. Nothing here writes."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, Self

from zsched.core.clock import SYSTEM, Clock
from zsched.core.entry import Entry, Position
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys

# Bounds of a read backwards. An entry has 100 bytes or 200 payloads, and Redis has no command for its size.
MOST_AT_ONCE: Final = 50  # entries of one command: 50 of 200 payloads of 1,200 bytes take the server 8 ms (measured)
_FEW: Final = 8  # entries of the first command
_PAGE_BYTES: Final = 262_144  # of one command


class LogPlace(NamedTuple):
    """
    The place of a call in the log, at *at_ms* of the server. *is_written*: the call wrote *entry*. Otherwise *entry* is
    the id of the next entry at that time. The place tells this log from another history, such as a failover brings.
    """

    entry: str
    at_ms: int
    is_written: bool = True

    @classmethod
    def of(cls, position: Position) -> Self:
        """Return the place of the entry at *position*."""
        return cls(position.id, position.t_us // 1000)


class Pages:
    """
    Size of the next page of the log, in entries: it doubles while entries are small.

    XRANGE counts entries and not bytes, so the next entries may be larger than all before. Then the page after them is
    short: at most *most_bytes*, estimated by the largest entry of the page before.
    """

    def __init__(self, most: int, most_bytes: int, first: int = 1) -> None:
        self.size, self._most, self._most_bytes = first, most, most_bytes

    def learn(self, entries: Iterable[Entry]) -> None:
        """Learn from *entries*, the last page."""
        largest = max((entry.size for entry in entries), default=0)
        self.size = max(min(2 * self.size, self._most, self._most_bytes // max(largest, 1)), 1)


class Log:
    """The log over one channel. Nothing here writes."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._key = channel, keys.log()

    def read(self, first: str, count: int) -> list[Entry]:
        """Return at most *count* entries from id *first* on, including it ("-": the oldest)."""
        return self._entries(self._channel.execute("XRANGE", self._key, first, "+", "COUNT", count))

    def read_back(self, last: str, count: int) -> list[Entry]:
        """Return at most *count* entries, the newest first, from id *last* back ("+": the newest; "(…": without it)."""
        return self._entries(self._channel.execute("XREVRANGE", self._key, last, "-", "COUNT", count))

    def pages_back(
        self,
        most: float = float("inf"),
        *,
        before: Position | None = None,
        most_bytes: float = float("inf"),
        for_ms: float = float("inf"),
        clock: Clock = SYSTEM,
    ) -> Iterator[list[Entry]]:
        """
        Yield the log from its end, or *before* a position, page by page, the newest entry first. Stop after *most*
        entries, or with the page that reaches *most_bytes* or *for_ms*. The time includes what the caller does with the
        pages.

        Pages grow while entries are small. Large entries come one by one, so no command keeps the server busy for long.
        The newest page is always read, also with smaller bounds.
        """
        pages, last = Pages(MOST_AT_ONCE, _PAGE_BYTES, _FEW), f"({before.id}" if before else "+"
        left, left_bytes = most, most_bytes
        until_ms = clock.monotonic_ms() + for_ms
        while left > 0 and (page := self.read_back(last, asked := int(min(pages.size, left)))):
            yield page
            left, left_bytes = left - len(page), left_bytes - sum(entry.size for entry in page)
            if len(page) < asked or left_bytes <= 0 or clock.monotonic_ms() >= until_ms:
                return
            last = f"({page[-1].position.id}"
            pages.learn(page)

    def back(self, most: float = float("inf"), **bounds: Any) -> Iterator[Entry]:
        """Yield the entries of ``pages_back``, with the same bounds."""
        return chain.from_iterable(self.pages_back(most, **bounds))

    def wait(self, after: str, for_ms: int) -> bool:
        """Wait at most *for_ms* for an entry after id *after*; return True if there is one."""
        return bool(self._channel.execute(*self.wait_command(after, for_ms)))

    def wait_command(self, after: str, for_ms: int) -> tuple[Any, ...]:
        """Return the command of ``wait``, for callers that wait for other events, too."""
        return "XREAD", "COUNT", 1, "BLOCK", for_ms, "STREAMS", self._key, after

    def first(self) -> Entry | None:
        """Return the oldest entry."""
        return next(iter(self.read("-", 1)), None)

    def last(self) -> Entry | None:
        """Return the newest entry."""
        return next(iter(self.read_back("+", 1)), None)

    def contains(self, position: Position) -> bool:
        """Return True if the log has this very entry, so also everything before it that was not trimmed."""
        found = self._entries(self._channel.execute("XRANGE", self._key, position.id, position.id))
        return bool(found) and found[0].position == position

    def entries(self, first: str = "-", page: int = 100) -> Iterator[Entry]:
        """Yield all entries from id *first* on, read page by page."""
        start = first
        while found := self.read(start, page):
            yield from found
            start = f"({found[-1].position.id}"

    def search(self, is_far_enough: Callable[[Position], bool]) -> Position | None:
        """
        Return the first entry for which *is_far_enough* is True, or None; it must be True for all later ones.
        Reads about 20 entries: ids of one epoch are dense, so each epoch is bisected.
        """
        head = self.first()
        while head is not None:
            epoch, low = head.position.epoch, head.position
            if is_far_enough(low):
                return low
            end = self.read_back(f"{epoch}-{2**64 - 1}", 1)
            if not end or end[0].position.epoch != epoch:  # trimmed meanwhile
                head = self.first()
                continue
            high = end[0].position
            if is_far_enough(high):
                return self._halve(low, high, is_far_enough)
            head = next(iter(self.read(f"({high.id}", 1)), None)
        return None

    def _halve(self, low: Position, high: Position, is_far_enough: Callable[[Position], bool]) -> Position:
        """
        Bisect between *low*, which is not far enough, and *high*, which is; both are of one epoch. Entries between them
        may be missing (trimmed or lost).
        """

        def at(seq: int) -> Position:
            return next((entry.position for entry in self.read(f"{low.epoch}-{seq}", 1)), high)

        seqs = range(low.seq + 1, high.seq)
        return at(low.seq + 1 + bisect_left(seqs, True, key=lambda seq: is_far_enough(at(seq))))

    def size(self) -> tuple[int, int]:
        """Return the number of entries, and their approximate memory in bytes (from a sample by Redis)."""
        length = int(self._channel.execute("XLEN", self._key))
        return length, int(self._channel.execute("MEMORY", "USAGE", self._key) or 0)

    @staticmethod
    def _entries(reply: Any) -> list[Entry]:
        return [Entry.of(id, texts) for id, texts in reply or ()]
