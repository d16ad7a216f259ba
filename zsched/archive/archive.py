"""
The writer of an archive: append entries, fold them, commit, and report the position only after that.

All effects of an entry (history, index, state, position) are written in one transaction. A transaction
ends when the archiver has caught up, or after a second. So a backlog is written in large, sorted pieces,
and a single change in a few milliseconds.

A *bootstrap* builds a new state beside the current one: ``begin_bootstrap``, then ``copy`` for entries
that are already part of the scanned state, ``scan`` for the contents of Redis, ``append`` for later
entries, and ``end_bootstrap``, which switches state and position in one transaction. If a crash leaves an
unfinished bootstrap, it is removed when the archive is opened again.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from zsched.archive import body, deadlines, live
from zsched.archive.body import keep_arguments, without_arguments
from zsched.archive.check import SUM, Check, stored_facts, sum_of
from zsched.archive.file import CORRUPT_AT_OPEN, Lock, connect_to_write, converted, identity, size_cache
from zsched.archive.fold import StateWriter
from zsched.archive.index import PREFIX_IDS, build_prefixes
from zsched.archive.recall import Recall
from zsched.archive.retention import pruning
from zsched.archive.schema import SEGMENT_BITS, last_n, number_of
from zsched.archive.search import recount
from zsched.core.clock import Clock
from zsched.core.entry import FORMAT, START, Entry, Position, UnknownEntry, UnreadableEntry
from zsched.core.log.puts import ScanEntry
from zsched.core.record import Key, Record
from zsched.core.runs.run_id import suffix_of
from zsched.errors import ArchiveCorrupt, ArchiveFailed

_PIECE: Final = 16_000  # changes sorted and written at once: more would hold up other threads (the GIL)


class Archive:
    """
    The archive at *path*, for one thread. ``position``: its last entry on the disk; None for an empty archive.
    ``tail``: the last entry added, committed or not.

    Every method raises ArchiveCorrupt or ArchiveFailed; after that, only ``close`` may be called.
    """

    def __init__(self, path: Path, namespace: str, *, keep_args: bool = True) -> None:
        """
        Open it, or create it. Raises ArchiveInUse, ArchiveForeign, ArchiveCorrupt, ArchiveFailed, ArchiveError.
        """
        self.path, self.namespace = path, namespace
        self._keeps_args, self._suffix = keep_args, suffix_of(namespace)
        self._check: Check | None = None
        with ExitStack() as undo:
            self._lock = Lock(self.path)
            undo.callback(self._lock.release)
            self._db = connect_to_write(self.path, self.namespace, leaves_traces=self._keeps_args)
            undo.callback(self._db.close)
            with converted(self.path, CORRUPT_AT_OPEN):
                self._file = identity(self.path)
                try:
                    self._load()
                except (ValueError, TypeError) as error:  # an invalid fact
                    raise ArchiveCorrupt(f"archive {self.path}: {error}") from error
            undo.pop_all()

    def _load(self) -> None:
        facts = self._facts = stored_facts(self._db, self.path)  # as stored: only this thread changes them
        self.id = str(facts.get("archive", uuid.uuid4().hex))
        self.gens = str(facts.get("gens", "")).split()  # names of the data sets that it followed, the latest last
        self.address: str | None = facts.get("address")  # of its Redis
        self.complete_since: str | None = facts.get("complete_since")  # START, or t in µs; None: still empty
        self.began_us = int(facts["began_us"]) if "began_us" in facts else None  # t of the last entry when it began
        self.position = body.position_of(facts.get("position"))
        self.unknown_entries = int(facts.get("unknown_entries", 0))  # the state may lack their changes
        self.unreadable_entries = int(facts.get("unreadable_entries", 0))  # the part of them that a bootstrap repairs
        self.dropped = 0  # malformed ids left out since it was opened
        self._before = 0, 0  # both counts, for the state that a bootstrap replaces
        self._format = int(facts.get("format", FORMAT))  # the newest format of an entry: older versions refuse the file
        self._life, self._boot_n = int(facts.get("life", 1)), facts.get("boot_n")
        self._n = last_n(self._db)
        self._touches = self._committed = int(facts.get("touches", 0))
        self._prefixed = -PREFIX_IDS
        self._pruning: Iterator[bool] = iter(())
        self._forgotten_before_us: int | None = None  # history older than this has gaps
        self.tail = self.position
        self._fold = StateWriter(self._db, self._life, self._suffix)
        self._fold.named_texts |= json.loads(facts.get("named_texts", "{}"))
        self._start_fold(self._life)
        if "archive" not in facts:
            self._begin()
            self._set(archive=self.id, namespace=self.namespace)
            self._commit()
        if self._boot_n is not None:
            self.abandon_bootstrap()

    # -- following --------------------------------------------------------------------------------

    def append(self, entries: Iterable[Entry]) -> list[UnknownEntry]:
        """Add *entries* to history and state. Unreadable entries are kept raw; return their errors."""
        return self._take(entries, is_folded=True)

    def commit(self) -> None:
        """Make all changes durable; ``position`` is then the last entry's."""
        if not self._db.in_transaction:
            return
        with converted(self.path):
            if not self.is_bootstrapping and self.tail is not None:
                self._set(position=str(self.tail))
            if self._fold.named_texts:
                self._set(named_texts=json.dumps(self._fold.named_texts, ensure_ascii=False, sort_keys=True))
            counts = {"unknown_entries": self.unknown_entries, "unreadable_entries": self.unreadable_entries}
            self._set(touches=self._touches, format=self._format, **counts)
            self._commit()
            if identity(self.path) != self._file:
                raise ArchiveFailed(f"archive {self.path}: another file is in its place")
        if not self.is_bootstrapping:
            self.position = self.tail
        size_cache(self._db, is_busy=self._touches - self._committed > _PIECE)
        self._committed = self._touches

    def set_facts(
        self, *, gen: str | None = None, address: str | None = None, complete_since: str | None = None, format: int = 0
    ) -> None:
        """
        Record the names and the *address* of the followed data set, the time since when the history is complete, and
        the newest *format* of its entries. Kept in memory until ``commit``.
        """
        self._format = max(self._format, format)
        names, told = gen.split() if gen is not None else [], dict[str, str]()
        if names and self.gens[-len(names) :] != names:
            self.gens = [*(each for each in self.gens if each not in names), *names]
            told["gens"] = " ".join(self.gens)
        if address is not None and address != self.address:
            self.address = told["address"] = address
        if complete_since is not None:
            self.complete_since = told["complete_since"] = complete_since
        if told:
            self._begin()
            self._set(**told)

    @property
    def unknown(self) -> set[Key]:
        """Schedules (id, '') and runs (id, run) in entries that the state lacks: ``scan`` them, then clear."""
        return self._fold.unknown

    def hold_named_texts(self, held: Mapping[str, str]) -> None:
        """Add the texts that Redis holds, as ``NamedTextStore.held``; the later change counts: t has 16 digits."""
        known = self._fold.named_texts
        known |= {name: max(text, known.get(name, "")) for name, text in held.items()}

    def rest(self) -> None:
        """Free the memory of the page cache, until the next change reads its pages again."""
        self._fold.index.forget()
        with converted(self.path):
            self._db.execute("PRAGMA shrink_memory")

    # -- bootstrapping ----------------------------------------------------------------------------

    @property
    def is_bootstrapping(self) -> bool:
        """True during a bootstrap."""
        return self._boot_n is not None

    def begin_bootstrap(self) -> None:
        """Begin a new state; the present one stays until ``end_bootstrap``."""
        if self.is_bootstrapping:
            self.abandon_bootstrap()
        self.commit()  # appended entries belong to the old state
        self._begin()
        self._boot_n, self._before = self._n, (self.unknown_entries, self.unreadable_entries)
        deadlines.carry(self._db, self._life)
        self._start_fold(self._life + 1)
        self._set(boot_n=self._n)

    def copy(self, entries: Iterable[Entry]) -> None:
        """Add *entries* to the history only: the scanned state includes them."""
        self._take(entries, is_folded=False)

    def scan(self, rows: Sequence[Record], at: Position) -> None:
        """Add contents of Redis, read when its log ended with *at*."""
        if not rows:
            return
        self._begin()
        entry = ScanEntry.entry_of(rows, at)
        with converted(self.path):
            n = self._insert(entry, [row.id for row in rows], is_ours=True)
            self._fold.add(n, entry)
            if any(row.is_schedule for row in rows):
                self._fold.scanned_to = max(self._fold.scanned_to, at.order)
            self._flush()

    def end_bootstrap(self, complete_since: str) -> None:
        """Switch to the new state, and to the position of the last added entry, in one transaction."""
        self._begin()
        old, self._life, self._boot_n = self._life, self._fold.life, None
        with converted(self.path):
            deadlines.end_state(self._db, old, int(self._facts["boot_n"]), self._suffix)
            self._unset("boot_n")
            self._set(life=self._life)
        self.unknown_entries -= self._before[0]  # of the deleted state
        self.unreadable_entries -= self._before[1]
        self.set_facts(complete_since=complete_since)
        if self.began_us is None and self.tail is not None:
            self.began_us = self.tail.t_us
            self._set(began_us=self.began_us)
        self.commit()

    def abandon_bootstrap(self) -> None:
        """Delete the results of an unfinished bootstrap; the previous state stays valid."""
        with converted(self.path):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._facts = stored_facts(self._db, self.path)
            self._begin()
            recount(self._db, self._suffix, int(self._boot_n or 0)).flush(-1)
            for table in ("entry", "argument", "touch", "facet", "posting", "label"):
                self._db.execute(f"DELETE FROM {table} WHERE n > ?", (self._boot_n,))
            live.delete_states(self._db, "life > ?", self._life)
            self._unset("boot_n")
            self._commit()
            self._n = last_n(self._db)
        self._boot_n, self.tail = None, self.position
        unknown, unreadable = self._before
        self.unknown_entries = unknown or self.unknown_entries
        self.unreadable_entries = unreadable or self.unreadable_entries
        self._start_fold(self._life)

    # -- state ------------------------------------------------------------------------------------

    def recall(self) -> Recall:
        """Return the archive's knowledge, for a comparison with Redis; it is valid until the next change."""
        return Recall(self._db, self.path, self._facts)

    def leave_behind(self) -> None:
        """Restart after a gap in the log: the present content becomes history without a state."""
        self.commit()
        self._begin()
        self.tail = None
        self._set(known_from=self._n)
        with converted(self.path):
            self._unset("position", "began_us")
            self._db.execute("DELETE FROM deadline")  # another archive may have logged them meanwhile
            self._commit()
        self.position = self.began_us = None

    # -- keeping ----------------------------------------------------------------------------------

    def begin_pruning(self, before_us: int) -> None:
        """Begin to delete the history before *before_us*, and unneeded arguments; see ``retention``."""
        self._pruning, self._prune_before_us = pruning(self._db, before_us, self._n), before_us

    def prune(self) -> bool:
        """Delete a part; return False if there is no more."""
        with converted(self.path):
            self._begin()
            if has_gaps := next(self._pruning, None):  # None: the round is over
                self._forgotten_before_us = self._prune_before_us
            if has_gaps is None:
                self._fold.index.forget()  # unused series are deleted
            before_us, since = self._forgotten_before_us, self.complete_since
            if before_us is not None and (since is None or since == START or int(since) < before_us):
                self.set_facts(complete_since=str(before_us))
        self.commit()
        return has_gaps is not None

    def index_step(self, budget_ms: float, clock: Clock) -> None:
        """Build the index of prefixes behind the log, for about *budget_ms*; nothing if too little is new."""
        if self.is_bootstrapping or self._touches - self._prefixed < PREFIX_IDS:
            return
        with converted(self.path):
            for _ in build_prefixes(self._db, self._suffix, self._n, budget_ms, clock):
                self._begin()
            if not self._db.in_transaction:  # all complete blocks are built
                self._prefixed = self._touches
        self.commit()

    def check_step(self, budget_ms: float, clock: Clock) -> bool:
        """
        Check a part of the file for about *budget_ms*; return False when all of it was checked.

        Raises:
            ArchiveCorrupt: the file is corrupted. ArchiveFailed.
        """
        if self.is_bootstrapping:
            return True  # there are two states: checked after the bootstrap
        if self._check is None:
            self._check = Check(self._db, self.path, clock)
        with converted(self.path, CORRUPT_AT_OPEN):
            return self._check.step(budget_ms, self._life)

    def close(self) -> None:
        """Close the file and release the lock; uncommitted changes are lost."""
        try:
            with converted(self.path):
                self._db.close()
        finally:
            self._lock.release()

    # -- how --------------------------------------------------------------------------------------

    def _take(self, entries: Iterable[Entry], *, is_folded: bool) -> list[UnknownEntry]:
        problems = []
        self._begin()
        with converted(self.path):
            for entry in entries:
                n = number_of(self._db, entry.position) if self.is_bootstrapping else None
                touched: Sequence[str] = ()
                is_known, is_old = True, n is not None
                try:
                    if is_folded or not is_old:
                        number = n or self._n + 1
                        touched = self._fold.add(number, entry, is_indexed=is_old, is_passed=not is_folded)
                except UnknownEntry as error:
                    problems.append(error)
                    is_unreadable = isinstance(error, UnreadableEntry)
                    if is_folded or not is_unreadable:  # a scanned state has the change of an entry of a known kind
                        self.unknown_entries += 1
                        self.unreadable_entries += is_unreadable
                    is_known = False
                else:
                    self.dropped += len(self._fold.dropped) if is_folded else 0
                if n is None:
                    self._insert(entry, touched, is_known=is_known)
                elif is_known and not self._keeps_args:  # they may have been deleted since
                    keep_arguments(self._db, n, without_arguments(entry)[1])
                self.tail, self._format = entry.position, max(self._format, entry.format or 0)
                if len(self._touched) >= _PIECE:
                    self._flush()
            self._flush()
        return problems

    def _insert(self, entry: Entry, touched: Sequence[str], *, is_ours: bool = False, is_known: bool = True) -> int:
        """Buffer an entry for the history, and return its number. In an unknown entry no arguments are found."""
        self._n += 1
        n = self._n
        if is_known and not self._keeps_args:
            entry, datas = without_arguments(entry)
            keep_arguments(self._db, n, datas)
        self._entries.append(body.history_row(n, entry, body.pack(entry.texts_to_keep), is_ours=is_ours))
        segment = self._touches >> SEGMENT_BITS
        self._touched += [(segment, crc32(id.encode()), n) for id in touched]
        self._touches += len(touched)
        return n

    def _flush(self) -> None:
        """Write buffered rows to SQLite."""
        self._db.executemany(body.INSERT, self._entries)
        self._touched.sort()
        self._db.executemany("INSERT OR IGNORE INTO touch VALUES (?, ?, ?)", self._touched)
        self._entries.clear()
        self._touched.clear()
        self._fold.flush()

    def _start_fold(self, life: int) -> None:
        self._fold.begin(life)
        self._entries: list[body.HistoryRow] = []
        self._touched: list[tuple[int, int, int]] = []

    def _begin(self) -> None:
        if not self._db.in_transaction:
            with converted(self.path):
                self._db.execute("BEGIN IMMEDIATE")

    def _set(self, **facts: Any) -> None:
        """Write the changed ones of *facts*."""
        changed = {name: value for name, value in facts.items() if self._facts.get(name) != value}
        if changed:
            self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", list(changed.items()))
            self._facts |= changed

    def _unset(self, *names: str) -> None:
        """Remove facts."""
        for name in names:
            self._db.execute("DELETE FROM fact WHERE name = ?", (name,))
            self._facts.pop(name, None)

    def _commit(self) -> None:
        """End the transaction, with a checksum of the facts."""
        self._set(**{SUM: sum_of(self._facts)})
        self._db.execute("COMMIT")
