"""
Fold: what an entry of the log does to the state, and in a way that is quick for random ids.

The changes of many entries are gathered in memory, then written sorted, in four statements. What was put
and fired in between costs one row. Entries say absolute things ("is paused, due then"), so folding some
again over a later state ends in the same state, which is what a bootstrap does.

An entry may concern a schedule that the state does not have: a bootstrap read one place after it had left
it and another before it came there. Such ids are gathered in ``unknown``, to be read from Redis. So are the
runs that a recurring schedule pushed before it was read: its record may be a later one than theirs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from zsched.archive import live
from zsched.archive.live import DUE, ENDED, OPEN, PAUSED, QUARANTINE, Live, Stored
from zsched.core.entries import (
    Advanced,
    Backfilled,
    Dropped,
    Enqueued,
    Fired,
    PutRecurring,
    Puts,
    Quarantined,
    advanced,
    again,
    ended,
    quarantined,
    released,
    replanned,
    restored,
)
from zsched.core.log import Entry, Position, milliseconds, reading, require_known, text
from zsched.core.run_id import schedule_of

Key = tuple[str, str]  # id, run

_SELECT = f"SELECT {live.COLUMNS} FROM live WHERE life = ? AND id = ? AND place <> 'open'"
_INSERT = f"INSERT OR REPLACE INTO live(life, {live.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OPEN = (
    "UPDATE live SET place = 'open', note = ?1, t = ?2,"
    " sum = live_sum(id, run, 'open', due, nominal, last, ?1, ?2, n, row)"
    " WHERE life = ?3 AND id = ?4 AND run = ?5"
)
_FORGET = "DELETE FROM live WHERE life = ? AND id = ? AND place <> 'open'"
_DELETE = "DELETE FROM live WHERE life = ? AND id = ? AND run = ?"
_HAS = "SELECT 1 FROM live WHERE life = ? AND id = ? AND run = ?"


class Fold:
    """Folds entries into the state *life* of *db*. Nothing is written before ``flush``."""

    def __init__(self, db: sqlite3.Connection, life: int, run_suffix: str) -> None:
        db.create_function("live_sum", 10, live.checksum, deterministic=True)
        self._db, self.life, self._suffix = db, life, run_suffix
        self.unknown: set[Key] = set()  # a schedule by (id, ''), a run by both
        self.dropped: Dropped = []  # malformed ids of the last entry
        self._at = self._scanned_to = (-1, -1)  # the entry that is folded; the last that a scanned schedule has in it
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[Key, Live | Stored] = {}  # as they will be
        self._schedules: dict[str, Key] = {}  # of those in _rows: the one that is not open
        self._opened: dict[Key, tuple[str | None, int]] = {}  # rows in the file that become open: note, t
        self._forgotten: set[str] = set()  # schedules in the file that are no more
        self._deleted: set[Key] = set()

    def add(self, n: int, entry: Entry) -> list[str]:
        """
        Take in *entry*, number *n* of the history; the ids that it concerns.

        Raises:
            UnknownEntry: it cannot be read, or not to its end.
        """
        folds = _FOLDS.get(entry.kind)
        if folds is None:
            require_known(entry)
            return []
        self._at = entry.position.order
        self.dropped.clear()
        with reading(entry):
            return folds(self, n, entry)

    def found(self, row: Live, at: Position) -> None:
        """Take in what a bootstrap read from Redis when its log ended with *at*."""
        if row.place != OPEN:
            self._scanned_to = max(self._scanned_to, at.order)
            self._forget(row.id)
            self._schedules[row.id] = row.key
        self._rows[row.key] = row

    def flush(self) -> None:
        """Write what was taken in. In the caller's transaction."""
        life, db = self.life, self._db
        if self._opened:
            rows = sorted((life, id, run, note, t) for (id, run), (note, t) in self._opened.items())
            done = db.executemany(_OPEN, [(note, t, life, id, run) for life, id, run, note, t in rows]).rowcount
            if done < len(rows):
                self.unknown |= {key for key in self._opened if not db.execute(_HAS, (life, *key)).fetchone()}
        if self._forgotten:
            db.executemany(_FORGET, [(life, id) for id in sorted(self._forgotten)])
        if self._deleted:
            db.executemany(_DELETE, [(life, *key) for key in sorted(self._deleted)])
        if self._rows:
            stored = (row.stored() if isinstance(row, Live) else row for row in self._rows.values())
            db.executemany(_INSERT, sorted((life, *row) for row in stored))
        self._clear()

    # -- kinds ------------------------------------------------------------------------------------

    def _put(self, n: int, entry: Entry) -> list[str]:
        puts, t, suffix = Puts.of(entry), entry.position.t_us, self._suffix
        rows, schedules, replaced = self._rows, self._schedules, puts.replaced
        shared = live.shared_sum(DUE, None, None, None, t, n)
        for row, (id, due_ms) in enumerate(zip(puts.ids, puts.dues, strict=True)):
            run = f"{due_ms}{suffix}"
            note = self._note_of(id) if id in puts.paused else None
            if id in replaced:
                self._forget(id)
            if id in puts.paused:
                self._take(Live(id, run, PAUSED, due_ms, None, None, note, t, n, row))
            else:
                key = schedules[id] = (id, run)
                rows[key] = live.waiting(id, run, due_ms, t, n, row, shared)
        return puts.ids

    def _put_recurring(self, n: int, entry: Entry) -> list[str]:
        put = PutRecurring.of(entry)
        fields = {name: text(value) for name, value in put.schedule.items()}
        place, note = (DUE if put.due_ms is not None else ENDED), None
        if put.is_paused:
            place, note = PAUSED, self._note_of(put.id)
        nominal_ms = milliseconds(fields.get("nominal"))
        self._forget(put.id)
        last, t = fields.get("last"), entry.position.t_us
        self._take(Live(put.id, "", place, put.due_ms, nominal_ms, last, note, t, n, 0))
        return [put.id]

    def _enqueue(self, n: int, entry: Entry) -> list[str]:
        enqueued = Enqueued.of(entry)
        run_id = enqueued.run_id
        id = schedule_of(run_id)
        run = run_id[len(id) + 1 :]
        nominal_ms = milliseconds(run.partition("-")[0])
        if enqueued.retry_of is None:  # one that is retried leaves the schedule of its id alone
            self._forget(id)
        self._rows[id, run] = Live(id, run, OPEN, nominal_ms, None, None, None, entry.position.t_us, n, 0)
        return [id]

    def _run_now(self, n: int, entry: Entry) -> list[str]:
        fields = entry.fields()
        id, run_id, t = text(fields[b"id"]), text(fields[b"run"]), entry.position.t_us
        if fields[b"last"] == b"1":
            schedule = self._schedule(id)
            if schedule is not None:
                schedule.last, schedule.t = run_id, t
                self._push(schedule, run_id, None, t)
        else:
            self._open(id, run_id[len(id) + 1 :], None, t)
        return [id]

    def _backfill(self, n: int, entry: Entry) -> list[str]:
        id, run_ids = Backfilled.of(entry)
        schedule = self._schedule(id)
        if schedule is None:
            self.unknown |= {(id, run_id[len(id) + 1 :]) for run_id in run_ids}
        else:
            for run_id in run_ids:
                self._push(schedule, run_id, None, entry.position.t_us)
        return [id]

    def _fire(self, n: int, entry: Entry) -> list[str]:
        fired, t = Fired.of(entry, self.dropped), entry.position.t_us
        for key in fired.runs:
            self._open(*key, "uncertain" if key in fired.uncertain else None, t)
        gone = [*fired.skipped, *fired.expired, *(key for key, _ in fired.cancelled)]
        for key in gone:
            self._delete(*key)
        return [id for id, _ in (*fired.runs, *gone)] + self._set_quarantined(fired.quarantined, t)

    def _advance(self, n: int, entry: Entry) -> list[str]:
        rows = list(advanced(entry, self.dropped))
        for row in rows:
            schedule = self._schedule(row.id)
            if schedule is None:
                continue
            schedule.t = entry.position.t_us
            if row.word == "quarantined":
                schedule.place, schedule.note = QUARANTINE, f"{schedule.t // 1000} {row.why}"
            else:
                self._move(schedule, row)
        return [row.id for row in rows]

    def _move(self, schedule: Live, row: Advanced) -> None:
        run_id = f"{row.id}-{row.nominal_ms}{self._suffix}"
        schedule.nominal, schedule.due = row.next_nominal_ms, row.next_due_ms
        schedule.place = ENDED if row.next_due_ms is None else DUE
        schedule.note = None  # of a pause that a foreign hand ended
        if row.is_pushed:
            schedule.last = run_id
            self._push(schedule, run_id, "uncertain" if row.word == "uncertain" else None, schedule.t)

    def _quarantine(self, n: int, entry: Entry) -> list[str]:
        return self._set_quarantined(quarantined(entry.fields()[b"rows"], self.dropped), entry.position.t_us)

    def _cancel(self, n: int, entry: Entry) -> list[str]:
        id = text(entry.fields()[b"id"])
        self._forget(id)
        return [id]

    def _pause(self, n: int, entry: Entry) -> list[str]:
        fields = entry.fields()
        id, due_ms, note = text(fields[b"id"]), milliseconds(fields[b"due"]), text(fields[b"note"])
        schedule = self._schedule(id)
        if schedule is not None:
            since = schedule.note if schedule.place == PAUSED and schedule.note else str(entry.position.t_us // 1000)
            schedule.place, schedule.t = PAUSED, entry.position.t_us
            schedule.note, schedule.due = f"{since.partition(' ')[0]} {note}", due_ms
        return [id]

    def _resume(self, n: int, entry: Entry) -> list[str]:
        fields = entry.fields()
        id, due_ms = text(fields[b"id"]), milliseconds(fields[b"due"])
        schedule = self._schedule(id)
        if schedule is None:
            return [id]
        if b"count" in fields and schedule.run:
            self._forget(id)  # a one-shot whose time passed in the pause
            return [id]
        schedule.place, schedule.note, schedule.due = (DUE if due_ms is not None else ENDED), None, due_ms
        schedule.t = entry.position.t_us
        if b"count" in fields:  # a log of before there was jitter says when it is due alone
            schedule.nominal = milliseconds(fields.get(b"nominal")) or due_ms
        return [id]

    def _replan(self, n: int, entry: Entry) -> list[str]:
        rows = list(replanned(entry, self.dropped))
        for row in rows:
            schedule = self._schedule(row.id)
            if schedule is not None:
                schedule.nominal, schedule.due = row.new_nominal_ms, row.new_due_ms
                schedule.t = entry.position.t_us
        return [row.id for row in rows]

    def _end(self, n: int, entry: Entry) -> list[str]:
        touched = []
        for row in ended(entry, self.dropped):
            id = schedule_of(row.run_id)
            touched.append(id)
            self._delete(id, row.run_id[len(id) + 1 :])
        return touched

    def _again(self, n: int, entry: Entry) -> list[str]:
        return [schedule_of(row.run_id) for row in again(entry, self.dropped)]

    def _unblock(self, n: int, entry: Entry) -> list[str]:
        return [schedule_of(row.run_id) for row in released(entry, self.dropped)]

    def _restore(self, n: int, entry: Entry) -> list[str]:
        rows = [row for _, row in restored(entry)]
        for number, row in enumerate(rows):
            if row.is_schedule:
                self._forget(row.id)
            own = dict(zip(row.own[::2], row.own[1::2], strict=True))
            last = own.get(b"last")
            place = row.place, row.due_ms, milliseconds(own.get(b"nominal")), text(last) if last else None, row.note
            if row.place in (OPEN, "held"):
                self._rows[row.id, row.run] = Live(
                    row.id, row.run, OPEN, row.due_ms, None, None, "uncertain", row.t_us, n, number
                )
            elif not row.is_schedule:  # it was open, and is not pushed again
                self._delete(row.id, row.run)
            elif row.place != "gone":
                self._take(Live(row.id, row.run, *place, row.t_us, n, number))
        return [row.id for row in rows]

    # -- rows -------------------------------------------------------------------------------------

    def _schedule(self, id: str) -> Live | None:
        """The row of schedule *id* that is not open; None, and it is unknown, when there is none."""
        found = self._look(id)
        if found is None:
            self.unknown.add((id, ""))
        return found

    def _look(self, id: str) -> Live | None:
        key = self._schedules.get(id)
        if key is not None:
            found = self._rows[key]
            return found if isinstance(found, Live) else self._take(Live.of(found))
        row = None if id in self._forgotten else self._db.execute(_SELECT, (self.life, id)).fetchone()
        if row is None or (row[0], row[1]) in self._opened or (row[0], row[1]) in self._deleted:
            return None
        return self._take(Live.of(row))

    def _take(self, row: Live) -> Live:
        self._rows[row.key] = row
        self._schedules[row.id] = row.key
        return row

    def _note_of(self, id: str) -> str | None:
        found = self._look(id)
        return found.note if found else None

    def _open(self, id: str, run: str, note: str | None, t: int) -> None:
        """A one-shot fires: its row becomes that of its run."""
        key = (id, run)
        row = self._look(id) if self._schedules.get(id) == key else None
        if row is not None:
            row.place, row.note, row.t = OPEN, note, t
            del self._schedules[id]
        else:
            self._opened[key] = note, t

    def _push(self, schedule: Live, run_id: str, note: str | None, t: int) -> None:
        """A recurring schedule fires: a row for its run."""
        run = run_id[len(schedule.id) + 1 :]
        if self._at <= self._scanned_to:  # the schedule may have been put again between the push and the scan
            if not self._db.execute(_HAS, (self.life, schedule.id, run)).fetchone():
                self.unknown.add((schedule.id, run))
            return
        nominal_ms = milliseconds(run.partition("-")[0])
        pushed = Live(schedule.id, run, OPEN, nominal_ms, None, None, note, t, schedule.n, schedule.row)
        self._rows[pushed.key] = pushed

    def _forget(self, id: str) -> None:
        """The schedule is no more, its open runs stay."""
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

    def _set_quarantined(self, bad: Iterable[Quarantined], t: int) -> list[str]:
        touched = []
        for row in bad:
            touched.append(row.id)
            schedule = self._schedule(row.id)
            if schedule is not None:
                schedule.place, schedule.due = QUARANTINE, row.due_ms
                schedule.note, schedule.t = f"{t // 1000} {row.reason}", t
        return touched


_FOLDS: dict[str, Callable[[Fold, int, Entry], list[str]]] = {
    "put": Fold._put,
    "put_recurring": Fold._put_recurring,
    "enqueue": Fold._enqueue,
    "run_now": Fold._run_now,
    "backfill": Fold._backfill,
    "fire": Fold._fire,
    "advance": Fold._advance,
    "quarantine": Fold._quarantine,
    "cancel": Fold._cancel,
    "pause": Fold._pause,
    "resume": Fold._resume,
    "replan": Fold._replan,
    "end": Fold._end,
    "again": Fold._again,
    "unblock": Fold._unblock,
    "restore": Fold._restore,
}
