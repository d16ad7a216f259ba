"""
Entries with records: of scheduling (``put``, ``put_recurring`` and ``enqueue``; ``cancel`` has none), and of recoveries
(``restore`` and ``merged``; and ``scan``, only in archives: content read from Redis).
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zsched.core.entry import Entry, Position, Texts, bounded_ms, expect, ids_of, milliseconds, text
from zsched.core.facets import FacetsOfRows, facets_of_job
from zsched.core.log.kinds import Counts, ParsedEntry, RecordsEntry, once
from zsched.core.log.rows import OneShotsPut, Row
from zsched.core.occurrences.changes import RUN_NOW, RUN_OVER, Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.record import Key, Place, Portion, Record, RecordFields, gone, records_in, shapes_in
from zsched.core.runs.job import job_pairs
from zsched.core.runs.run_id import nominal_ms_of, run_id_of, schedule_of

DISABLED: Final = "put with enabled=False"  # the note of a schedule that a put paused (lua/lib/lanes.lua)
_ENQUEUED_HEAD: Final = 2  # texts before the pairs in a row of an ``enqueue`` entry
# The change and reason of a run by its ``of``; any other one is a run that it repeats.
_PUSHED: Final = {"-": (What.ENQUEUED, ""), "now": (What.ENQUEUED, RUN_NOW)}
_ROW_WORDS: Final = 10  # of a row of a ``put_recurring`` entry; the last one may have blanks
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


class PutEntry(ParsedEntry, kind="put", whats={What.PUT}):
    """One-shots were put."""

    has_records = True

    @once
    def _parts(self) -> tuple[Record, Texts, dict[bytes, bytes]]:
        """The shape; the texts of the rows; the fields behind them."""
        body = self.entry.body
        expect(body[0] == b"lane" and body[2] == b"fields")
        first = 4 + 2 * int(body[3])
        after = first + 2 + 4 * int(body[first + 1])
        expect(body[first] == b"rows" and len(body) >= after)
        shape = Record("", "", Place.DUE, text(body[1]), None, body[4:first], t_us=self.at_us).to_keep()
        return shape, body[first + 2 : after], dict(zip(body[after::2], body[after + 1 :: 2], strict=True))

    @once
    def puts(self) -> OneShotsPut:
        """Parse the entry's put."""
        shape, rows, extra = self._parts
        return OneShotsPut(
            shape=shape,
            at=[id.decode() for id in rows[::4]],
            dues=[bounded_ms(due) for due in rows[1::4]],
            names=rows[2::4],
            datas=rows[3::4],
            run_suffix=self.run_suffix,
            replaced=ids_of(extra.get(b"replaced")),
            paused=ids_of(extra.get(b"paused")),
        )

    def made_due(self) -> Iterable[str]:
        *_, name, ids = (b"", *self.entry.body[-2:])
        return ids_of(ids) if name == b"past" else ()

    def rows(self) -> Iterable[Row]:
        return [self.puts]

    def changes(self) -> Iterator[Change]:
        puts, past = self.puts, frozenset(self.made_due())
        for id, due_ms in zip(puts.at, puts.dues, strict=True):
            why = "paused" if id in puts.paused else ""
            run_id = run_id_of(id, f"{due_ms}{self.run_suffix}")
            ready_us = self.at_us if id in past else 0
            yield self._change(id, What.PUT, run_id=run_id, nominal_ms=due_ms, why=why, ready_us=ready_us)

    def counts(self) -> Counts:
        body = self.entry.body
        return Counts(Counter({(What.PUT, ""): int(body[5 + 2 * int(body[3])])}))

    def record_of(self, number: int) -> Record:
        return self.puts.record_of(number)

    def fields_of_records(self) -> Sequence[RecordFields]:
        shape, rows, _ = self._parts
        return [(shape, job, ()) for job in map(job_pairs, rows[2::4], rows[3::4])]

    def owners(self) -> Sequence[Key]:
        return self.puts.runs()

    def facets(self) -> FacetsOfRows:
        return FacetsOfRows([facets_of_job(tuple(self._parts[0].job))])

    def replaces(self, number: int) -> bool:
        return self.puts.at[number] in self.puts.replaced

    def payloads(self) -> Mapping[int, int]:
        body = self.entry.body
        first = 6 + 2 * int(body[3])
        return dict(enumerate(range(first + 3, first + 4 * int(body[first - 1]), 4)))


class PutRecurringEntry(RecordsEntry, kind="put_recurring", whats={What.PUT, What.SKIPPED}):
    """Recurring schedules were put. A paused one, without a note, keeps that which it has."""

    @once
    def found(self) -> list[tuple[int, Record]]:
        """Parse the entry's records; each with the place in the body before its data."""
        body = self.entry.body
        shapes, first = shapes_in(body, 0)
        expect(len(body) == first + 2 + 6 * int(body[first + 1]))
        return [self._put(at, shapes) for at in range(first + 2, len(body), 6)]

    def _put(self, at: int, shapes: Sequence[Record]) -> tuple[int, Record]:
        id, words, named, trigger, name, data = self.entry.body[at : at + 6]
        expect(named == b"trigger")
        number, due, nominal, anchor, created_at, last, _, paused, state, digest = words.split(b" ", _ROW_WORDS - 1)
        due_ms, shape = milliseconds(due), shapes[int(number) - 1]
        is_paused = paused.partition(b":")[0] == b"paused"
        updated_at = b"%d" % (self.at_us // 1000)
        own = [b"trigger", trigger, b"digest", digest, b"lane", shape.lane.encode(), b"anchor", anchor]
        return at + 4, Record(
            id=id.decode(),
            run="",
            place=Place.PAUSED if is_paused else Place.ENDED if due_ms is None else Place.DUE,
            lane=shape.lane,
            due_ms=due_ms,
            job=job_pairs(name, data),
            own=[*own, b"created_at", created_at, b"updated_at", updated_at],
            nominal_ms=milliseconds(nominal),
            last=None if last == b"-" else text(last),
            state="" if state == b"-" else text(state),
            t_us=self.at_us,
            shape=shape,
        )

    def _dropped_ms(self, number: int) -> int | None:
        """Return the overdue occurrence that the new rule in row *number* dropped, or None."""
        words = self.entry.body[self.found[number][0] - 3]
        return milliseconds(words.split(b" ", _ROW_WORDS - 1)[7].partition(b":")[2])

    def changes(self) -> Iterator[Change]:
        for number, (_, put) in enumerate(self.found):
            why = "paused" if put.place is Place.PAUSED else ""
            yield self._change(put.id, What.PUT, nominal_ms=put.due_ms, why=why)
            if (dropped_ms := self._dropped_ms(number)) is not None:
                yield self._change(put.id, What.SKIPPED, nominal_ms=dropped_ms, why=Outcome.RULE_CHANGED.reason)

    def counts(self) -> Counts:
        rows = range(len(self.found))
        dropped = sum(self._dropped_ms(number) is not None for number in rows)
        return Counts(Counter({(What.PUT, ""): len(rows), (What.SKIPPED, Outcome.RULE_CHANGED.reason): dropped}))

    def replaces(self, number: int) -> bool:
        created_at = self.found[number][1].own_fields()[b"created_at"]
        return int(created_at) < self.at_us // 1000  # created earlier; in this millisecond is not known


class EnqueueEntry(RecordsEntry, kind="enqueue", whats={What.ENQUEUED, What.RETRIED}):
    """
    Runs were pushed at once, or once more. A row is run id, "<front> <fields n> <of>", and the pairs of its job; ``of``
    is the run that it repeats; ``now``, if it is a one-shot that runs now instead of at its time; or -.
    """

    @once
    def found(self) -> list[tuple[int, Record]]:
        """Parse the entry's runs, each with the place of its job in the body."""
        body, found, at = self.entry.body, list[tuple[int, Record]](), 2
        expect(body[0] == b"rows")
        for _ in range(int(body[1])):
            front, size, _ = body[at + 1].split(b" ")
            first = at + _ENQUEUED_HEAD
            job, run_id = body[first : first + 2 * int(size)], text(body[at])
            expect(len(job) == 2 * int(size))
            id = schedule_of(run_id)
            run, own = run_id[len(id) + 1 :], [b"flags", b"f"] if front == b"1" else ()
            found.append((first, Record(id, run, Place.OPEN, "", nominal_ms_of(run), job, own, t_us=self.at_us)))
            at = first + len(job)
        expect(at == len(body))
        return found

    def _of(self, number: int) -> str:
        """Return the run that the run in row *number* repeats; or ``now``, or -."""
        return text(self.entry.body[self.found[number][0] - 1].split(b" ")[2])

    def rows(self) -> Iterator[Record]:
        for run in super().rows():
            if self._of(run.row) in _PUSHED:  # a retried run does not change the schedule of its id
                yield gone(run.id)
            yield run

    def changes(self) -> Iterator[Change]:
        for number, (_, run) in enumerate(self.found):
            of = self._of(number)
            what, why = _PUSHED.get(of, (What.RETRIED, of))
            yield self._change(run.id, what, run_id=run.run_id, why=why)

    def retries(self) -> Mapping[str, str]:
        runs = ((self._of(number), text(self.entry.body[at - 2])) for number, (at, _) in enumerate(self.found))
        return {of: run_id for of, run_id in runs if of not in _PUSHED}


class CancelEntry(ParsedEntry, kind="cancel", whats={What.CANCELLED}):
    """Schedules were cancelled. A row is id and due time."""

    @once
    def cancelled(self) -> list[tuple[str, int | None]]:
        """The schedules, with their due times."""
        return [(id, milliseconds(due)) for id, due, _ in self._stored()]

    def rows(self) -> Iterable[Row]:
        return [gone(id, "" if due is None else f"{due}{self.run_suffix}") for id, due in self.cancelled]

    def changes(self) -> Iterator[Change]:
        for id, due_ms in self.cancelled:
            yield self._change(id, What.CANCELLED, nominal_ms=due_ms)


class RestoreEntry(RecordsEntry, kind="restore", whats={What.RESTORED, *(what for what, _ in _RESTORED.values())}):
    """An archive restored losses of Redis, or corrected errors that an audit or another archive found."""

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
        with self:
            return [Position.parse(f"{id} {t_us}") for id, t_us, _ in self._stored()]

    def sentence(self) -> str:
        return f"all that archive {self._shown(b'archive')} knows is in Redis"


class ScanEntry(RecordsEntry, kind="scan", whats={What.FOUND}):
    """Content of Redis, read by a bootstrap. It is not an entry of the log, so it has no seq."""

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
        for row in super().rows():
            row.t_us = self.at_us
            yield row

    def changes(self) -> Iterator[Change]:
        for _, row in self.found:
            yield self._change(row.id, What.FOUND, run_id=row.run_id, nominal_ms=row.due_ms, why=row.place)

    def searched(self) -> Iterator[Change]:
        return (change for change in self.changes() if change.why == Place.OPEN)


def restored(entry: Entry) -> list[Record]:
    """Return the rows that a ``restore`` entry restored. Raises UnknownEntry."""
    with RestoreEntry(entry) as restore:
        return [row for _, row in restore.found]
