"""
Reconciler: compare what an archive knows with what Redis holds, and put right what differs.

This comparison has three callers, each with a scope and a judge of its own: a merge after a loss (``daemon.merge``),
the audit (``daemon.auditor``), and the correction of another archive's restore (``daemon.peers``)::

    a page of what the archive knows
      │  ◄────────────────────────────────────────────────┐
      ▼                                                   │ others touched these schedules
    what Redis holds ──► the log is read up to there ──► the judge's rows ──► restore.lua, a portion at a time
                                                               ▲                     │ AGAIN: others wrote
                                                               └── the log is read on ◄┘

A comparison is true as of one entry of the log, ``seen``. What others write behind it is read and taken in, in order,
and Redis refuses a restore whose schedules they touched (rule: COMPARE_AND_SET, lib/behind.lua). All that is read must
be of one history: ``seen`` is in the log, what follows it is dense, and the entry at which Redis was read is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from zsched.core.difference import Branch, Held, Recalled, lacking
from zsched.core.log import Entry, Position
from zsched.core.log.recovery import Restored
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log, Pages
from zsched.storage.meta import doubted_until_ms
from zsched.storage.restoring import ROWS, Restoring, portions
from zsched.storage.scanner import Scanner

_READ: Final = 100  # log entries in one read, at most
_READ_BYTES: Final = 4 << 20  # about
_FIRST: Final = 25  # log entries in the first read
_LEAST: Final = 10  # rows put back at a time, however quickly the log goes on


class HistoryChanged(Exception):
    """The log does not contain what was read of it a moment ago."""


class Scope(Protocol):
    """The caller's part of a comparison: what it takes from the log, and its judge."""

    def take_in(self, entry: Entry) -> Collection[str]:
        """Take in what others wrote behind the comparison. Return the ids of the schedules that it touched."""

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Held]) -> list[Restored]:
        """Return what has to be put back of *page*, where Redis holds *held*, by id."""

    def note(self, rows: Sequence[Restored]) -> None:
        """Note *rows*, which were put back, with their places as logged."""


class Reconciler:
    """
    Comparisons of one *scope*, true as of ``seen``, the log's entry (None: the log is empty). ``touched``: schedules
    that others touched since the last comparison. *meanwhile* is called while Redis works.
    """

    def __init__(
        self,
        log: Log,
        scanner: Scanner,
        restoring: Restoring,
        scope: Scope,
        seen: Position | None,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._log, self._scanner, self._restoring, self._scope = log, scanner, restoring, scope
        self._meanwhile, self._size, self._pages = meanwhile, ROWS, Pages(_READ, _READ_BYTES, _FIRST)
        self._own: Position | None = None  # the last entry that was written here
        self.seen = seen
        self.touched: set[str] = set()

    def reconcile(self, page: Sequence[Recalled]) -> Iterator[None]:
        """
        Put back what Redis lacks of *page*. What others touch meanwhile is compared again. Yield when it takes long.

        Raises:
            HistoryChanged, OtherDataSet; what the scope raises. RedisUnavailable, RedisRefused, ArchiveError.
        """
        while page:
            yield from self.put_back(self.compare(page))
            page = [recalled for recalled in page if recalled.id in self.touched]
            if page:
                yield

    def compare(self, page: Sequence[Recalled]) -> list[Restored]:
        """Return what has to be put back of *page*, as of ``seen``, which is now. Raises as ``reconcile``."""
        held: dict[str, Held] = {}
        for at, found in self._scanner.schedules(recalled.id for recalled in page):
            self.read_to(at)
            held |= {one.id: one for one in found}
        return self._scope.judge(page, held)

    def put_back(self, rows: list[Restored]) -> Iterator[None]:
        """
        Put *rows* back, but for those of schedules that others touch meanwhile: these are ``touched`` then. Where the
        log goes on quickly, portions get small: less time passes from reading it to writing.
        """
        self.touched = set()
        while rows := [row for row in rows if row.id not in self.touched]:
            portion = next(portions(rows[: self._size]))
            written = self._restoring.restore(portion, self.seen, self._meanwhile)
            if written is None:
                self._size = max(self._size // 4, _LEAST)
                yield
                yield from self.catch_up()
                continue
            self._size, self._own = min(self._size * 2, ROWS), written.entry
            self._scope.note(written.rows)
            if self.seen is not None and written.entry.seq > self.seen.seq + 1:  # others wrote, of other schedules
                self.read_to(written.entry)
            self.seen = written.entry
            rows = rows[len(portion) :]

    def catch_up(self) -> Iterator[None]:
        """Take in what the log has behind ``seen``, up to its end."""
        while self.read_on():
            yield

    def read_to(self, at: Position | None) -> None:
        """Take in the log up to *at*. Raises HistoryChanged where it does not go there from ``seen``."""
        while self.seen != at:
            before = self.seen
            if at is None or (before is not None and before.order >= at.order):
                raise HistoryChanged
            self.read_on(at)
            if self.seen == before:
                raise HistoryChanged

    def read_on(self, until: Position | None = None) -> bool:
        """Take in the next entries behind ``seen``, none behind *until*. Return True if there may be more of them."""
        size = 1 + self._pages.size  # the first is known
        entries = self._log.read(self.seen.id if self.seen else "-", size)
        self._pages.learn(entries)
        has_more = len(entries) == size
        if self.seen is not None:
            if not entries or entries[0].position != self.seen:
                raise HistoryChanged
            entries = entries[1:]
        for entry in entries:
            if until is not None and entry.position.order > until.order:
                return False
            if self.seen is not None and entry.position.seq != self.seen.seq + 1:
                raise HistoryChanged
            if entry.position != self._own:
                self.touched.update(self._scope.take_in(entry))
            self.seen = entry.position
        return has_more


def lacking_rows(
    wire: Wire, keys: Keys, page: Sequence[Recalled], held: Mapping[str, Held], branch: Branch
) -> list[Restored]:
    """Judge *page* after a loss: what Redis needs to hold what an archive knows (``core.difference``)."""
    rows: list[Restored] = []
    for recalled in page:
        waits = held.get(recalled.id)
        is_run = waits is not None and any(waits.run == run.run for run in recalled.runs)
        until_ms = doubted_until_ms(wire, keys) if is_run else None
        rows += lacking(recalled, waits, branch, until_ms)
    return rows
