"""
Deadlines of a state: which occurrences have to have succeeded by when, until one succeeds or its deadline is logged.

A recurring schedule with ``done_by`` has a row with run '' and without a time. Each occurrence of a schedule that
waits, is open, or failed has a row with its deadline; the run is the one that it has or would have. So a fire changes
nothing here. An occurrence that is left out, cancelled or paused before its deadline has none any more; after it, the
deadline was missed nevertheless. An occurrence whose deadline had passed when it came into this state gets no row:
another archive has logged it, or it was put too late.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from zsched.archive import live
from zsched.archive.history import History
from zsched.core.entry import text
from zsched.core.log.rows import OneShotsLeft, OneShotsPut, RunsOver
from zsched.core.record import Key, Place, Record
from zsched.core.runs.run import RunStatus, ended_run
from zsched.core.runs.run_id import RunKey, nominal_ms_of, run_id_of
from zsched.core.triggers.trigger import deadlines
from zsched.errors import InvalidSchedule

# A schedule's option, its zone, and the place of its record: the number of an entry, and the row.
DoneBy = tuple[str, str, int, int]
_DONE_BY: Final = b"zs_done_by"
_EXPECTED: Final = frozenset({Place.DUE, Place.PAUSED, Place.QUARANTINE, Place.OPEN})  # with an occurrence
_RERUN: Final = re.compile(r"-r\d+$")  # of an extra run, behind the run that it repeats
_OF: Final = "FROM deadline WHERE life = ? AND id = ? AND run = ?"
_OPTION: Final = (
    "SELECT done_by, tz, n, row FROM deadline WHERE life = ? AND id = ? AND run IN ('', ?) ORDER BY run LIMIT 1"
)
_SUSPEND: Final = "UPDATE deadline SET at = NULL WHERE life = ? AND id = ? AND run = ? AND at > ?"
_EXPECT: Final = "INSERT OR IGNORE INTO deadline VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class OpenDeadline(NamedTuple):
    """A deadline of an occurrence of schedule *id* in zone *tz*. ``run_id``: the run that it has or would have."""

    id: str
    run_id: str
    nominal_ms: int
    at_ms: int
    tz: str


def deadlines_of(history: History, since_ms: int, until_ms: int, most: int) -> list[OpenDeadline]:
    """Return the first *most* deadlines from *since_ms* to *until_ms* that are not settled."""
    query = "SELECT id, run, at / 1000, tz FROM deadline WHERE life = ? AND at >= ? AND at <= ? ORDER BY at LIMIT ?"
    rows = history.db.execute(query, (history.life, since_ms * 1000, until_ms * 1000, most))
    return [OpenDeadline(id, run_id_of(id, run), nominal_ms_of(run) or 0, at_ms, tz) for id, run, at_ms, tz in rows]


def carry(db: sqlite3.Connection, life: int) -> None:
    """Copy the deadlines of state *life* into the next one, which a bootstrap builds: Redis does not have all of it."""
    kept = "id, run, at, done_by, tz, n, row FROM deadline WHERE life = ? AND at > 0"
    db.execute(f"INSERT INTO deadline SELECT life + 1, {kept}", (life,))


def end_state(db: sqlite3.Connection, life: int, last_n: int, run_suffix: str) -> None:
    """
    Delete state *life*, whose last entry is *last_n*, after a bootstrap of the next one; and there deadlines that it
    does not know better: of occurrences that waited or ran before and do not any more; and of those that were settled
    before, which the log of a Redis that went back still has.
    """
    is_live = (
        "EXISTS (SELECT 1 FROM live WHERE live.life = ?{} AND live.id = deadline.id"
        " AND (live.run = deadline.run OR live.run = '' AND live.nominal || ?3 = deadline.run))"
    )
    before = "SELECT 1 FROM deadline AS old WHERE old.life = ?1 AND old.id = deadline.id AND old.run = deadline.run"
    waited = "SELECT nominal FROM live WHERE live.life = ?1 AND live.id = deadline.id AND live.run = ''"
    is_old = f"CASE WHEN EXISTS ({waited}) THEN CAST(run AS INTEGER) <= ({waited}) ELSE n <= ?4 END"
    wrong = f"{is_live.format(1)} AND NOT {is_live.format(2)} OR NOT EXISTS ({before}) AND {is_old}"
    parameters = (life, life + 1, run_suffix, last_n)
    db.execute(f"DELETE FROM deadline WHERE life = ?2 AND at > 0 AND ({wrong})", parameters)
    live.delete_states(db, "life <= ?", life)


class DeadlineWriter:
    """Writes the deadlines of the state *life* of *db*, in the caller's transaction."""

    def __init__(self, db: sqlite3.Connection, life: int, run_suffix: str) -> None:
        self._db, self._life, self._suffix = db, life, run_suffix
        query = "SELECT EXISTS (SELECT 1 FROM deadline WHERE life = ?)"
        self.has_some = bool(db.execute(query, (life,)).fetchone()[0])  # most namespaces have none: nothing to look for

    def put_all(self, put: OneShotsPut, n: int, t_us: int) -> None:
        """Add the one-shots of *put*, in entry *n*, that are not paused."""
        if _DONE_BY in put.shape.job:
            put.shape.n = n
            self.put(put.shape, t_us, [key for key in put.runs() if key[0] not in put.paused])

    def put(self, record: Record, t_us: int, keys: Iterable[RunKey] | None = None) -> None:
        """
        Add the new schedule or open run of *record* if it has the option; or the one-shots *keys* of this shape. Quick
        for records without the option.
        """
        if _DONE_BY not in record.job and (record.shape is None or _DONE_BY not in record.shape.job):
            return
        job, own = record.job_fields(), record.own_fields()
        zone = own.get(b"tz") or job.get(b"zs_tz") or b"UTC"
        option = text(job[_DONE_BY]), text(zone), record.n, record.row
        if record.is_schedule and not record.run and record.id:
            self._db.execute(_EXPECT, (self._life, record.id, "", None, *option))
            self.has_some = True
        found = self._key_of(record, record.nominal_ms) if record.place in _EXPECTED else []
        self._expect(found if keys is None else keys, option, t_us, is_paused=record.place is Place.PAUSED)

    def move(self, schedule: Record, nominal_ms: int | None, t_us: int, pushed: Sequence[RunKey] = ()) -> None:
        """
        Let *schedule* wait for the occurrence of *nominal_ms*, instead of the one before, which is among the *pushed*
        runs or left out.
        """
        if self.has_some:
            before = self._key_of(schedule, schedule.nominal_ms)
            found = self._db.execute(_OPTION, (self._life, *(before or [schedule.key])[0])).fetchone()
            self.let_go((key for key in before if key not in pushed), t_us)
            if found is not None:
                keys = [*pushed, *self._key_of(schedule, nominal_ms)]
                self._expect(keys, found, t_us, is_paused=schedule.place is Place.PAUSED)

    def pause(self, schedule: Record, t_us: int) -> None:
        """Suspend the deadline of the waiting occurrence, unless it had passed."""
        for key in self._key_of(schedule, schedule.nominal_ms):
            self._db.execute(_SUSPEND, (self._life, *key, t_us))

    def forget(self, id: str, schedule: Record | None, t_us: int) -> None:
        """Delete the schedule with *id*, and its waiting occurrence."""
        waiting = [] if schedule is None else self._key_of(schedule, schedule.nominal_ms)
        self.let_go([(id, ""), *waiting], t_us)

    def let_go(self, keys: Iterable[Key], t_us: int) -> None:
        """Delete occurrences that need no run since *t_us*, or will have none, unless their deadlines had passed."""
        if self.has_some:
            query = f"DELETE {_OF} AND (at > ? OR at IS NULL)"
            self._db.executemany(query, [(self._life, *key, t_us) for key in keys])

    def leave(self, row: OneShotsLeft | RunsOver, t_us: int) -> None:
        """Delete the occurrences of runs that succeeded in time, by their workers' clocks, or will not run."""
        if isinstance(row, OneShotsLeft):
            self.let_go(row.at, t_us)
            return
        for (id, run), (status, facts) in zip(row.at, row.ended, strict=True) if self.has_some else ():
            if status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED):
                ended_ms = ended_run(run_id_of(id, run), status, facts, t_us // 1000).ended_ms
                until_us = t_us if ended_ms is None else min(ended_ms * 1000 - 1, t_us)
                self.let_go([(id, _RERUN.sub("", run))], until_us)

    def log(self, keys: Iterable[RunKey]) -> None:
        """Delete occurrences whose deadlines were logged."""
        self._db.executemany(f"DELETE {_OF}", [(self._life, *key) for key in keys])

    def source(self, id: str, nominal_ms: int | None) -> tuple[int, int] | None:
        """Return the place of the record of an occurrence."""
        query, run = f"SELECT n, row {_OF}", f"{nominal_ms}{self._suffix}"
        return cast("tuple[int, int] | None", self._db.execute(query, (self._life, id, run)).fetchone())

    def _expect(self, keys: Iterable[RunKey], option: DoneBy, t_us: int, *, is_paused: bool) -> None:
        with suppress(InvalidSchedule, ValueError):  # a text of another program, or a zone that this machine lacks
            deadline_ms, life = deadlines(option[0], option[1]), self._life
            found = [(id, run, deadline_ms(nominal_ms_of(run) or 0) * 1000) for id, run in keys]
            rows = [(life, *key, None if is_paused else at, *option) for *key, at in found if at > t_us]
            self.has_some = self.has_some or bool(rows)
            self._db.executemany(_EXPECT, rows)

    def _key_of(self, record: Record, nominal_ms: int | None) -> list[RunKey]:
        """Return the key of the occurrence of a run, of a one-shot, or of *nominal_ms* of a recurring schedule."""
        run = record.run or ("" if nominal_ms is None else f"{nominal_ms}{self._suffix}")
        return [(record.id, run)] if run and not _RERUN.search(run) else []
