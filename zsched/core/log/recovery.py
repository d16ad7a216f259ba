"""Entries of recoveries: ``restore`` and ``merged``; and ``scan``, only in archives: content read from Redis."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from zsched.core.changes import RUN_OVER, Change
from zsched.core.entry import OWN, Entry, Position, Texts, any_milliseconds, expect, milliseconds, reading, text
from zsched.core.log.kinds import Counts, Given, ParsedEntry, once
from zsched.core.log.rows import Forgotten, Key, Placed, Row, RunPushed, RunsOver, Touch
from zsched.core.outcomes import What
from zsched.core.run_id import run_id_of

if TYPE_CHECKING:
    from zsched.core.difference import Held

_RUN_PLACES = ("open", "skipped", "held", "refused", "over", "again")
_RESTORED_HEAD: Final = 8  # texts before the pairs of a row
_SCANNED_HEAD: Final = 6  # texts before a scanned row's record
# The change and reason of a row by its place. Rows of other places restore a schedule.
_RESTORED = {
    "open": (What.PUSHED_AGAIN, "uncertain"),
    "skipped": (What.SKIPPED, "uncertain"),
    "held": (What.HELD, "uncertain"),
    "refused": (What.QUARANTINED, "it was not over when Redis lost it, and cannot be pushed: its queue is broken"),
    "gone": (What.WITHDRAWN, ""),
    "over": (What.WITHDRAWN, RUN_OVER),
    "again": (What.RAN_AGAIN, "uncertain"),
}
_OUTCOMES = frozenset(place.encode() for place in _RESTORED)


class Restored(NamedTuple):
    """
    One row of a ``restore`` entry; see restore.lua. A schedule and its place, or a run: ``open`` (pushed again),
    ``skipped``, ``held`` (RQ has it already), ``refused``; or one that was over, and that RQ has once more: ``over``
    (taken out of its queue, or ended as it was), ``again`` (it ran, or will run). ``t_us``: its last change in the lost
    history.
    """

    id: str
    run: str
    place: str
    lane: str
    due_ms: int | None
    t_us: int
    note: str | None
    job: Texts  # of the job, or of the template of runs
    own: Texts  # of a recurring schedule

    @property
    def run_id(self) -> str | None:
        """The id of the row's run, or of its one-shot; None for a recurring schedule."""
        return run_id_of(self.id, self.run) if self.run else None

    @property
    def is_schedule(self) -> bool:
        """True if the row restores a schedule; else it is a row of a run."""
        return self.place not in _RUN_PLACES

    @property
    def is_open(self) -> bool:
        """True if the row is of an open run, pushed again or held by RQ."""
        return self.place in ("open", "held")

    def texts(self) -> list[bytes]:
        """Return the row's texts, in the entry and for restore.lua."""
        due = b"-" if self.due_ms is None else b"%d" % self.due_ms
        head = [self.id.encode(), self.run.encode(), self.place.encode(), self.lane.encode(), due, b"%d" % self.t_us]
        sizes = b"%d %d" % (len(self.job), len(self.own))
        return [*head, (self.note or "").encode(), sizes, *self.job, *self.own]

    def change(self, number: int = 0) -> Row:
        """Return the change to the state; *number* is the row's in its entry."""
        id, run, t_us = self.id, self.run, self.t_us
        if self.is_open:
            return RunPushed(id, run, self.due_ms, "uncertain", number, t_us=t_us)
        if not self.is_schedule:  # an open run that is not pushed again
            return RunsOver([(id, run)], t_us=t_us)
        if self.place == "gone":
            return Forgotten(id, run, t_us=t_us)
        own = dict(zip(self.own[::2], self.own[1::2], strict=True))
        nominal_ms, last = milliseconds(own.get(b"nominal")), own.get(b"last")
        place = self.place, self.due_ms, nominal_ms, text(last) if last else None, self.note
        return Placed(id, run, *place, number=number, t_us=t_us)

    def touches(self) -> Iterator[Touch]:
        """Yield the keys that it changes, with the time of the change that it repeats."""
        return self.change().touches(self.t_us)


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
    def restored(self) -> list[tuple[int, Restored]]:
        """Return each row, with the place in the body where it begins."""
        return list(self._rows())

    def _rows(self, places: Container[bytes] | None = None) -> Iterator[tuple[int, Restored]]:
        """Yield the same; only rows with one of *places*, if given."""
        body = self.entry.body
        expect(body[0] == b"reason" and body[2] == b"archive" and body[4] == b"rows")
        at = 6
        for _ in range(int(body[5])):
            first = at + _RESTORED_HEAD
            sizes = body[first - 1].partition(b" ")
            first_own = first + int(sizes[0])
            after = first_own + int(sizes[2])
            expect(len(body) >= after)
            if places is None or body[at + 2] in places:
                id, run, place, lane, due, t_us, note = (text(each) for each in body[at : first - 1])
                due_ms = any_milliseconds(due)
                job, own = body[first:first_own], body[first_own:after]
                yield at, Restored(id, run, place, lane, due_ms, int(t_us), note or None, job, own)
            at = after

    def rows(self) -> Iterable[Row]:
        return [row.change(number) for number, (_, row) in enumerate(self.restored)]

    def changes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self.restored)

    def outcomes(self) -> Iterator[Change]:
        return self._changes_of(row for _, row in self._rows(_OUTCOMES))

    def _changes_of(self, rows: Iterable[Restored]) -> Iterator[Change]:
        for row in rows:
            what, why = _RESTORED.get(row.place, (What.RESTORED, self.reason))
            yield self._change(row.id, what, run_id=row.run_id, nominal_ms=row.due_ms, why=why or self.reason)

    def counts(self) -> Counts:
        counts = super().counts()
        counts.happened[What.RESTORED, ""] = int(self.entry.body[5]) - counts.happened.total()
        return counts

    def record_of(self, number: int) -> Given:
        row = self.restored[number][1]
        pairs = zip(row.own[::2], row.own[1::2], strict=True)
        own = [each for name, value in pairs for each in (OWN.encode() + name, value)]
        return row.lane, [*row.job, *own]

    def owners(self) -> Sequence[Key]:
        return [(row.id, row.run) for _, row in self.restored]

    def has_schedule(self, number: int) -> bool:
        row = self.restored[number][1]
        return row.is_schedule and row.place != "gone"

    def payloads(self) -> Mapping[int, int]:
        head = _RESTORED_HEAD
        return self._payloads_in((at + head, at + head + len(row.job)) for at, row in self.restored)


class MergedEntry(ParsedEntry, kind="merged"):
    """Redis has everything that an archive knows."""

    def positions(self) -> list[Position]:
        """Return the ends of the histories that are complete at this entry. Raises UnknownEntry."""
        with reading(self.entry):
            return [Position.parse(f"{id} {t_us}") for id, t_us, _ in self._stored()]

    def sentence(self) -> str:
        return f"all that archive {self._shown(b'archive')} knows is in Redis"


class Scanned(NamedTuple):
    """A row of a ``scan`` entry: its place in Redis, and its record, which begins at place *first* of the body."""

    id: str
    run: str
    place: str
    lane: str
    due_ms: int | None
    first: int
    record: Texts


class ScanEntry(ParsedEntry, kind="scan"):
    """Content of Redis, read by a bootstrap. It is not an entry of the log, so it has no seq."""

    whats = frozenset({What.FOUND})
    is_logged = False
    has_records = True

    @classmethod
    def entry_of(cls, rows: Iterable[Held], at: Position) -> Entry:
        """Return the entry of *rows*, read when the log ended with *at*."""
        return Entry(at._replace(seq=0), cls.kind, [each for row in rows for each in _scanned(row)])

    @once
    def found(self) -> list[Scanned]:
        """Return the rows that the bootstrap found."""
        texts, at, rows = self.entry.body, 0, list[Scanned]()
        while at < len(texts):
            id, run, place, lane, due = (text.decode() for text in texts[at : at + _SCANNED_HEAD - 1])
            first = at + _SCANNED_HEAD
            at = first + int(texts[first - 1])
            rows.append(Scanned(id, run, place, lane, milliseconds(due), first, texts[first:at]))
        return rows

    def changes(self) -> Iterator[Change]:
        for row in self.found:
            run_id = run_id_of(row.id, row.run) if row.run else None
            yield self._change(row.id, What.FOUND, run_id=run_id, nominal_ms=row.due_ms, why=row.place)

    def told(self) -> Iterator[Change]:
        return (change for change in self.changes() if change.why == "open")

    def record_of(self, number: int) -> Given:
        return self.found[number].lane, self.found[number].record

    def owners(self) -> Sequence[Key]:
        return [(row.id, row.run) for row in self.found]

    def has_schedule(self, number: int) -> bool:
        return self.found[number].place != "open"

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_in((row.first, row.first + len(row.record)) for row in self.found)


def restored(entry: Entry) -> list[Restored]:
    """Return the rows that a ``restore`` entry put back. Raises UnknownEntry."""
    with reading(entry):
        return [row for _, row in RestoreEntry(entry).restored]


def _scanned(held: Held) -> list[bytes]:
    due = b"-" if held.due_ms is None else b"%d" % held.due_ms
    head = [held.id.encode(), held.run.encode(), held.place.encode(), held.lane.encode(), due]
    return [*head, b"%d" % len(held.record), *held.record]
