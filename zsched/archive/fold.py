"""
Fold: apply the log's entries to the state, row by row (``core.log.rows``), fast for random ids.

The changes of many entries are collected in memory, then written sorted, in four statements. A schedule that
is put and fired in between costs one row. Entries have absolute values ("is paused, due then"). So entries
that are folded again over a later state end in the same state; a bootstrap relies on that.

An entry may concern a schedule that the state does not have: it moved while a bootstrap read the places one
by one. Such ids are collected in ``unknown``, to be read from Redis. So are the runs that a recurring
schedule pushed before it was read: its record may be later than theirs.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from zsched.archive import live
from zsched.archive.deadlines import DeadlineWriter
from zsched.archive.index import IndexWriter, RecordPlace
from zsched.archive.live import LiveRow, record_in, stored
from zsched.core.entry import Entry
from zsched.core.log.kinds import ParsedEntry, parse
from zsched.core.log.puts import DISABLED
from zsched.core.log.rows import (
    Advanced,
    Counted,
    DeadlinesMissed,
    Mentioned,
    NamedTexts,
    OneShotsFired,
    OneShotsLeft,
    OneShotsPut,
    Paused,
    PushedByRule,
    Quarantined,
    Replanned,
    Resumed,
    Row,
    RunsOver,
    Skips,
)
from zsched.core.occurrences.changes import Change, record_key_of
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.record import Key, Place, Record, skipped_in, skips_text
from zsched.core.runs.run_id import nominal_ms_of, run_id_of

_SELECT = f"SELECT {live.COLUMNS} FROM live WHERE life = ? AND id = ? AND place <> 'open'"
_INSERT = f"INSERT OR REPLACE INTO live(life, {live.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OPEN = (
    "UPDATE live SET place = 'open', note = ?1, t = ?2,"
    " sum = live_sum(id, run, 'open', due, nominal, last, state, ?1, ?2, n, row)"
    " WHERE life = ?3 AND id = ?4 AND run = ?5"
)
_FORGET = "DELETE FROM live WHERE life = ? AND id = ? AND place <> 'open'"
_DELETE = "DELETE FROM live WHERE life = ? AND id = ? AND run = ?"
_SOURCE = "SELECT n, row FROM live WHERE life = ? AND id = ? AND run = ?"
_HAS = "SELECT 1 FROM live WHERE life = ? AND id = ? AND run = ?"


class StateWriter:
    """
    Applies entries to the state *life* of *db*. Nothing is written before ``flush``. *is_part*: the log's first
    entries are missing, so an unknown schedule was put before them, and gets a row without a record (entry 0).
    """

    def __init__(self, db: sqlite3.Connection, life: int, run_suffix: str, *, is_part: bool = False) -> None:
        db.create_function("live_sum", 11, self._opened_sum, deterministic=True)  # refused while a statement is open
        self._db, self._suffix, self._is_part = db, run_suffix, is_part
        self.named_texts: dict[str, str] = {}  # as ``NamedTexts``, of all states: each text has the time of its change
        self.begin(life)

    def begin(self, life: int) -> None:
        """Apply the next entries to the state *life*; forget what was not written."""
        self.life, self.index = life, IndexWriter(self._db)
        self._deadlines = DeadlineWriter(self._db, life, self._suffix)
        self.unknown: set[Key] = set()  # a schedule by (id, ''), a run by both
        self.dropped: list[str] = []  # malformed ids of the last entry
        self._at = self.scanned_to = (-1, -1)  # the current entry; the last entry in a scanned schedule
        self._n = self._t = 0  # number and time of the current entry
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[Key, Record | LiveRow] = {}  # new rows
        self._schedules: dict[str, Key] = {}  # the row in _rows that is not open
        self._opened: dict[Key, tuple[str | None, int]] = {}  # rows in the file that become open: note, t
        self._forgotten: set[str] = set()  # deleted schedules in the file
        self._deleted: set[Key] = set()
        self._fired: list[tuple[int, int, Sequence[Key]]] = []  # entries of fired one-shots, their times and keys
        self._sources: dict[Key, RecordPlace] = {}  # the records of one-shots that became open

    def add(self, n: int, entry: Entry, *, is_indexed: bool = False, is_passed: bool = False) -> Sequence[str]:
        """
        Apply *entry*, number *n* of the history; return the ids that it concerns. *is_indexed*: it is in the index
        already. *is_passed*: the state has all of it but missed deadlines.

        Raises:
            UnknownEntry: it cannot be read completely.
        """
        self.dropped = []
        with parse(entry, self._suffix) as parsed:
            self._at, self._n, self._t = entry.position.order, n, entry.position.t_us
            rows = list(parsed.rows())  # parse all rows before any change
            self.dropped = list(parsed.dropped)
            if not is_indexed:
                self._note(parsed)
            for row in rows:
                if not is_passed or isinstance(row, DeadlinesMissed):
                    _FOLDS[type(row)](self, row)
        return touched_ids(rows)

    def flush(self) -> None:
        """Write the changes, in the caller's transaction."""
        life, db = self.life, self._db
        opened = [(note, t, life, *key) for key, (note, t) in sorted(self._opened.items())]
        if db.executemany(_OPEN, opened).rowcount < len(opened):
            missing = [key for key in self._opened if not db.execute(_HAS, (life, *key)).fetchone()]
            self.unknown.update(missing)
            for key in missing if self._is_part else ():
                note, t = self._opened[key]
                self._rows[key] = Record(*key, Place.OPEN, "", None, (), note=note, t_us=t)
        for n, t, keys in self._fired:
            self.index.fired(n, t, keys, [self._sources.get(key) or self._source(*key) for key in keys])
        self.index.flush()
        db.executemany(_FORGET, [(life, id) for id in sorted(self._forgotten)])
        db.executemany(_DELETE, [(life, *key) for key in sorted(self._deleted)])
        rows = (stored(row) if isinstance(row, Record) else row for row in self._rows.values())
        db.executemany(_INSERT, sorted((life, *row) for row in rows))
        self._clear()

    # -- the index --------------------------------------------------------------------------------

    def _note(self, parsed: ParsedEntry) -> None:
        """Add the current entry to the index, before its changes: they may delete what the changes are about."""
        n, fired = self._n, parsed.only_fired()
        if parsed.by:
            self.index.asked(n, parsed.by)
        if parsed.has_records:
            self.index.records(n, parsed)
        elif fired is not None:
            self._fired.append((n, self._t, fired))  # the records become known when the rows are changed
        elif parsed.is_searched and (changes := list(parsed.searched())):
            self.index.add_changes(n, changes, [self._source_of(one, parsed.is_by_rule) for one in changes])

    def _source_of(self, change: Change, is_by_rule: bool) -> RecordPlace | None:
        """Return the record of *change*: of its run, or of its schedule."""
        if change.what is What.DEADLINE_MISSED:
            return self._deadlines.source(change.id, change.nominal_ms)
        if change.run_id is not None and not is_by_rule:
            return self._source(*record_key_of(change))
        schedule = self._look(change.id)
        return None if schedule is None else (schedule.n, schedule.row)

    def _source(self, id: str, run: str) -> RecordPlace | None:
        row = self._rows.get((id, run))
        if row is not None:
            return (row.n, row.row) if isinstance(row, Record) else (row[9], row[10])
        found: RecordPlace | None = self._db.execute(_SOURCE, (self.life, id, run)).fetchone()
        return found

    def _opened_sum(
        self, id: str, run: str, place: str, due: int | None, nominal: int | None, last: str | None,
        state: str, note: str | None, t: int, n: int, row: int,
    ) -> int:  # fmt: skip
        """Return the checksum of a row that becomes open, and note its record. SQLite calls it for each."""
        self._sources[id, run] = n, row
        return live.state_checksum(id, run, place, due, nominal, last, state, note, t, n, row)

    # -- rows of entries --------------------------------------------------------------------------

    def _put(self, put: OneShotsPut) -> None:
        n, t, suffix = self._n, self._t, put.run_suffix
        rows, schedules, replaced, paused = self._rows, self._schedules, put.replaced, put.paused
        shared = live.shared_sum(Place.DUE.value, None, None, "", None, t, n)
        for number, (id, due_ms) in enumerate(zip(put.at, put.dues, strict=True)):
            run = f"{due_ms}{suffix}"
            if id in paused:
                record = put.record_of(number)
                record.row = number
                self._place(record)
                continue
            if id in replaced:
                self._forget(id)
            key = schedules[id] = (id, run)
            rows[key] = live.waiting(id, run, due_ms, t, n, number, shared)
        self._deadlines.put_all(put, n, t)

    def _place(self, record: Record) -> None:
        """Keep a new schedule or run unchanged, or delete it. A paused one without a note keeps that which it has."""
        record.n = self._n
        if not record.is_schedule:
            if record.place is Place.OPEN:
                self._rows[record.key] = record
                self._deadlines.put(record, self._t)
            else:
                self._delete(*record.key)
            return
        if record.place is Place.PAUSED and record.note is None:
            known = self._look(record.id)
            note = known.note if known is not None and known.place is Place.PAUSED else None
            record.note = note or f"{self._t // 1000} {DISABLED}"
        self._forget(record.id)
        if record.place is not Place.GONE:
            self._take(record)
            self._deadlines.put(record, self._t)

    def _pause(self, schedule: Record, row: Paused) -> None:
        since = schedule.note if schedule.place is Place.PAUSED and schedule.note else str(self._t // 1000)
        self._deadlines.pause(schedule, self._t)
        schedule.place, schedule.note = Place.PAUSED, f"{since.partition(' ')[0]} {row.note}"
        schedule.due_ms, schedule.state = row.due_ms, skips_text(skipped_in(schedule.state))

    def _resume(self, schedule: Record, row: Resumed) -> None:
        if row.passed and schedule.run:
            self._forget(row.id)  # a one-shot with a time in the pause
            return
        schedule.place = Place.ENDED if row.due_ms is None else Place.DUE
        schedule.note, schedule.due_ms = None, row.due_ms
        schedule.state = skips_text(skipped_in(schedule.state))
        nominal_ms = row.nominal_ms if row.passed else schedule.nominal_ms
        self._deadlines.move(schedule, nominal_ms, self._t)
        schedule.nominal_ms = nominal_ms

    def _skip(self, schedule: Record, row: Skips) -> None:
        self._deadlines.move(schedule, row.nominal_ms, self._t)
        schedule.nominal_ms, schedule.due_ms, schedule.state = row.nominal_ms, row.due_ms, row.state

    def _replan(self, schedule: Record, row: Replanned) -> None:
        self._deadlines.move(schedule, row.new_nominal_ms, self._t)
        schedule.nominal_ms, schedule.due_ms = row.new_nominal_ms, row.new_due_ms

    def _count(self, row: Counted) -> None:
        schedule = self._look(row.id)
        if schedule is not None:
            schedule.state = row.state

    def _quarantine(self, schedule: Record, row: Quarantined) -> None:
        schedule.place, schedule.due_ms = Place.QUARANTINE, row.due_ms
        schedule.note = f"{self._t // 1000} {row.reason}"

    def _advance(self, schedule: Record, row: Advanced) -> None:
        outcome = row.outcome
        if outcome is Outcome.QUARANTINED:
            schedule.place, schedule.note = Place.QUARANTINE, f"{self._t // 1000} {row.why}"
            return
        pushed = [(row.id, row.run)] if outcome.is_pushed else []
        self._deadlines.move(schedule, row.next_nominal_ms, self._t, pushed)
        schedule.nominal_ms, schedule.due_ms = row.next_nominal_ms, row.next_due_ms
        schedule.place = Place.ENDED if row.next_due_ms is None else Place.DUE
        schedule.note = None  # a remaining note of a pause that another writer ended
        if outcome.is_pushed:
            schedule.last = run_id_of(row.id, row.run)
            self._push(schedule, row.run, Outcome.UNCERTAIN.reason if outcome is Outcome.UNCERTAIN else None)

    def _fire(self, row: OneShotsFired) -> None:
        for key in row.at:
            self._open(*key, Outcome.UNCERTAIN.reason if key in row.uncertain else None)

    def _leave(self, row: OneShotsLeft | RunsOver) -> None:
        self._deadlines.leave(row, self._t)
        for key in row.at:
            self._delete(*key)

    def _push_all(self, row: PushedByRule) -> None:
        schedule = self._schedule(row.id)
        if schedule is None:
            self.unknown |= {(row.id, run) for run in row.runs if not row.is_last}
            return
        if row.is_last:
            schedule.last, schedule.t_us = run_id_of(row.id, row.runs[-1]), self._t
        for run in row.runs:
            self._push(schedule, run, None)

    # -- rows of the state ---------------------------------------------------------------------------

    def _schedule(self, id: str) -> Record | None:
        """Return the row of schedule *id* that is not open; None if there is none, and *id* is then unknown."""
        found = self._look(id)
        if found is None:
            self.unknown.add((id, ""))
            if self._is_part:
                return self._take(Record(id, "", Place.DUE, "", None, (), t_us=self._t))
        return found

    def _look(self, id: str) -> Record | None:
        key = self._schedules.get(id)
        if key is not None:
            found = self._rows[key]
            return found if isinstance(found, Record) else self._take(record_in(found))
        row = None if id in self._forgotten else self._db.execute(_SELECT, (self.life, id)).fetchone()
        if row is None or any((row[0], row[1]) in changed for changed in (self._opened, self._deleted, self._rows)):
            return None  # the stored row is stale: its run was pushed, or it is gone
        return self._take(record_in(row))

    def _take(self, row: Record) -> Record:
        self._rows[row.key] = row
        self._schedules[row.id] = row.key
        return row

    def _open(self, id: str, run: str, note: str | None) -> None:
        """Fire a one-shot: its row becomes its run's."""
        key, t = (id, run), self._t
        row = self._look(id) if self._schedules.get(id) == key else None
        if row is not None:
            row.place, row.note, row.t_us = Place.OPEN, note, t
            self._sources[key] = row.n, row.row
            del self._schedules[id]
        else:
            self._opened[key] = note, t

    def _push(self, schedule: Record, run: str, note: str | None) -> None:
        """Fire a recurring schedule: its run gets a row."""
        if self._at <= self.scanned_to:  # the schedule may have been put again between the push and the scan
            if not self._db.execute(_HAS, (self.life, schedule.id, run)).fetchone():
                self.unknown.add((schedule.id, run))
            return
        pushed = Record(schedule.id, run, Place.OPEN, "", nominal_ms_of(run), (), note=note, t_us=self._t)
        pushed.n, pushed.row = schedule.n, schedule.row
        self._rows[pushed.key] = pushed

    def _forget(self, id: str) -> None:
        """Delete the schedule; its open runs stay."""
        if self._deadlines.has_some:
            self._deadlines.forget(id, self._look(id), self._t)
        key = self._schedules.pop(id, None)
        if key is not None:
            del self._rows[key]
        self._forgotten.add(id)

    def _delete(self, id: str, run: str) -> None:
        if self._schedules.get(id) == (id, run):
            del self._schedules[id]
        self._rows.pop((id, run), None)
        self._opened.pop((id, run), None)
        self._deleted.add((id, run))


def touched_ids(rows: Sequence[Row]) -> Sequence[str]:
    """Return the schedules that *rows* concern; without duplicates for some kinds of rows."""
    if len(rows) == 1:
        return list(rows[0].ids())
    return list(dict.fromkeys(id for row in rows for id in row.ids()))


def _changed(change: Callable[[StateWriter, Record, Any], None]) -> Callable[[StateWriter, Any], None]:
    """Return what folds a row by *change* of its schedule."""

    def fold(writer: StateWriter, row: Any) -> None:
        schedule = writer._schedule(row.id)
        if schedule is not None:
            schedule.t_us = writer._t
            change(writer, schedule, row)

    return fold


_FOLDS: Final[dict[type[Row], Callable[[StateWriter, Any], None]]] = {
    OneShotsPut: StateWriter._put,
    Record: StateWriter._place,
    Paused: _changed(StateWriter._pause),
    Resumed: _changed(StateWriter._resume),
    Skips: _changed(StateWriter._skip),
    Replanned: _changed(StateWriter._replan),
    Counted: StateWriter._count,
    Quarantined: _changed(StateWriter._quarantine),
    Advanced: _changed(StateWriter._advance),
    OneShotsFired: StateWriter._fire,
    OneShotsLeft: StateWriter._leave,
    PushedByRule: StateWriter._push_all,
    RunsOver: StateWriter._leave,
    DeadlinesMissed: lambda fold, row: fold._deadlines.log(row.at),
    NamedTexts: lambda fold, row: fold.named_texts.update(row.texts),
    Mentioned: lambda fold, row: None,
}
