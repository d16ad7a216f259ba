"""Entries of recoveries: ``restore`` and ``merged``; and ``scan``, only in archives: content read from Redis."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from typing import Final

from zsched.core.entry import Entry, Position, expect, reading, text
from zsched.core.log.kinds import Counts, ParsedEntry, RecordsEntry, once
from zsched.core.occurrences.changes import RUN_OVER, Change
from zsched.core.occurrences.outcomes import What
from zsched.core.record import Place, Portion, Record, records_in, shapes_in

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


class RestoreEntry(RecordsEntry, kind="restore"):
    """An archive restored losses of Redis, or corrected errors that an audit or another archive found."""

    whats = frozenset({What.RESTORED, *(what for what, _ in _RESTORED.values())})
    is_restored = True

    @property
    def reason(self) -> str:
        """The reason: lost, audit or corrected; '' if another writer broke the entry."""
        return text(self.entry.body[1]) if len(self.entry.body) > 1 else ""

    @property
    def archive(self) -> str:
        """The id of the archive that restored; '' if another writer broke the entry."""
        return text(self.entry.body[3]) if len(self.entry.body) > 3 else ""

    @once
    def found(self) -> list[tuple[int, Record]]:
        """Return the records, each with the place of its job in the body."""
        return list(self._found())

    def _found(self, places: Container[str] | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the same; only records with one of *places*, if given."""
        body = self.entry.body
        expect(body[0] == b"reason" and body[2] == b"archive" and body[-2] == b"format")
        return records_in(body[:-2], 4, places)

    def rows(self) -> Iterator[Record]:
        for row in super().rows():
            yield replace(row, place=Place.OPEN, note="uncertain") if row.is_open else row

    def changes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self.found)

    def outcomes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self._found(_RESTORED))

    def _changes_of(self, rows: Iterable[Record]) -> Iterator[Change]:
        for row in rows:
            what, why = _RESTORED.get(row.place, (What.RESTORED, self.reason))
            yield self._change(row.id, what, run_id=row.run_id, nominal_ms=row.due_ms, why=why or self.reason)

    def counts(self) -> Counts:
        counts, body = super().counts(), self.entry.body
        rows = int(body[shapes_in(body, 4)[1] + 1])
        counts.happened[What.RESTORED, ""] = rows - counts.happened.total()
        return counts


class MergedEntry(ParsedEntry, kind="merged"):
    """Redis has everything that an archive knows."""

    def positions(self) -> list[Position]:
        """Return the ends of the histories that are complete at this entry. Raises UnknownEntry."""
        with reading(self.entry):
            return [Position.parse(f"{id} {t_us}") for id, t_us, _ in self._stored()]

    def sentence(self) -> str:
        return f"all that archive {self._shown(b'archive')} knows is in Redis"


class ScanEntry(RecordsEntry, kind="scan"):
    """Content of Redis, read by a bootstrap. It is not an entry of the log, so it has no seq."""

    whats = frozenset({What.FOUND})
    is_logged = False

    @classmethod
    def entry_of(cls, records: Iterable[Record], at: Position) -> Entry:
        """Return the entry of *records*, read when the log ended with *at*."""
        return Entry(at._replace(seq=0), cls.kind, Portion(record.to_keep() for record in records).texts)

    @once
    def found(self) -> list[tuple[int, Record]]:
        """Return the records that the bootstrap found."""
        return list(records_in(self.entry.body, 0))

    def rows(self) -> Iterable[Record]:
        return ()  # the state has them already

    def changes(self) -> Iterator[Change]:
        for _, row in self.found:
            yield self._change(row.id, What.FOUND, run_id=row.run_id, nominal_ms=row.due_ms, why=row.place)

    def searched(self) -> Iterator[Change]:
        return (change for change in self.changes() if change.why == Place.OPEN)


def restored(entry: Entry) -> list[Record]:
    """Return the rows that a ``restore`` entry restored. Raises UnknownEntry."""
    with reading(entry):
        return [row for _, row in RestoreEntry(entry).found]
