"""
Planning anew: after a change of what times follow from, read all recurring schedules, and move those with another time.

A field of meta has the *version* by which all schedules are planned. A term begins with a comparison. If this process
has another version, all recurring schedules are read, a page at a time. A schedule is moved if its next occurrence
differs. The log records the old and the new time::

    asking ──► the version is ours ──► settled: nothing to do
       └─────► another, or none ─────► moving: a page in every pass that has the time ──► settled: it is ours now

The firing thread does this. It is not a chore, because it must not wait for an archive. A page takes a few ms. No page
begins when a schedule is due within that time; if that is always so, pages get a tenth of the time. So due schedules do
not wait, however many there are.

If a term ends too early, the version stays, and the next term begins again; nothing moves twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.planning import Move
from zsched.core.pages import pages_of
from zsched.core.record import Record
from zsched.daemon.tick import Tick
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scanner import Scanner

log = structlog.get_logger(__name__)

_PAGE: Final = 50  # schedules read and planned at a time: some 3 ms (measured), most of it here
_AT_ONCE: Final = 100  # moves per script
_SHARE: Final = 10  # one part in this many of the time, while schedules are always due
_RETRY_MS: Final = 5_000.0  # after a refusal


class Replanning(ABC):
    """One cause of planning anew. One per connection; the leader's loop calls ``step_if_free`` in each pass."""

    field: ClassVar[str]  # of meta, with the version by which all schedules are planned
    refused: ClassVar[str]  # the event of a refusal

    def __init__(self, wire: Wire, keys: Keys, clock: Clock) -> None:
        self._wire, self._keys, self._clock = wire, keys, clock
        self._dispatch, self._scanner = Dispatch(wire, keys), Scanner(wire, keys)
        self._term = ""  # the term for which the following holds
        self._is_settled = False
        self._before = ""  # the version by which all schedules were planned
        self._ids: Iterator[list[str]] = iter(())  # of recurring schedules
        self._moved = 0
        self._next_ms = self._takes_ms = 0.0  # monotonic: when a page may take firing time; how long the last one took
        self._refusal: str | None = None

    @property
    @abstractmethod
    def version(self) -> str | None:
        """The version by which schedules are to be planned; None: it is unknown, and nothing moves."""

    @abstractmethod
    def _move_of(self, record: Record) -> Move | None:
        """Return the move of *record*; None if it stays, or if it is broken: it is quarantined when it is due."""

    @abstractmethod
    def _tell(self) -> None:
        """Log that all schedules are planned by ``version`` now."""

    @abstractmethod
    def _look_if_due(self) -> None:
        """Look for another version, if it is time."""

    def _finish(self) -> bool:
        """Do a page of work that follows the recurring schedules; return False if there is no more."""
        return False

    def is_settled(self, term: Term) -> bool:
        """Return True if all schedules are planned by our version. Asks when *term* is new."""
        if self._term != term.token:
            self._begin(term)
        return self._is_settled

    def step_if_free(self, term: Term, tick: Tick) -> bool:
        """
        Move a page of schedules, if some are left and there is time for it after *tick*. Return True if it was done.

        A refusal by Redis is logged once, and tried again. Raises Stale, ServerChanged, RedisUnavailable.
        """
        self._look_if_due()
        if tick.wait_ms is not None or self.is_settled(term):  # during a hold: restored schedules are moved afterwards
            return False
        began_ms = self._clock.monotonic_ms()
        if began_ms < self._next_ms and (self._refusal is not None or self._is_something_due(tick, began_ms)):
            return False
        try:
            self._step(term)
        except RedisRefused as error:  # firing goes on
            self._begin_again(str(error))
            return False
        ended_ms = self._clock.monotonic_ms()
        self._refusal, self._takes_ms = None, ended_ms - began_ms
        self._next_ms = ended_ms + (_SHARE - 1) * (ended_ms - began_ms)
        return True

    def move(self, term: Term, ids: Sequence[str]) -> tuple[set[str], list[str]]:
        """
        Move the schedules of *ids* that have another time by our version. Return the moved ids, and the ids changed
        meanwhile.
        """
        moves = [move for move in self._moves(ids) if not move.record.run]
        moved: set[str] = set()
        for page in pages_of(moves, _AT_ONCE):
            done = self._dispatch.replan(term, self.field, self.version or "", page)
            moved |= {move.record.id for move in done.moved}
        self._moved += len(moved)
        return moved, [move.record.id for move in moves if move.record.id not in moved]

    def _moves(self, ids: Sequence[str]) -> Iterator[Move]:
        records = (record for _, page in self._scanner.schedules(ids) for record in page)
        return (move for record in records if (move := self._move_of(record)) is not None)

    def _begin(self, term: Term) -> None:
        if self.version is None:
            self._is_settled = True
        else:
            self._before = self._dispatch.replan(term, self.field, self.version).before
            self._is_settled = self._before == self.version
        self._restart()
        self._moved, self._term = 0, term.token

    def _restart(self) -> None:
        self._ids = self._recurring()

    def _step(self, term: Term) -> None:
        page = next(self._ids, None)
        if page is not None:
            _, changed = self.move(term, page)
            if changed:  # a client was quicker: read once more
                self.move(term, changed)
        elif not self._finish():
            self._dispatch.replan(term, self.field, self.version or "", is_done=True)
            self._is_settled = True
            self._tell()

    def _begin_again(self, reason: str) -> None:
        if self._refusal is None:
            log.warning(self.refused, version=self.version, reason=reason)
        self._refusal = reason
        self._restart()
        self._next_ms = self._clock.monotonic_ms() + _RETRY_MS

    def _recurring(self) -> Iterator[list[str]]:
        """Yield the ids of all recurring schedules, in pages; some twice."""
        cursor: Any = b"0"
        while True:
            cursor, members = self._wire.execute("SSCAN", self._keys.recurring(), cursor, "COUNT", _PAGE)
            yield from pages_of(map(text, members), _PAGE)
            if cursor == b"0":
                return

    def _is_something_due(self, tick: Tick, now_ms: float) -> bool:
        """Return True if something is due, or will be before a page is done."""
        if tick.has_more or tick.next_ms is None:
            return tick.has_more
        return tick.next_ms - tick.server_offset_ms - now_ms <= self._takes_ms
