"""
A merge: put data back that one archive has and Redis lost. Any daemon can do it, or ``zsched archive recover``.

It needs no election and no vote. Each archive compares itself with Redis, puts missing data back, and writes one
``merged`` entry. Two archives with different data may both merge, in any order. The later merge adds data that the
earlier one lacked; if both have data about a schedule, the later change counts (``core.recovery.difference``). The
rules have names; ``tests/model`` removes them one by one:

=================  ==================================================================================
IDENTITY           entries are compared by id *and* t: two histories share ids
BRANCH             changes by clients or a leader after the last common entry are left alone
GONE_TOO           without a common entry, schedules in Redis that are over by the archive are removed
LATEST_CHANGE      a restored row keeps its old t; of two archives the later t counts
OPEN_IS_UNCERTAIN  a run that was fired and not over is pushed again marked, or recorded as skipped or held by RQ
MERGED_COVERS      a ``merged`` entry names ends of histories that are in this one: nothing is missing
CORRECTS           an archive with a later change answers another archive's restore (daemon/peers.py)
NEWEST_ONLY        it answers only while the restore is the schedule's newest entry; else the later change stays
BY_ORDER           of two changes in one's own history the order counts, not t: clocks jump
TOLD_ONCE          a change that a restore in this log has repeated is not repeated again, so corrections end
WAIT               an archive that finds a loss waits until all followers of this log have checked it, 10 s at most
COMPARE_AND_SET    a restore is refused when its schedules were touched since the comparison (lib/behind.lua); without a
                   comparison, when one of them is there
YIELD              an archive waits while another archive restores
FURTHEST           in a data set without a name an archive waits for one that goes further: a restore gives a name
HOLD, HOLD_ENDS    nothing fires meanwhile; when the restorer dies, the hold lapses
MERGED_STAYS       after a merge, an archive follows the new history only if that still has the ``merged`` entry
=================  ==================================================================================

A run that ended after the last common entry leaves its queue, or gets its end again if Redis holds it for running, or
is recorded as run again (``difference.over_row``, ``Branch.ran_again``).

Not guaranteed: data that no archive had.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Final

from zsched.archive import Recall
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.puts import RestoreEntry
from zsched.core.pages import pages_of
from zsched.core.record import Key, Record
from zsched.core.recovery.audit import misplaced
from zsched.core.recovery.difference import Branch, Recalled
from zsched.core.runs.run import Run
from zsched.daemon.reconciler import Reconciler, lacking_rows
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.named_texts import NamedTextStore
from zsched.storage.records import Scanner
from zsched.storage.restoring import Packed, Restoring, portions

PAGE: Final = 400  # schedules compared at a time


class OtherRestores(Exception):
    """Another archive is restoring its data: wait for it, then compare again."""


class Merge:
    """
    One comparison of *recall* with the Redis at *wire*, and its result. Call ``compare``, then ``rows`` for a preview
    or ``run`` to restore. ``common`` is the last entry that both have, or None. *gens*: names of data sets that the
    archive followed. *by*: who asked for it; "": a daemon. *is_whole*: Redis has the archive's history, but keys may
    have been deleted one by one; so every schedule is compared, and no run.
    """

    def __init__(
        self,
        recall: Recall,
        wire: Wire,
        keys: Keys,
        position: Position | None,
        *,
        hold_for_ms: int,
        gens: Sequence[str] = (),
        by: str = "",
        is_whole: bool = False,
    ) -> None:
        self._recall, self._keys, self._position, self._wire = recall, keys, position, wire
        self._is_whole = is_whole
        self._log, self._scanner, self._archivers = Log(wire, keys), Scanner(wire, keys), Archivers(wire, keys)
        what = ("audit", 0) if is_whole else ("lost", hold_for_ms)
        self.restoring = Restoring(wire, keys, recall.archive, *what, gens, by)
        self._left: Iterator[list[Recalled]] = iter(())  # pages of this run
        self._next: tuple[list[Recalled], list[Packed]] | None = None  # the next of them, read while Redis works
        self.archive = recall.archive  # its id
        self.reconciler = Reconciler(self._log, self._scanner, self.restoring, self, None, meanwhile=self._fetch)
        self.branch = Branch()
        self.common: Position | None = None
        self.is_known = False  # whether Redis has anything of the archive's history
        self.merged: Position | None = None  # the entry that marks the end of the merge
        self.covered: frozenset[Position] = frozenset()  # the ends of histories that it names
        self.done: Counter[str] = Counter()  # rows that were restored, by place as logged
        # Called with the rows of each restore entry.
        self.on_restored: Callable[[Sequence[Record]], None] | None = None
        self._touched: dict[Key, int] | None = None  # ids touched after the common entry; None: all known ids
        self._over: dict[Key, tuple[Record, Run]] = {}  # runs that ended after it

    @property
    def is_nothing_lost(self) -> bool:
        """Return True if the log continues from the archive's last entry, or covers the archive's history."""
        return self._position is not None and self._position in (self.common, *self.branch.merged)

    @property
    def restored_by_other(self) -> Position | None:
        """Return the last ``restore`` entry of another archive in the branch."""
        restored = self.branch.restored
        return restored[0] if restored and restored[1] != self.archive else None

    def compare(self) -> None:
        """Find the last common entry, and the ids touched since."""
        for _ in self.comparing():
            pass

    def comparing(self) -> Iterator[None]:
        """
        Do ``compare`` in parts: read back through the log to an entry that the archive has. Both have everything before
        it.
        """
        last_n = -1
        for entries in self._log.pages_back():
            self.reconciler.seen = self.reconciler.seen or entries[0].position
            for entry in entries:
                if (number := self._recall.number_of(entry.position)) is not None:
                    self.common, last_n = entry.position, number
                    break
                self._add(entry)
            yield
            if self.common is not None:
                break
        last_n = max([last_n, *(self._recall.number_of(position) or -1 for position in self.branch.merged)])
        self.is_known = last_n >= 0
        if self.is_known and not self._is_whole:
            self._touched = {}
            for first in range(last_n, self._recall.last_n(), PAGE):
                for key, t_us in self._recall.touched_behind(first, first + PAGE).items():
                    self._touched[key] = max(t_us, self._touched.get(key, 0))
                self._over |= {over[0].key: over for over in self._recall.ended_behind(first, first + PAGE)}
                yield

    @property
    def total(self) -> int:
        """Return the number of compared schedules."""
        if self._touched is None:
            return sum(self._recall.count_places().values())
        return len({id for id, _ in self._touched})

    def rows(self) -> Iterator[list[Record]]:
        """Yield the rows that ``run`` would restore now, page by page. Nothing is written."""
        for page in self._pages():
            found = map(self.restoring.foresee, portions(self.reconciler.compare(page)))
            yield list(chain.from_iterable(found))

    def find_lacking(self) -> Iterator[bool]:
        """Yield, page by page, whether Redis lacks something; nothing is written."""
        yield from (bool(self.reconciler.compare(page)) for page in self._pages())

    def run(self) -> Iterator[int]:
        """
        Put back the missing data, and write the ``merged`` entry. Yield the number of compared schedules, page by page.
        ``merged`` is then that entry; *is_whole* needs none.

        Raises:
            HistoryChanged, OtherRestores: begin again, with another comparison. OtherDataSet: this is another one.
            RedisUnavailable, RedisRefused, ArchiveCorrupt, ArchiveFailed.
        """
        compared = 0
        with closing(self._pages()) as self._left:  # else a run that is given up leaves the archive's reader open
            self._fetch()
            while self._next is not None:
                page, self._next = self._next, None
                for _ in self.reconciler.reconcile(*page):
                    yield compared
                self.branch.forget_taken()
                compared += PAGE
                self._fetch()
                yield compared
        if texts := self._recall.named_texts():
            NamedTextStore(self._wire, self._keys).restore(texts)
        if self._is_whole:
            return
        positions = [report.position for report in self._archivers.reports() if report.position is not None]
        known = [each for each in positions if self._recall.number_of(each) is not None]
        if self._position is not None:
            known.append(self._position)
        while (entry := self.restoring.merged(dict.fromkeys(known), self.reconciler.seen)) is None:
            yield compared  # on a slow network, other clients may write for long
            for _ in self.reconciler.catch_up():
                yield compared
        self.merged, self.covered = entry, frozenset(known)

    # -- the policy: ids that its history touched after the common entry -----------------------------

    def add_entry(self, entry: Entry) -> set[str]:
        """Add *entry* to the branch. Raises OtherRestores."""
        restore = RestoreEntry.of(entry)
        if restore is not None and restore.archive == self.archive:
            return set()  # ``zsched archive recover`` puts back the same
        touched = self._add(entry)
        if restore is not None:
            raise OtherRestores
        return touched

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        """Return the rows that Redis lacks of *page*."""
        if self._is_whole:
            return [row for one in page if (row := self._misplaced_row(one.schedule, held.get(one.id))) is not None]
        return lacking_rows(self._wire, self._keys, page, held, self.branch)

    def record_restored(self, rows: Sequence[Record]) -> None:
        """Count the restored *rows*."""
        self.branch.take(rows)
        self.done.update(row.place for row in rows)
        if self.on_restored is not None:
            self.on_restored(rows)

    def _misplaced_row(self, known: Record | None, here: Record | None) -> Record | None:
        """Return the row that repairs a schedule as the auditor does; None if it is right, or others changed it."""
        if known is None or self.branch.is_newer((known.id, ""), known.t_us):
            return None
        alarm = misplaced(known, here)
        return None if alarm is None else alarm.row

    def _add(self, entry: Entry) -> set[str]:
        """Add an entry of the branch; return the ids that it touched."""
        try:
            return self.branch.add(entry, self._keys.run_suffix)
        except UnknownEntry:  # of a newer version: the touched ids are unknown
            return set()

    def _pages(self) -> Generator[list[Recalled], None, None]:
        """Yield the archive's data of the compared schedules, a page at a time."""
        if self._touched is not None:
            ids = dict.fromkeys(id for id, _ in self._touched)
            yield from pages_of(self._recall.known(ids, self._touched, self._over), PAGE)
            return
        known = self._recall.known_all(self.branch.is_newer)  # a merge that did not end may have put back most of it
        for page in pages_of(chain(() if self._is_whole else self._gone(), known), PAGE):
            yield [one for one in page if one.schedule or one.runs or one.gone_us is not None]

    def _fetch(self) -> None:
        if self._next is None and (page := next(self._left, None)) is not None:
            self._next = page, self.reconciler.guess(page)

    def _gone(self) -> Iterator[Recalled]:
        """Yield schedules in Redis; since when they are over, without a common entry (rule: GONE_TOO)."""
        for page in pages_of(dict.fromkeys(self._scanner.ids()), PAGE):  # all are read before: Redis works meanwhile
            there = self._recall.having(page)
            for id in page:
                last = None if id in there else self._recall.last_touch(id)
                yield Recalled(id, None, last and last[0], ())
