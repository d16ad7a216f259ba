"""
An archive's knowledge for a restore of Redis: the entries of its own history, the keys that they changed, and
the resulting state, schedule by schedule.

It is read by the writer's own connection, or beside it (``recalling``). If the log was trimmed past an
archive, the archive does not know what became of its schedules. Its entries up to there are history only, and
do not count here (``fact`` known_from).
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from zsched.archive import body, live
from zsched.archive.body import arguments_at, fields_in, with_arguments
from zsched.archive.check import Check, stored_facts
from zsched.archive.file import CORRUPT_AT_OPEN, check_file, connect_to_read, converted
from zsched.archive.live import LiveRow, record_in
from zsched.archive.schema import last_n, number_of, segments
from zsched.core.clock import Clock
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import changes, kinds_telling, kinds_telling_only, parse, touches
from zsched.core.log.lives import EndEntry
from zsched.core.log.puts import RestoreEntry
from zsched.core.occurrences.outcomes import OF_RUNS, What
from zsched.core.pages import grouped, pages_of
from zsched.core.record import Key, Place, Record, RecordFields
from zsched.core.recovery.difference import Recalled
from zsched.core.runs.run import Run
from zsched.core.runs.run_id import nominal_ms_of, run_key, suffix_of
from zsched.errors import ArchiveCorrupt, ArchiveError

_PAGE: Final = 200  # schedules, or entries, at a time
_CHECK_MS: Final = 500.0  # of a step of the check before a recovery
_READERS: Final = 64  # parsed entries kept in memory, for their records or their changed keys
_NEWEST: Final = 100  # entries of a schedule per segment; after a clock was set back, few follow until it is due


class Recall:
    """The knowledge of the archive at *path* with these *facts*; entries up to number ``known_from`` do not count."""

    def __init__(self, db: sqlite3.Connection, path: Path, facts: Mapping[str, Any]) -> None:
        self.archive, self.life = str(facts.get("archive")), int(facts.get("life", 1))
        self.run_suffix, self._named_texts = suffix_of(str(facts.get("namespace"))), facts.get("named_texts", "{}")
        self._db, self._path, self._known_from = db, path, int(facts.get("known_from", 0))
        self._fields: dict[int, Sequence[RecordFields]] = {}
        self._touched: dict[int, dict[str, int]] = {}  # entry → the schedules that it changed

    def named_texts(self) -> dict[str, str]:
        """Return its calendars and known failures, as ``NamedTexts``."""
        return dict(json.loads(self._named_texts))

    def number_of(self, position: Position) -> int | None:
        """Return the number of an entry in its own history; None if it never had the entry."""
        with converted(self._path):
            return number_of(self._db, position, self._known_from)

    def touched_behind(self, n: int, until: int | None = None) -> dict[Key, int]:
        """
        Return the keys that its history changed after entry number *n*, up to number *until*, with the last t in µs.
        """
        touched: dict[Key, int] = {}
        for row in self._entries("n > ? AND n <= ? ORDER BY n", n, self.last_n() if until is None else until):
            for key, t_us in self._touches(row):
                touched[key] = max(t_us, touched.get(key, 0))
        return touched

    def ended_behind(self, n: int, until: int) -> Iterator[tuple[Record, Run]]:
        """
        Yield the runs that ended by entries after number *n*, up to number *until*, as ``Recalled.over``; one that
        ended again twice.
        """
        for row in self._entries("n > ? AND n <= ? AND kind = ? ORDER BY n", n, until, EndEntry.kind):
            entry = body.entry_of(row)
            with suppress(UnknownEntry):
                for run in parse(entry).ended_runs():
                    if (key := run_key(run.id)) is not None:
                        due_ms, t_us = nominal_ms_of(key[1]), entry.position.t_us
                        yield Record(*key, Place.OVER, "", due_ms, (), t_us=t_us), run

    def last_n(self) -> int:
        """Return the number of the last entry of the history."""
        with converted(self._path):
            return last_n(self._db)

    def having(self, ids: Sequence[str]) -> set[str]:
        """Return the *ids* of which the state has a row."""
        return {id for (id,) in self._of_state(f"SELECT id FROM live WHERE life = ? AND id IN ({_marks(ids)})", *ids)}

    def last_touch(self, id: str) -> tuple[int, Position] | None:
        """Return the t in µs of its history's last change of schedule *id*, and its entry; None if it never did."""
        touching = ((touched, body.entry_of(row).position) for row, touched in self._touching(id) if id in touched)
        return next(((touched[id], at) for touched, at in touching), None)

    def better(self, rows: Sequence[tuple[str, int]]) -> dict[str, tuple[int, Position]]:
        """
        Return the schedules of *rows* (id, and t in µs of a change) with a later change in this history, each with the
        t of its last change, and its entry. If the history has both changes, its order decides, because clocks jump;
        otherwise t (rule: BY_ORDER).
        """
        found: dict[str, tuple[int, Position]] = {}
        for page in pages_of(rows, _PAGE):
            query = f"SELECT id, t FROM live WHERE life = ? AND place <> 'open' AND id IN ({_marks(page)})"
            state = dict(self._of_state(query, *(id for id, _ in page)))
            for id, t_us in page:
                last = None if state.get(id) == t_us else self.last_touch(id)
                if last is not None and last[0] != t_us and (last[0] > t_us or self._has_told(id, t_us)):
                    found[id] = last
        return found

    def restored_at(self, id: str, t_us: int) -> Iterator[Position]:
        """Yield the ``restore`` entries that repeated the change of *t_us* of schedule *id*."""
        for row, touched in self._touching(id, f"AND kind = '{RestoreEntry.kind}'"):
            if touched.get(id) == t_us:
                yield body.entry_of(row).position

    def _has_told(self, id: str, t_us: int) -> bool:
        """Return True if the history has the change of *t_us* of schedule *id*, done or restored."""
        which = f"AND (t = {t_us} OR kind = '{RestoreEntry.kind}')"
        return any(touched.get(id) == t_us for _, touched in self._touching(id, which))

    def _touching(self, id: str, which: str = "") -> Iterator[tuple[body.HistoryRow, dict[str, int]]]:
        """
        Yield the log's entries that may concern schedule *id*, the newest first, each with its changed schedules and
        the t of their changes in µs.
        """
        key = crc32(id.encode())
        query = "SELECT n FROM touch WHERE segment = ? AND key = ? AND n > ? ORDER BY n DESC"
        with converted(self._path):
            for segment in reversed(segments(self._db)):
                for (n,) in self._db.execute(query, (segment, key, self._known_from)).fetchall():
                    yield from ((row, self._schedules_touched(row)) for row in self._entries(f"n = ? {which}", n))

    def _schedules_touched(self, row: body.HistoryRow) -> dict[str, int]:
        """Return the schedules that the entry in *row* changed. Cached, because many schedules may need one entry."""
        if row[0] not in self._touched:
            if len(self._touched) >= _READERS:
                self._touched.clear()
            schedules: dict[str, int] = {}
            for (id, run), t_us in self._touches(row):
                if not run:
                    schedules[id] = max(t_us, schedules.get(id, 0))
            self._touched[row[0]] = schedules
        return self._touched[row[0]]

    def told_ms(self, id: str) -> int:
        """
        Return the latest time of the newest entries of schedule *id*, in ms, even if the server's clock was set back.

        Ends of runs do not count. After a change of its zone's rules the result is at least the new time of its
        occurrence: the new rules may have earlier times, at which nothing had to fire.
        """
        latest = self._newest("max(t)", f"NOT {body.of_kinds(kinds_telling_only(OF_RUNS))}", id)
        latest_ms = max((t_us for (t_us,) in latest if t_us is not None), default=0) // 1000
        return max([latest_ms, *self._replanned_to(id)])

    def _replanned_to(self, id: str) -> Iterator[int]:
        """Yield the new times of the newest entries that moved the occurrence of schedule *id*."""
        for row in self._newest(body.COLUMNS, body.of_kinds(kinds_telling(What.REPLANNED)), id):
            with suppress(UnknownEntry):
                for change in changes(body.entry_of(row)):
                    if change.id == id and change.what is What.REPLANNED and change.next_ms is not None:
                        yield change.next_ms

    def _newest(self, columns: str, which: str, id: str) -> Iterator[Any]:
        """Yield *columns* of the newest entries of schedule *id* in each segment, of those for which *which* holds."""
        newest = "SELECT n FROM touch WHERE segment = ? AND key = ? ORDER BY n DESC LIMIT ?"
        query, key = f"SELECT {columns} FROM entry WHERE {which} AND n IN ({newest})", crc32(id.encode())
        with converted(self._path):
            for segment in segments(self._db):
                yield from self._db.execute(query, (segment, key, _NEWEST))

    def absent(self, ids: Sequence[str]) -> list[str]:
        """Return the *ids* without a schedule in the state."""
        query = f"SELECT id FROM live WHERE life = ? AND id IN ({_marks(ids)}) AND place <> 'open'"
        here = {id for (id,) in self._of_state(query, *ids)}
        return [id for id in ids if id not in here]

    def first_due_ms(self) -> int | None:
        """Return the earliest time at which a schedule is due; None if none waits. Reads every row."""
        [(first_ms,)] = self._of_state("SELECT min(due) FROM live WHERE life = ? AND place = 'due'")
        return None if first_ms is None else int(first_ms)

    def overdue(self, before_ms: int, limit: int) -> tuple[int, list[str]]:
        """Return the number of schedules due before *before_ms*, and the ids of the oldest *limit*. Reads every row."""
        source = "FROM live WHERE life = ? AND due < ? AND place = 'due'"
        [(count,)] = self._of_state(f"SELECT count(*) {source}", before_ms)
        query = f"SELECT id {source} ORDER BY due LIMIT ?"
        return count, [id for (id,) in self._of_state(query, before_ms, limit)] if count else []

    def next_schedules(self, after: str, limit: int) -> list[tuple[str, str]]:
        """
        Return at most *limit* schedules with ids behind *after* that have not ended, each with the rest of its waiting
        run's id.
        """
        query = "SELECT id, run FROM live WHERE life = ? AND id > ? AND place NOT IN (?, ?) ORDER BY id LIMIT ?"
        return self._of_state(query, after, Place.OPEN, Place.ENDED, limit)

    def count_places(self) -> dict[str, int]:
        """Count the schedules and open runs of the state by their place. Reads every row."""
        return dict(self._of_state("SELECT place, count(*) FROM live WHERE life = ? GROUP BY place"))

    def known(
        self, ids: Iterable[str], touched: dict[Key, int] | None = None, over: Mapping[Key, tuple[Record, Run]] = {}
    ) -> Iterator[Recalled]:
        """
        Yield the knowledge of each of *ids*. With *touched*, only of its keys: a schedule that is no longer in the
        state is then reported as gone. *over*: runs that ended by those changes.
        """
        over_of = grouped((one[0].id, one) for one in over.values())
        for page in pages_of(ids, _PAGE):
            found: dict[str, list[Record]] = {id: [] for id in page}
            query = f"SELECT {live.COLUMNS} FROM live WHERE life = ? AND id IN ({_marks(page)})"
            with converted(self._path):
                for stored in self._db.execute(query, (self.life, *page)):
                    found[stored[0]].append(self.record(stored))
            yield from (self._recalled(id, records, touched, over_of.get(id, ())) for id, records in found.items())

    def known_all(self, is_settled: Callable[[Key, int], bool] = lambda _key, _t_us: False) -> Iterator[Recalled]:
        """
        Yield the knowledge of every schedule; without what nobody asks for, because the key and t in µs of its only row
        are settled. Most have one row: these are read in the order of the history, where those that were put together
        are adjacent.
        """
        several = "SELECT id FROM live WHERE life = ? GROUP BY id HAVING count(*) > 1"
        query = f"SELECT {live.COLUMNS} FROM live WHERE life = ? ORDER BY n, row"
        with converted(self._path):
            left = {id: None for (id,) in self._db.execute(several, (self.life,))}
            for stored in self._db.execute(query, (self.life,)):
                id, run, is_open = stored[0], stored[1], stored[2] == Place.OPEN
                if id not in left and is_settled((id, run if is_open else ""), stored[8]):
                    yield Recalled(id, None, None, ())
                elif id not in left:
                    one = self.record(stored)
                    yield Recalled(id, None if is_open else one, None, [one] if is_open else ())
        yield from self.known(left)

    def record(self, stored: LiveRow) -> Record:
        """Return the record in a row of the state, with the fields that the history has."""
        n, row = stored[9], stored[10]
        if (fields := self._fields.get(n)) is None:
            if len(self._fields) >= _READERS:
                self._fields.clear()
            fields = self._fields[n] = fields_in(self._entry(n, stored[0]))
        try:
            record = record_in(stored, fields[row])
        except IndexError:
            raise UnknownEntry(f"history entry {n} has no record in row {row}") from None
        if b"" in record.job and (data := arguments_at(self._db, n, row)) is not None:
            record.job = with_arguments(record.job, data)
        return record

    def _of_state(self, query: str, *values: Any) -> list[Any]:
        """Return the rows that *query* finds in the state."""
        with converted(self._path):
            return self._db.execute(query, (self.life, *values)).fetchall()

    def _recalled(
        self, id: str, records: list[Record], touched: dict[Key, int] | None, over: Sequence[tuple[Record, Run]]
    ) -> Recalled:
        schedule, gone_us, runs, unchanged = None, None, list[Record](), set[str]()
        is_changed = touched is None or (id, "") in touched
        for one in records:
            if one.place is not Place.OPEN:
                schedule = one if is_changed else None
                continue
            over = [(row, run) for row, run in over if row.run != one.run]
            is_touched = touched is None or one.key in touched
            if is_touched or is_changed:  # it may wait in Redis: see ``lacking``
                runs.append(one)
                unchanged |= set() if is_touched else {one.run}
        if touched is not None and schedule is None:
            gone_us = touched.get((id, ""))
        return Recalled(id, schedule, gone_us, runs, unchanged, over)

    def _entries(self, which: str, *values: Any) -> Iterator[body.HistoryRow]:
        """Yield the rows of the log's entries for which *which* holds."""
        with converted(self._path):
            yield from self._db.execute(f"SELECT {body.COLUMNS} FROM entry WHERE seq IS NOT NULL AND {which}", values)

    def _touches(self, row: body.HistoryRow) -> Iterator[tuple[Key, int]]:
        """Yield the keys that the log's entry in *row* changed; none for an entry that was kept raw."""
        with suppress(UnknownEntry):
            yield from touches(body.entry_of(row), self.run_suffix)

    def _entry(self, n: int, id: str) -> Entry:
        found = self._db.execute(f"SELECT {body.COLUMNS} FROM entry WHERE n = ?", (n,)).fetchone()
        if found is None:
            raise ArchiveCorrupt(f"archive {self._path}: history entry {n} of schedule {id!r} is gone")
        return body.entry_of(found)


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


@contextmanager
def recalling(path: Path, namespace: str, clock: Clock) -> Iterator[tuple[Recall, dict[str, Any]]]:
    """
    Open the knowledge and facts of the archive at *path*, beside its writer; every checksum is verified first.

    Raises:
        ArchiveForeign: of another namespace, or not an archive. ArchiveCorrupt: the file is corrupted.
        ArchiveError: there is no file. ArchiveFailed.
    """
    if not path.exists():
        raise ArchiveError(f"archive {path}: there is no such file; give --from FILE, or [archive] path")
    with closing(connect_to_read(path)) as db:
        check_file(db, path, namespace)
        with converted(path, CORRUPT_AT_OPEN):
            db.execute("BEGIN")
            if not (facts := stored_facts(db, path)):
                raise ArchiveError(f"archive {path}: it is empty")
            life = int(facts.get("life", 1))
            check = Check(db, path, clock)
            while check.step(_CHECK_MS, life, *([life + 1] if "boot_n" in facts else ())):
                pass
        yield Recall(db, path, facts), facts


@contextmanager
def recalling_beside(path: Path) -> Iterator[tuple[Recall, Position | None]]:
    """
    Open the knowledge of the archive at *path* at one moment, beside its writer in this process, with its last entry.

    The last entry is None if the state cannot be compared with Redis: a bootstrap is reading another state, or the
    archive has entries that this version cannot read. Checksums are verified only for rows that are read.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """
    with closing(connect_to_read(path)) as db:
        with converted(path):
            db.execute("BEGIN")
            facts = stored_facts(db, path)
        is_whole = "boot_n" not in facts and not int(facts.get("unknown_entries", 0))
        yield Recall(db, path, facts), body.position_of(facts.get("position")) if is_whole else None
