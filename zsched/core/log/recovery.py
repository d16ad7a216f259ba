"""Entries of recoveries: ``restore`` and ``merged``; and ``scan``, only in archives: content read from Redis."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from zsched.core.entry import Entry, Position, expect, reading, text
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Forgotten, Key, Placed, Row, RunPushed, RunsOver, Touch
from zsched.core.occurrences.changes import RUN_OVER, Change
from zsched.core.occurrences.outcomes import What
from zsched.core.record import ROW_HEAD, Place, Record, rows_in

# The change and reason of a row by its place. Rows of other places restore a schedule.
_RESTORED: Final = {
    Place.OPEN: (What.PUSHED_AGAIN, "uncertain"),
    Place.SKIPPED: (What.SKIPPED, "uncertain"),
    Place.HELD: (What.HELD, "uncertain"),
    Place.REFUSED: (What.QUARANTINED, "it was not over when Redis lost it, and cannot be pushed: its queue is broken"),
    Place.GONE: (What.WITHDRAWN, ""),
    Place.OVER: (What.WITHDRAWN, RUN_OVER),
    Place.AGAIN: (What.RAN_AGAIN, "uncertain"),
}


def change_of(row: Record, number: int = 0) -> Row:
    """Return the change to the state by *row* of a restore; *number* is the row's in its entry."""
    id, run, t_us = row.id, row.run, row.t_us
    if row.is_open:
        return RunPushed(id, run, row.due_ms, "uncertain", number, t_us=t_us)
    if not row.is_schedule:  # an open run that is not pushed again
        return RunsOver([(id, run)], t_us=t_us)
    if row.place == Place.GONE:
        return Forgotten(id, run, t_us=t_us)
    place = row.place, row.due_ms, row.nominal_ms, row.last, row.note
    return Placed(id, run, *place, number=number, state=row.state, t_us=t_us)


def touches_of(row: Record) -> Iterator[Touch]:
    """Yield the keys that *row* of a restore changes, with the time of the change that it repeats."""
    return change_of(row).touches(row.t_us)


class RestoreEntry(ParsedEntry, kind="restore"):
    """An archive restored losses of Redis, or corrected errors that an audit or another archive found."""

    whats = frozenset({What.RESTORED, *(what for what, _ in _RESTORED.values())})
    has_records = True

    @property
    def reason(self) -> str:
        """The reason: lost, audit or corrected; '' if another writer broke the entry."""
        return text(self.entry.body[1]) if len(self.entry.body) > 1 else ""

    @property
    def archive(self) -> str:
        """The id of the archive that restored; '' if another writer broke the entry."""
        return text(self.entry.body[3]) if len(self.entry.body) > 3 else ""

    @once
    def restored(self) -> list[tuple[int, Record]]:
        """Return each row, with the place in the body where it begins."""
        return list(self._rows())

    def _rows(self, places: Container[str] | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the same; only rows with one of *places*, if given."""
        body = self.entry.body
        expect(body[0] == b"reason" and body[2] == b"archive" and body[4] == b"rows" and body[-2] == b"format")
        return rows_in(body[:-2], 6, places)

    def rows(self) -> Iterable[Row]:
        return [change_of(row, number) for number, (_, row) in enumerate(self.restored)]

    def changes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self.restored)

    def outcomes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self._rows(_RESTORED))

    def _changes_of(self, rows: Iterable[Record]) -> Iterator[Change]:
        for row in rows:
            what, why = _RESTORED.get(row.place, (What.RESTORED, self.reason))
            yield self._change(row.id, what, run_id=row.run_id, nominal_ms=row.due_ms, why=why or self.reason)

    def counts(self) -> Counts:
        counts = super().counts()
        counts.happened[What.RESTORED, ""] = int(self.entry.body[5]) - counts.happened.total()
        return counts

    def record_of(self, number: int) -> Record:
        return self.restored[number][1]

    def owners(self) -> Sequence[Key]:
        return [(row.id, row.run) for _, row in self.restored]

    def has_schedule(self, number: int) -> bool:
        row = self.restored[number][1]
        return row.is_schedule and row.place != Place.GONE

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_of((at + ROW_HEAD, row.job) for at, row in self.restored)


class MergedEntry(ParsedEntry, kind="merged"):
    """Redis has everything that an archive knows."""

    def positions(self) -> list[Position]:
        """Return the ends of the histories that are complete at this entry. Raises UnknownEntry."""
        with reading(self.entry):
            return [Position.parse(f"{id} {t_us}") for id, t_us, _ in self._stored()]

    def sentence(self) -> str:
        return f"all that archive {self._shown(b'archive')} knows is in Redis"


class ScanEntry(ParsedEntry, kind="scan"):
    """Content of Redis, read by a bootstrap. It is not an entry of the log, so it has no seq."""

    whats = frozenset({What.FOUND})
    is_logged = False
    has_records = True

    @classmethod
    def entry_of(cls, records: Iterable[Record], at: Position) -> Entry:
        """Return the entry of *records*, read when the log ended with *at*."""
        return Entry(at._replace(seq=0), cls.kind, [each for record in records for each in record.to_keep().texts()])

    @once
    def found(self) -> list[tuple[int, Record]]:
        """Return the records that the bootstrap found, each with its place in the body."""
        return list(rows_in(self.entry.body, 0))

    def changes(self) -> Iterator[Change]:
        for _, row in self.found:
            yield self._change(row.id, What.FOUND, run_id=row.run_id, nominal_ms=row.due_ms, why=row.place)

    def told(self) -> Iterator[Change]:
        return (change for change in self.changes() if change.why == Place.OPEN)

    def record_of(self, number: int) -> Record:
        return self.found[number][1]

    def owners(self) -> Sequence[Key]:
        return [(row.id, row.run) for _, row in self.found]

    def has_schedule(self, number: int) -> bool:
        return self.found[number][1].is_schedule

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_of((at + ROW_HEAD, row.job) for at, row in self.found)


def restored(entry: Entry) -> list[Record]:
    """Return the rows that a ``restore`` entry put back. Raises UnknownEntry."""
    with reading(entry):
        return [row for _, row in RestoreEntry(entry).restored]
