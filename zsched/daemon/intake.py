"""
Intake of an archive: entries of the log, and pages of schedules and runs that Redis holds.

Each read begins with the archive's last entry. So one comparison shows whether the log still continues from there. If
not, ``HistoryChanged`` is raised. A restore is corrected before it is stored (rule: CORRECTS). An entry of a newer
format ends the intake; the entries before it are then on disk.

All pages are of one history: before and after each page the log must contain the base and the last page's position
(rule: ONE_HISTORY). ``daemon.follower`` decides which of this is done, and when.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog

from zsched.archive import Archive
from zsched.archive.runs import OpenRuns
from zsched.core.clock import Clock
from zsched.core.entry import Entry, Position, readable
from zsched.core.record import Record
from zsched.core.runs.run_id import run_id_of
from zsched.daemon.batch import Batch
from zsched.daemon.meter import Meter
from zsched.daemon.peers import Correction
from zsched.daemon.reconciler import HistoryChanged
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log, Pages
from zsched.storage.named_texts import NamedTextStore
from zsched.storage.records import Scanner
from zsched.storage.scripts import unknown_format

log = structlog.get_logger(__name__)

_PAGE: Final = 100  # log entries in one read, at most
_PAGE_BYTES: Final = 4 << 20  # of one read, about
_READ_MS: Final = 2.0  # the server's time for one read
_SPAN_MS: Final = 1000.0  # of changes in one transaction, when there is a backlog


class Intake:
    """Takes into *archive* what is read over *wire*. ``came``: entries of the log that were appended."""

    def __init__(
        self, archive: Archive, wire: Wire, keys: Keys, clock: Clock, correction: Correction, meter: Meter
    ) -> None:
        self._archive, self._log, self._scanner, self._clock = archive, Log(wire, keys), Scanner(wire, keys), clock
        self._keys, self._correction, self._meter = keys, correction, meter
        self._named_texts = NamedTextStore(wire, keys)
        self._batch, self._pages = Batch(_PAGE, _READ_MS, least=5), Pages(_PAGE, _PAGE_BYTES)
        self.came = 0

    # -- entries ----------------------------------------------------------------------------------

    def read_on(self, within_ms: float = float("inf")) -> None:
        """Append the entries after the archive's tail, for *within_ms* at most. Commit once a second and at the end."""
        began_ms = self._clock.monotonic_ms()
        until_ms = began_ms + within_ms
        while True:
            tail = self._archive.tail
            assert tail is not None  # there is something to go on from
            entries, has_more = self._read_after(tail)
            self.append(entries)
            now_ms = self._clock.monotonic_ms()
            is_end = not has_more or now_ms > until_ms
            if is_end or now_ms - began_ms > _SPAN_MS:
                self._archive.commit()
                began_ms = now_ms
            if is_end:
                return

    def complete(self) -> None:
        """
        Read schedules from Redis that entries named and the state lacks: they moved during a scan. If Redis does not
        have one, it is over.
        """
        archive = self._archive
        while archive.unknown:
            tail = archive.tail
            assert tail is not None  # a bootstrap is under way
            schedules = sorted(id for id, run in archive.unknown if not run)
            runs = sorted(run_id_of(id, run) for id, run in archive.unknown if run)
            archive.unknown.clear()
            self._scan(self._scanner.schedules(schedules), tail)
            self._scan(self._scanner.runs(runs, tail), tail)
            self.read_on()

    def append(self, entries: Sequence[Entry]) -> None:
        """Append *entries*, which follow the archive's tail. Raises HistoryChanged, OtherFormat."""
        known, path, dropped = readable(entries), str(self._archive.path), self._archive.dropped
        self.came += len(known)
        for part in self._corrected(known):
            for problem in self._archive.append(part):
                log.error("log_entry_unknown", reason=str(problem), archive=path)
        if self._archive.dropped > dropped:
            last = known[-1].position.id
            log.warning("log_ids_dropped", number=self._archive.dropped - dropped, up_to=last, archive=path)
        self._meter.archived(known)
        self._demand_all(known, entries)

    def _read_after(self, last: Position) -> tuple[list[Entry], bool]:
        """
        Read the entries after *last*, and whether there are more. Reads are small, so that other clients do not wait
        long. Raises HistoryChanged.
        """
        size, sent_ms = 1 + min(self._batch.size, self._pages.size), self._clock.monotonic_ms()  # the first is known
        entries = self._log.read(last.id, size)
        self._batch.learn(self._clock.monotonic_ms() - sent_ms, len(entries))
        self._pages.learn(entries)
        seqs = [entry.position.seq for entry in entries]
        if not entries or entries[0].position != last or seqs != [*range(last.seq, last.seq + len(seqs))]:
            raise HistoryChanged
        return entries[1:], len(entries) == size

    def _corrected(self, entries: list[Entry]) -> Iterator[list[Entry]]:
        """Yield *entries* in parts, each for one append. Correct restores before their append (rule: CORRECTS)."""
        at = next((at for at, entry in enumerate(entries) if self._correction.concerns(entry)), len(entries))
        if at:
            yield entries[:at]
        if restores := entries[at:]:
            self._correction.answer(restores)
            yield restores

    def _demand_all(self, known: Sequence[Entry], entries: Sequence[Entry]) -> None:
        """Make *known* durable, and raise OtherFormat if *entries* has more than that."""
        if len(known) < len(entries):
            self._archive.commit()
            raise unknown_format(self._keys, entries[len(known)].format or 0)

    # -- what Redis holds -------------------------------------------------------------------------

    def scan_all(self, first: Entry) -> None:
        """Read the history up to the base, then the data in Redis. The archive's tail is then the base."""
        if (base := self._log.last()) is None:
            raise HistoryChanged
        self._copy(first, base.position)
        self._archive.hold_named_texts(self._named_texts.held())
        self._scan(self._scanner.schedules(self._scanner.ids()), base.position)
        self._scan(self._scanner.runs(self._scanner.run_ids(), base.position), base.position)
        with OpenRuns(self._archive.path) as known:  # a worker may have ended one meanwhile: the tracker asks for it
            unfound = known.unfound()
        for at, held in self._scanner.runs(unfound, base.position):
            self._scan([(at, [run for run in held if b"ended_at" in run.job[::2]])], base.position)

    def _copy(self, first: Entry, base: Position) -> None:
        """Copy the retained log from *first* to *base* into the history."""
        self._copy_all([first])
        last = first.position
        while last != base:
            entries, _ = self._read_after(last)
            if not (new := [entry for entry in entries if entry.position.order <= base.order]):
                raise HistoryChanged
            self._copy_all(new)
            last = new[-1].position
        self._archive.commit()

    def _copy_all(self, entries: Sequence[Entry]) -> None:
        """Copy *entries* into the history. Raises OtherFormat."""
        known = readable(entries)
        self._demand_all(known, entries)
        for part in self._corrected(known):
            self._archive.copy(part)
        self._meter.archived(known)

    def _scan(self, pages: Iterable[tuple[Position | None, list[Record]]], base: Position) -> None:
        """Store *pages*, all of the history that contains *base*."""
        last = base
        for at, held in pages:
            if at is None or not self._log.contains(last):
                raise HistoryChanged
            self._archive.scan(held, at)
            self._archive.commit()
            last = at
        if not (self._log.contains(base) and self._log.contains(last)):
            raise HistoryChanged
