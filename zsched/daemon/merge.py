"""
A merge: what one archive knows and Redis lost is put back; done by any daemon, or by ``zsched recover``.

No election and no vote: each archive compares what it knows with what Redis holds, puts back what is missing,
and says so with one ``merged`` entry. Two that know different things may both merge, in any order: the later one
adds what the earlier one did not know, and where both know something the later change counts (``core.recovery``).
The rules, by the names that ``tests/model`` leaves out one by one:

==========  =========================================================================================
identity    entries are compared by id *and* t: two histories share ids
branch      what clients or a leader changed after the last entry that both have is left alone
lww         a restored row keeps its old t; the later t of two archives stands
covers      a ``merged`` entry names ends of histories that are in this one: nothing behind is missing
tail        a restore is refused when the log has gone on since the comparison (lib/seen.lua)
wait        who sees that another archive is restoring waits for it
hold        nothing fires meanwhile; it lapses by itself when the restorer dies
merged      who merged follows the new history only if that still has the ``merged`` entry
==========  =========================================================================================

Not guaranteed: what no archive had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from zsched.archive import Recall
from zsched.core.held import Held
from zsched.core.log import Entry, Position, Restored, UnknownEntry
from zsched.core.recovery import Branch, Key, Mine, lacking
from zsched.storage.archivers import Archivers
from zsched.storage.census import Census
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.restoring import Restoring, portions

_BACK: Final = 100  # log entries read at a time, backwards
_PAGE: Final = 200  # schedules compared at a time


class HistoryChanged(Exception):
    """The log does not contain what was read of it a moment ago."""


class OtherRestores(Exception):
    """Another archive is putting back what it knows: wait for it, then compare again."""


class Merge:
    """
    One comparison of *recall* with the Redis at *wire*, and what follows from it: ``compare``, then ``rows`` to look
    or ``run`` to do it. ``common`` is the last entry that both have, None when there is none.
    """

    def __init__(
        self,
        recall: Recall,
        wire: Wire,
        keys: Keys,
        position: Position | None,
        *,
        hold_for_ms: int,
        reason: str = "lost",
    ) -> None:
        self._recall, self._keys, self._position = recall, keys, position
        self._log, self._census, self._wire = Log(wire, keys), Census(wire, keys), wire
        self._archivers = Archivers(wire, keys)
        self._restoring = Restoring(wire, keys, recall.archive, reason, hold_for_ms)
        self.branch = Branch()
        self.common: Position | None = None
        self.is_known = False  # whether anything of the own history is here
        self.seen: Position | None = None  # the log's end, up to which it was compared
        self.merged: Position | None = None  # the entry that says that all is back
        self.covered: frozenset[Position] = frozenset()  # the histories' ends that it names
        self.done: Counter[str] = Counter()  # rows that were put back, by place
        self._touched: dict[Key, int] | None = None  # behind what both have; None: all that is known

    def compare(self) -> None:
        """Read the log back to the last entry that the archive has: what is before it, both have."""
        start, last_n = "+", -1
        while entries := self._log.read_back(start, _BACK):
            for entry in entries:
                if self.seen is None:
                    self.seen = entry.position
                number = self._recall.number_of(entry.position)
                if number is not None:
                    self.common, last_n = entry.position, number
                    break
                self._add(entry)
            if self.common is not None:
                break
            start = f"({entries[-1].position.id}"
        last_n = max([last_n, *(self._recall.number_of(position) or -1 for position in self.branch.merged)])
        self.is_known = last_n >= 0
        self._touched = self._recall.touched_behind(last_n) if self.is_known else None

    @property
    def total(self) -> int:
        """How many schedules are compared."""
        return len(self._touched) if self._touched is not None else self._recall.count()

    def rows(self) -> Iterator[list[Restored]]:
        """What Redis lacks, in portions; nothing is written."""
        for page in self._pages():
            yield from portions(page)

    def run(self) -> Iterator[int]:
        """
        Put back what Redis lacks, and say that it is merged. Gives the number of schedules that were compared, page by
        page; ``merged`` is then the entry that says so.

        Raises:
            HistoryChanged, OtherRestores: begin again, with another comparison.
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        compared = 0
        for page in self._pages():
            for portion in portions(page):
                self._restore(portion)
            compared += _PAGE
            yield compared
        positions = [report.position for report in self._archivers.reports() if report.position is not None]
        known = [each for each in positions if self._recall.number_of(each) is not None]
        if self._position is not None:
            known.append(self._position)
        while (entry := self._restoring.merged(dict.fromkeys(known), self.seen)) is None:
            self._read_on()
        self.merged, self.covered = entry, frozenset(known)

    # -- comparing --------------------------------------------------------------------------------

    def _add(self, entry: Entry) -> None:
        try:
            self.branch.add(entry, self._keys.run_suffix)
        except UnknownEntry:  # a newer version's: what it touched is not known here
            return

    def _read_on(self) -> None:
        """Take in what the log has behind ``seen``."""
        entries = self._log.read(self.seen.id if self.seen else "-", _BACK)
        if self.seen is not None:
            if not entries or entries[0].position != self.seen:
                raise HistoryChanged
            entries = entries[1:]
        before = self.branch.restored
        for entry in entries:
            self._add(entry)
            self.seen = entry.position
        if self.branch.restored != before:
            raise OtherRestores

    # -- rows -------------------------------------------------------------------------------------

    def _pages(self) -> Iterator[list[Restored]]:
        """What Redis lacks, of a page of schedules each."""
        touched = self._touched
        ids = self._recall.ids() if touched is None else iter(dict.fromkeys(id for id, _ in touched))
        known = self._recall.known(ids, touched)
        while page := list(islice(known, _PAGE)):
            yield self._lacking(page)

    def _lacking(self, page: list[Mine]) -> list[Restored]:
        """Compare *page* with what Redis holds now, as of ``seen``."""
        there: dict[str, Held] = {}
        for at, held in self._census.schedules(mine.id for mine in page):
            while at is None or self.seen is None or at.order > self.seen.order:
                if at is None and self.seen is None:
                    break
                self._read_on()
            there |= {one.id: one for one in held}
        run_ids = [f"{mine.id}-{run.held.run}" for mine in page for run in mine.runs]
        jobs = self._jobs(run_ids)
        rows: list[Restored] = []
        for mine in page:
            here = {run.held.run for run in mine.runs if f"{mine.id}-{run.held.run}" in jobs}
            rows += lacking(mine, there.get(mine.id), here, self.branch)
        return rows

    def _jobs(self, run_ids: list[str]) -> set[str]:
        """Those of *run_ids* whose jobs are there."""
        for run_id in run_ids:
            self._wire.send("EXISTS", self._keys.job(run_id))
        return {run_id for run_id, found in zip(run_ids, [self._wire.receive() for _ in run_ids], strict=True) if found}

    def _restore(self, rows: list[Restored]) -> None:
        """Put *rows* back, but for those that somebody touches meanwhile."""
        while rows:
            entry = self._restoring.restore(rows, self.seen)
            if entry is not None:
                self.seen = entry
                self.done.update(row.place for row in rows)
                return
            self._read_on()
            rows = [row for row in rows if not self._is_touched(row)]

    def _is_touched(self, row: Restored) -> bool:
        keys: Iterable[Key] = [(row.id, "")] if row.is_schedule else [(row.id, row.run)]
        return any(self.branch.is_newer(key, row.t_us) for key in keys)
