"""
Reconciler: compare an archive with Redis, and repair the differences.

The comparison has three callers, each with its own policy: a merge after a loss (``daemon.merge``), the audit
(``daemon.auditor``), and the correction of another archive's restore (``daemon.peers``)::

    a page of the archive's data
      │  ◄────────────────────────────────────────────────┐
      ▼                                                   │ others touched these schedules
    Redis' data      ──► the log is read up to there ──► the judge's rows ──► restore.lua, a portion at a time
                                                               ▲                     │ AGAIN: others wrote
                                                               └── the log is read on ◄┘

After a FLUSHALL, Redis has nothing of page after page. So if it had nothing of one page, the next one is judged as if
Redis had nothing of it either, while Redis works (``guess``). restore.lua puts these rows back only if none of the
schedules is there. Otherwise the page is compared as usual.

A comparison holds as of one entry of the log, ``seen``. Later entries by other writers are read in order and added.
Redis refuses a restore of schedules that they touched (rule: COMPARE_AND_SET, lib/behind.lua). Everything read must be
of one history: ``seen`` is in the log, the following entries are dense, and the entry at which Redis was read is
reached.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from zsched.core.entry import Entry, Position
from zsched.core.record import Record
from zsched.core.recovery.difference import Branch, Recalled, lacking, over_row
from zsched.storage.connection import Wire
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.log import Log, Pages
from zsched.storage.meta import doubted_until_ms
from zsched.storage.records import Scanner
from zsched.storage.restoring import ROWS, NotAbsent, Packed, Restoring

_READ: Final = 100  # log entries in one read, at most
_READ_BYTES: Final = 4 << 20  # about
_FIRST: Final = 25  # log entries in the first read
_LEAST: Final = 10  # rows of a restore at least, however quickly the log grows


class HistoryChanged(Exception):
    """The log no longer contains an entry that was just read."""


class RestorePolicy(Protocol):
    """The caller's part of a comparison: its use of log entries, and its judge."""

    def add_entry(self, entry: Entry) -> Collection[str]:
        """Add an entry that another writer wrote after the comparison. Return the ids of the touched schedules."""

    def judge(self, page: Sequence[Recalled], held: Mapping[str, Record]) -> list[Record]:
        """Return the rows to restore for *page*; *held* is the data in Redis, by id."""

    def record_restored(self, rows: Sequence[Record]) -> None:
        """Record *rows*, which were restored, with their places as logged."""


class Reconciler:
    """
    Comparisons by a *policy*, as of log entry ``seen`` (None: the log is empty). ``touched``: schedules that other
    writers touched since they were compared or guessed. *meanwhile* is called while Redis works.
    """

    def __init__(
        self,
        log: Log,
        scanner: Scanner,
        restoring: Restoring,
        policy: RestorePolicy,
        seen: Position | None,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._log, self._scanner, self._restoring, self._policy = log, scanner, restoring, policy
        self._meanwhile, self._size, self._pages = meanwhile, ROWS, Pages(_READ, _READ_BYTES, _FIRST)
        self._own: Position | None = None  # the last entry that was written here
        self._is_bare = False  # Redis had nothing of the last page
        self.seen = seen
        self.touched: set[str] = set()

    def guess(self, page: Sequence[Recalled]) -> list[Packed]:
        """
        Judge *page* without asking Redis, which may be at work: return what to restore if Redis has nothing of it. []
        if it has to be compared: Redis had something of the last page, the page has runs, or a schedule without a row
        would stay unexamined.
        """
        if not self._is_bare or any(recalled.runs or recalled.over for recalled in page):
            return []
        ids = {recalled.id for recalled in page}
        self.touched -= ids
        rows = self._policy.judge(page, {})
        return list(self._restoring.packed(rows)) if ids == {row.id for row in rows} else []

    def reconcile(self, page: Sequence[Recalled], guess: Sequence[Packed] = ()) -> Iterator[None]:
        """
        Restore the missing data of *page*, by *guess* if it proves right. Schedules touched meanwhile are compared
        again. Yield when it takes long.

        Raises:
            HistoryChanged, OtherDataSet, errors of the policy. RedisUnavailable, RedisRefused, ArchiveError.
        """
        if guess:
            yield from self.put_back([row for portion in guess for row in portion.rows], guess)
            page = self._touched_of(page)
        while page:
            yield from self.put_back(self.compare(page))
            if page := self._touched_of(page):
                yield

    def compare(self, page: Sequence[Recalled]) -> list[Record]:
        """
        Return the rows to restore for *page*, as of ``seen``, which becomes the log's end. Raises as ``reconcile``.
        """
        held: dict[str, Record] = {}
        for at, found in self._scanner.schedules(recalled.id for recalled in page):
            self.read_to(at)
            held |= {one.id: one for one in found}
        self._is_bare = not held
        self.touched.difference_update(recalled.id for recalled in page)
        return self._policy.judge(page, held)

    def put_back(self, rows: list[Record], guessed: Sequence[Packed] = ()) -> Iterator[None]:
        """
        Restore *rows*, except those of schedules touched meanwhile, which are added to ``touched``. If the log grows
        quickly, the portions become small, so that less time passes between read and write. *guessed*: the portions of
        *rows* if these are a guess; if that is wrong, the rest of the schedules counts as touched.
        """
        is_guess, ready = bool(guessed), deque(guessed)
        while left := [row for row in rows if row.id not in self.touched]:
            if len(left) < len(rows) or (ready and len(ready[0].rows) > self._size):
                ready.clear()
            rows = left
            portion = ready.popleft() if ready else next(self._restoring.packed(rows[: self._size]))
            try:
                written = self._restoring.restore(portion, self.seen, self._meanwhile, if_absent=is_guess)
            except NotAbsent:
                self._is_bare = False
                self.touched.update(row.id for row in rows)
                return
            if written is None:
                ready.clear()
                self._size = max(self._size // 4, _LEAST)
                yield
                yield from self.catch_up()
                continue
            self._size, self._own = min(self._size * 2, ROWS), written.entry
            self._policy.record_restored(written.rows)
            if self.seen is not None and written.entry.seq > self.seen.seq + 1:  # other writers changed other schedules
                self.read_to(written.entry)
            self.seen = written.entry
            rows = rows[len(portion.rows) :]

    def _touched_of(self, page: Sequence[Recalled]) -> list[Recalled]:
        return [recalled for recalled in page if recalled.id in self.touched]

    def catch_up(self) -> Iterator[None]:
        """Add the log's entries after ``seen``, up to its end."""
        while self.read_on():
            yield

    def read_to(self, at: Position | None) -> None:
        """Add the log's entries up to *at*. Raises HistoryChanged if the log does not lead there from ``seen``."""
        while self.seen != at:
            before = self.seen
            if at is None or (before is not None and before.order >= at.order):
                raise HistoryChanged
            self.read_on(at)
            if self.seen == before:
                raise HistoryChanged

    def read_on(self, until: Position | None = None) -> bool:
        """Add the next entries after ``seen``, up to *until*. Return True if there may be more of them."""
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
                self.touched.update(self._policy.add_entry(entry))
            self.seen = entry.position
        return has_more


def lacking_rows(
    wire: Wire, keys: Keys, page: Sequence[Recalled], held: Mapping[str, Record], branch: Branch
) -> list[Record]:
    """Judge *page* after a loss: return the rows that Redis lacks (``core.recovery.difference``)."""
    rows: list[Record] = []
    for recalled in page:
        waits = held.get(recalled.id)
        is_run = waits is not None and any(waits.run == run.run for run in recalled.runs)
        rows += lacking(recalled, waits, branch, doubted_until_ms(wire, keys) if is_run else None)
    rows.sort(key=lambda row: not row.is_schedule)  # schedules first: a run may have waited in one
    waiting = {waits.key for waits in held.values()}
    over = [(row, run) for recalled in page for row, run in recalled.over if row.key not in waiting]
    if not over:
        return rows
    rows += [row for row, run in over if branch.ran_again(row, run)]
    over = [(row, run) for row, run in over if not branch.is_newer(row.key, row.t_us)]
    jobs = Jobs(wire, keys, tracebacks=False).read([run.id for _, run in over])
    backs = (over_row(row, run, job) for (row, run), job in zip(over, jobs, strict=True))
    return rows + [row for row in backs if row is not None]
