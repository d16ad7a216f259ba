"""Entries of scheduling: ``put``, ``put_recurring`` and ``enqueue``, which have records, and ``cancel``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from zsched.core.entry import Texts, bounded_ms, expect, ids_of, milliseconds, text
from zsched.core.facets import Facets, FacetsOfRows, facets_of_job
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Forgotten, Key, OneShotsPut, Placed, Row, RunPushed
from zsched.core.occurrences.changes import RUN_NOW, Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.record import Place, Record
from zsched.core.runs.run_id import nominal_ms_of, run_id_of, run_key, schedule_of
from zsched.core.runs.signature import job_pairs

DISABLED: Final = "put with enabled=False"  # the note of a schedule that a put paused (lua/lib/lanes.lua)
_ENQUEUED_HEAD: Final = 2  # texts before the pairs in a row of an ``enqueue`` entry
_NOW: Final = "now"
_ROW_WORDS: Final = 10  # of a row of a ``put_recurring`` entry; the last one may have blanks


class Puts(NamedTuple):
    """One-shots of one shape. ``paused``: ids that are paused. ``replaced``: ids that existed."""

    lane: str
    shared: Texts  # field and value texts that all rows share
    ids: list[str]
    dues: list[int]
    names: Texts  # of the datas: signatures, or ``data``
    datas: Texts
    replaced: frozenset[str]
    paused: frozenset[str]


class PutEntry(ParsedEntry, kind="put"):
    """One-shots were put."""

    whats = frozenset({What.PUT})
    has_records = True

    @once
    def puts(self) -> Puts:
        """Parse the entry's put."""
        body = self.entry.body
        expect(body[0] == b"lane" and body[2] == b"fields")
        first = 4 + 2 * int(body[3])
        expect(body[first] == b"rows")
        rows = body[first + 2 : first + 2 + 4 * int(body[first + 1])]
        rest = body[first + 2 + len(rows) :]
        extra = dict(zip(rest[::2], rest[1::2], strict=True))
        expect(len(rows) == 4 * int(body[first + 1]))
        return Puts(
            lane=text(body[1]),
            shared=body[4:first],
            ids=[id.decode() for id in rows[::4]],
            dues=[bounded_ms(due) for due in rows[1::4]],
            names=rows[2::4],
            datas=rows[3::4],
            replaced=ids_of(extra.get(b"replaced")),
            paused=ids_of(extra.get(b"paused")),
        )

    def made_due(self) -> Iterable[str]:
        *_, name, ids = (b"", *self.entry.body[-2:])
        return ids_of(ids) if name == b"past" else ()

    def rows(self) -> Iterable[Row]:
        puts = self.puts
        return [OneShotsPut(puts.ids, puts.dues, self.run_suffix, puts.replaced, puts.paused)]

    def changes(self) -> Iterator[Change]:
        puts, past = self.puts, frozenset(self.made_due())
        for id, due_ms in zip(puts.ids, puts.dues, strict=True):
            why = "paused" if id in puts.paused else ""
            run_id = run_id_of(id, f"{due_ms}{self.run_suffix}")
            ready_us = self.at_us if id in past else 0
            yield self._change(id, What.PUT, run_id=run_id, nominal_ms=due_ms, why=why, ready_us=ready_us)

    def counts(self) -> Counts:
        body = self.entry.body
        return Counts(Counter({(What.PUT, ""): int(body[5 + 2 * int(body[3])])}))

    def record_of(self, number: int) -> Record:
        puts = self.puts
        id, due_ms = puts.ids[number], puts.dues[number]
        place = Place.PAUSED if id in puts.paused else Place.DUE
        job = [*puts.shared, *job_pairs(puts.names[number], puts.datas[number])]
        return Record(id, f"{due_ms}{self.run_suffix}", place, puts.lane, due_ms, job, t_us=self.at_us)

    def owners(self) -> Sequence[Key]:
        return [(id, f"{due}{self.run_suffix}") for id, due in zip(self.puts.ids, self.puts.dues, strict=True)]

    def facets(self) -> FacetsOfRows:
        return FacetsOfRows([facets_of_job(tuple(self.puts.shared))])

    def replaces(self, number: int) -> bool:
        return self.puts.ids[number] in self.puts.replaced

    def payloads(self) -> Mapping[int, int]:
        body = self.entry.body
        first = 6 + 2 * int(body[3])
        return dict(enumerate(range(first + 3, first + 4 * int(body[first - 1]), 4)))


class PutRecurring(NamedTuple):
    """
    A recurring schedule. ``due_ms`` and ``nominal_ms`` are None if it stays ended. ``dropped_ms``: an overdue
    occurrence that a new rule dropped. ``shape``: the record that rows of the call share. ``words``: as in
    put_recurring.lua. ``at``: the place of its arguments in the body.
    """

    id: str
    due_ms: int | None
    nominal_ms: int | None
    last: str | None
    state: str
    is_paused: bool
    dropped_ms: int | None
    shape: Record
    words: Texts
    trigger: bytes
    at: int

    @property
    def place(self) -> Place:
        """Its place after the put."""
        return Place.PAUSED if self.is_paused else Place.ENDED if self.due_ms is None else Place.DUE


class PutRecurringEntry(ParsedEntry, kind="put_recurring"):
    """Recurring schedules were put."""

    whats = frozenset({What.PUT, What.SKIPPED})
    has_records = True

    @once
    def puts(self) -> list[PutRecurring]:
        """Parse the entry's rows."""
        body = self.entry.body
        shapes, first = self._shapes()
        expect(body[first] == b"rows" and len(body) == first + 2 + 6 * int(body[first + 1]))
        found = []
        for at in range(first + 2, len(body), 6):
            id, said, _, trigger = body[at : at + 4]
            expect(body[at + 2] == b"trigger")
            words = said.split(b" ", _ROW_WORDS - 1)
            number, due_ms, nominal_ms, _, _, last, _, paused, state, _ = words
            paused, _, dropped_ms = paused.partition(b":")
            put = PutRecurring(
                id=id.decode(),
                due_ms=milliseconds(due_ms),
                nominal_ms=milliseconds(nominal_ms),
                last=None if last == b"-" else text(last),
                state="" if state == b"-" else text(state),
                is_paused=paused == b"paused",
                dropped_ms=milliseconds(dropped_ms),
                shape=shapes[int(number) - 1],
                words=words,
                trigger=trigger,
                at=at + 5,
            )
            found.append(put)
        return found

    def rows(self) -> Iterator[Row]:
        for number, put in enumerate(self.puts):
            times = put.due_ms, put.nominal_ms
            yield Placed(
                put.id, "", put.place, *times, put.last, keeps_note=put.is_paused, number=number, state=put.state
            )

    def changes(self) -> Iterator[Change]:
        for put in self.puts:
            why = "paused" if put.is_paused else ""
            yield self._change(put.id, What.PUT, nominal_ms=put.due_ms, why=why)
            if put.dropped_ms is not None:
                yield self._change(put.id, What.SKIPPED, nominal_ms=put.dropped_ms, why=Outcome.RULE_CHANGED.reason)

    def counts(self) -> Counts:
        dropped = sum(put.dropped_ms is not None for put in self.puts)
        return Counts(Counter({(What.PUT, ""): len(self.puts), (What.SKIPPED, Outcome.RULE_CHANGED.reason): dropped}))

    def record_of(self, number: int) -> Record:
        put, position = self.puts[number], self.entry.position
        _, _, _, anchor, created_at, _, _, _, _, digest = put.words
        own = {
            **put.shape.own_fields(),
            b"version": f"{position.id}-{position.t_us}".encode(),
            b"trigger": put.trigger,
            b"digest": digest,
            b"lane": put.shape.lane.encode(),
            b"anchor": anchor,
            b"created_at": created_at,
            b"updated_at": b"%d" % (position.t_us // 1000),
        }
        name, data = self.entry.body[put.at - 1 : put.at + 1]
        return Record(
            id=put.id,
            run="",
            place=put.place,
            lane=put.shape.lane,
            due_ms=put.due_ms,
            job=[*put.shape.job, *job_pairs(name, data)],
            own=[each for field in own.items() for each in field],
            nominal_ms=put.nominal_ms,
            last=put.last,
            state=put.state,
            t_us=self.at_us,
        )

    def owners(self) -> Sequence[Key]:
        return [(put.id, "") for put in self.puts]

    def facets(self) -> FacetsOfRows:
        known = {id(put.shape): Facets.of(put.shape) for put in self.puts}
        return FacetsOfRows.of([known[id(put.shape)] for put in self.puts])

    def replaces(self, number: int) -> bool:
        return int(self.puts[number].words[4]) < self.at_us // 1000  # created earlier; in this millisecond is not known

    def payloads(self) -> Mapping[int, int]:
        return {number: put.at for number, put in enumerate(self.puts)}

    def _shapes(self) -> tuple[list[Record], int]:
        """Return the entry's shapes, and the place where its rows begin."""
        body, shapes, at = self.entry.body, list[Record](), 2
        expect(body[0] == b"shapes")
        for _ in range(int(body[1])):
            first = at + 4
            last = first + 2 * int(body[at + 3])
            end = last + 2 + 2 * int(body[last + 1])
            expect((body[at], body[at + 2], body[last]) == (b"lane", b"schedule", b"template"))
            lane, own, job = text(body[at + 1]), body[first:last], body[last + 2 : end]
            shapes.append(Record("", "", Place.DUE, lane, None, job, own))
            at = end
        return shapes, at


class Enqueued(NamedTuple):
    """
    A run that was pushed at once; ``retry_of``: the run that it repeats, or None. ``at``: its place in the body.
    ``is_now``: of a one-shot that waited.
    """

    run_id: str
    is_at_front: bool
    fields: Texts  # of its job
    retry_of: str | None
    at: int
    is_now: bool


class EnqueueEntry(ParsedEntry, kind="enqueue"):
    """
    Runs were pushed at once, or once more. A row is run id, "<front> <fields n> <of>", and the pairs of its job; ``of``
    is the run that it repeats; ``now``, if it is a one-shot that runs now instead of at its time; or -.
    """

    whats = frozenset({What.ENQUEUED, What.RETRIED})
    has_records = True

    @once
    def runs(self) -> list[Enqueued]:
        """Parse the entry's runs."""
        body, found, at = self.entry.body, list[Enqueued](), 2
        expect(body[0] == b"rows")
        for _ in range(int(body[1])):
            front, size, of = text(body[at + 1]).split(" ")
            first = at + _ENQUEUED_HEAD
            fields = body[first : first + 2 * int(size)]
            expect(len(fields) == 2 * int(size))
            retry_of, is_now = None if of in ("-", _NOW) else of, of == _NOW
            found.append(Enqueued(text(body[at]), front == "1", fields, retry_of, at, is_now))
            at = first + len(fields)
        expect(at == len(body))
        return found

    def rows(self) -> Iterator[Row]:
        for number, one in enumerate(self.runs):
            id = schedule_of(one.run_id)
            run = one.run_id[len(id) + 1 :]
            if one.retry_of is None:  # a retried run does not change the schedule of its id
                yield Forgotten(id)
            yield RunPushed(id, run, nominal_ms_of(run), number=number)

    def changes(self) -> Iterator[Change]:
        for one in self.runs:
            what = What.ENQUEUED if one.retry_of is None else What.RETRIED
            why = RUN_NOW if one.is_now else one.retry_of or ""
            yield self._change(schedule_of(one.run_id), what, run_id=one.run_id, why=why)

    def retries(self) -> Mapping[str, str]:
        return {one.retry_of: one.run_id for one in self.runs if one.retry_of is not None}

    def record_of(self, number: int) -> Record:
        one = self.runs[number]
        id, run = run_key(one.run_id) or ("", "")
        own = [b"flags", b"f"] if one.is_at_front else ()
        return Record(id, run, Place.OPEN, "", nominal_ms_of(run), one.fields, own, t_us=self.at_us)

    def owners(self) -> Sequence[Key]:
        return [run_key(one.run_id) or ("", "") for one in self.runs]

    def has_schedule(self, number: int) -> bool:
        return False

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_of((one.at + _ENQUEUED_HEAD, one.fields) for one in self.runs)


class CancelEntry(ParsedEntry, kind="cancel"):
    """Schedules were cancelled. A row is id and due time."""

    whats = frozenset({What.CANCELLED})

    @once
    def cancelled(self) -> list[tuple[str, int | None]]:
        """The schedules, with their due times."""
        return [(id, milliseconds(due)) for id, due, _ in self._stored()]

    def rows(self) -> Iterable[Row]:
        return [Forgotten(id, "" if due is None else f"{due}{self.run_suffix}") for id, due in self.cancelled]

    def changes(self) -> Iterator[Change]:
        for id, due_ms in self.cancelled:
            yield self._change(id, What.CANCELLED, nominal_ms=due_ms)
