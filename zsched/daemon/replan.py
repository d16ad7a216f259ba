"""
Re-planning: after a change of the tz database, plan every schedule by the leader's rules.

``meta.tzdata`` is the version of the tz database by which all schedules are planned. A term begins with a comparison.
If this process has another version, all recurring schedules are read, a page at a time. A schedule is moved if its next
occurrence differs by the new rules (``core.occurrences.planning``). The log records the old and the new time::

    asking ──► meta.tzdata is ours ──► settled: nothing to do in this term
       └─────► another, or none ─────► moving: a page in every pass that has the time ──► settled: it is ours now

One-shots that were given as local time follow the recurring schedules: each is put at its new time, as a client would
put it. A signature covers the time, so a signed one keeps its instant; ``zsched status`` lists it.

The firing thread does this. It is not a chore, because it must not wait for an archive, and because due schedules must
be checked *before* they fire (``Replanner.keep_back``). If one fired by the old rules, its successor would be computed
by the new ones, and an occurrence could fire twice. A page takes a few ms. No page begins when a schedule is due within
that time; if that is always so, pages get a tenth of the time. So due schedules do not wait, however many there are.

If a term ends too early, the version stays, and the next term begins again; nothing moves twice. If daemons have
different data, each one re-plans when it takes over, and logs that.

Not guaranteed: a one-shot that is due before its page is read fires by the old rules. A client with other rules may put
a schedule later, and that schedule follows the client's rules. New tz data is used only after a restart of the daemon:
the leader checks hourly, and logs ``zone_rules_installed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.planning import Move, move_of
from zsched.core.pages import pages_of
from zsched.core.record import Record
from zsched.core.triggers.trigger import spec_of
from zsched.daemon.tick import Tick
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch, FireResult
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scanner import Scanner
from zsched.zone_rules import ZoneRules, installed

log = structlog.get_logger(__name__)

_PAGE: Final = 50  # schedules read and planned at a time: some 3 ms (measured), most of it here
_AT_ONCE: Final = 100  # moves per script
_SHARE: Final = 10  # one part in this many of the time, while schedules are always due
_RETRY_MS: Final = 5_000.0  # after a refusal
_LOOK_MS: Final = 3_600_000.0  # between two checks of the installed data


class Replanner:
    """
    Plans schedules by this process' zone rules: *rules*, read at its start. One per connection; the leader's loop calls
    ``step_if_free`` in each pass.
    """

    def __init__(self, wire: Wire, keys: Keys, rules: ZoneRules, clock: Clock) -> None:
        self._wire, self._keys, self._rules, self._clock = wire, keys, rules, clock
        self._dispatch, self._scanner = Dispatch(wire, keys), Scanner(wire, keys)
        self._term = ""  # the term for which the following holds
        self._is_settled = False
        self._before = ""  # the version by which all schedules were planned
        self._ids: Iterator[list[str]] = iter(())  # of recurring schedules
        self._once: Iterator[list[str]] = iter(())  # of all that wait
        self._moved = self._kept = 0
        self._next_ms = self._takes_ms = 0.0  # monotonic: when a page may take firing time; how long the last one took
        self._refusal: str | None = None
        self._noticed, self._look_ms = rules, clock.monotonic_ms() + _LOOK_MS

    def is_settled(self, term: Term) -> bool:
        """Return True if all schedules are planned by our rules. Asks when *term* is new."""
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

    def keep_back(self, term: Term, fired: FireResult) -> FireResult:
        """
        Move the recurring schedules in *fired* that have another time by our rules, before they fire by the old ones.
        Return *fired* without them; they are read again at once. Raises as ``step_if_free``, RedisRefused.
        """
        if not fired.recurring or self.is_settled(term):
            return fired
        moved, _ = self.move(term, [text(due.id) for due in fired.recurring if _is_of_zone(due.trigger)])
        if not moved:
            return fired
        staying = [due for due in fired.recurring if text(due.id) not in moved]
        return replace(fired, recurring=staying, next_ms=fired.now_ms)

    def move(self, term: Term, ids: Sequence[str]) -> tuple[set[str], list[str]]:
        """
        Move the schedules of *ids* that have another time by our rules. Return the moved ids, and the ids changed
        meanwhile.
        """
        moves = [move for move in self._moves(ids) if not move.record.run]
        moved: set[str] = set()
        for page in pages_of(moves, _AT_ONCE):
            done = self._dispatch.replan(term, self._rules.version or "", page)
            moved |= {move.record.id for move in done.moved}
        self._moved += len(moved)
        return moved, [move.record.id for move in moves if move.record.id not in moved]

    def _move_once(self, ids: Sequence[str]) -> None:
        """Move the one-shots of *ids* that have another time by our rules; note the signed ones."""
        moves = [move for move in self._moves(ids) if move.record.run]
        signed = [move for move in moves if move.is_signed]
        by = f"zone rules {self._before or 'unknown'} → {self._rules.version}"
        self._moved += sum(self._dispatch.move_once([move for move in moves if not move.is_signed], by))
        for move in signed:
            self._wire.execute(
                "HSET", self._keys.kept_local(), move.record.id, f"{move.record.due_ms} {move.due_ms}"
            )  # few are signed, and few zones change
        self._kept += len(signed)

    def _moves(self, ids: Sequence[str]) -> Iterator[Move]:
        records = (record for _, page in self._scanner.schedules(ids) for record in page)
        return (move for record in records if (move := _move_of(record)) is not None)

    def _begin(self, term: Term) -> None:
        rules = self._rules
        if rules.version is None:
            log.warning("zone_rules_unknown", source=rules.source, remedy="install tzdata with its file tzdata.zi")
            self._is_settled = True
        else:
            self._before = self._dispatch.replan(term, rules.version).before
            self._is_settled = self._before == rules.version
        self._ids, self._once = self._recurring(), self._scanner.ids_in_places()
        self._moved = self._kept = 0
        self._term = term.token

    def _step(self, term: Term) -> None:
        page = next(self._ids, None)
        if page is not None:
            _, changed = self.move(term, page)
            if changed:  # a client was quicker: read once more
                self.move(term, changed)
            return
        page = next(self._once, None)
        if page is not None:
            self._move_once(page)
            return
        self._dispatch.replan(term, self._rules.version or "", is_done=True)
        self._is_settled = True
        rules, about = (
            self._rules,
            {"old": self._before or "unknown", "new": self._rules.version, "moved": self._moved, "kept": self._kept},
        )
        if self._before or self._moved:
            log.warning("zone_rules_changed", **about, source=rules.source)
        else:
            log.info("zone_rules_noted", version=rules.version, source=rules.source)

    def _begin_again(self, reason: str) -> None:
        if self._refusal is None:
            log.warning("zone_rules_not_applied", version=self._rules.version, reason=reason)
        self._refusal, self._ids, self._once = reason, self._recurring(), self._scanner.ids_in_places()
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

    def _look_if_due(self) -> None:
        """Check for newly installed tz data; log each version once."""
        if self._clock.monotonic_ms() < self._look_ms:
            return
        self._look_ms = self._clock.monotonic_ms() + _LOOK_MS
        now = installed()
        if now not in (self._noticed, self._rules):
            remedy = "restart the daemon: until then it plans by the old ones"
            log.warning("zone_rules_installed", old=str(self._rules), new=str(now), remedy=remedy)
        self._noticed = now


@lru_cache(maxsize=50_000)  # cached results: computing each by its rule would take twice as long (measured)
def _is_of_zone(trigger: bytes) -> bool:
    try:
        return spec_of(trigger).is_of_zone
    except Exception:  # as below
        return False


def _move_of(record: Record) -> Move | None:
    """Return None for a schedule that is broken, or whose zone this machine lacks: it is quarantined when it is due."""
    try:
        return move_of(record)
    except Exception:  # a stored rule can make Python raise any exception
        return None
