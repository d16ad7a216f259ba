"""Entries that say what is scheduled: ``put``, ``put_recurring`` and ``enqueue``, which carry records; ``cancel``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from zsched.core.changes import RETRY_OF, Change, What
from zsched.core.entry import Texts, expect, ids_of, milliseconds, text
from zsched.core.log.kinds import OWN, Counts, Given, ParsedEntry, once
from zsched.core.log.rows import Forgotten, Key, OneShotsPut, Placed, Row, RunPushed
from zsched.core.run_id import nominal_ms_of, run_id_of, run_key, schedule_of

_ENQUEUED_HEAD: Final = 6  # texts before the pairs of an ``enqueue`` entry


class Puts(NamedTuple):
    """One-shots of one shape. ``paused`` and ``replaced``: ids that stay paused; that were there."""

    lane: str
    shared: Texts  # field and value texts that all rows share
    ids: list[str]
    dues: list[int]
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
            dues=[int(due) for due in rows[1::4]],
            datas=rows[3::4],
            replaced=ids_of(extra.get(b"replaced")),
            paused=ids_of(extra.get(b"paused")),
        )

    def rows(self) -> Iterable[Row]:
        puts = self.puts
        return [OneShotsPut(puts.ids, puts.dues, self.run_suffix, puts.replaced, puts.paused)]

    def changes(self) -> Iterator[Change]:
        puts, by = self.puts, _value(self.puts.shared, b"zs_created_by")
        for id, due_ms in zip(puts.ids, puts.dues, strict=True):
            why = "paused" if id in puts.paused else ""
            run_id = run_id_of(id, f"{due_ms}{self.run_suffix}")
            yield self._change(id, What.PUT, run_id=run_id, nominal_ms=due_ms, why=why, by=by)

    def counts(self) -> Counts:
        body = self.entry.body
        return Counts(Counter({(What.PUT, ""): int(body[5 + 2 * int(body[3])])}))

    def record_of(self, number: int) -> Given:
        return self.puts.lane, [*self.puts.shared, b"data", self.puts.datas[number]]

    def owners(self) -> Sequence[Key]:
        return [(id, f"{due}{self.run_suffix}") for id, due in zip(self.puts.ids, self.puts.dues, strict=True)]

    def payloads(self) -> Mapping[int, int]:
        body = self.entry.body
        first = 6 + 2 * int(body[3])
        return dict(enumerate(range(first + 3, first + 4 * int(body[first - 1]), 4)))


class PutRecurring(NamedTuple):
    """A recurring schedule. ``due_ms`` is None when it stays ended; ``first``: where its template begins."""

    id: str
    due_ms: int | None
    is_paused: bool
    schedule: dict[str, bytes]
    template: Texts
    first: int


class PutRecurringEntry(ParsedEntry, kind="put_recurring"):
    """A recurring schedule was put."""

    whats = frozenset({What.PUT})
    has_records = True

    @once
    def put(self) -> PutRecurring:
        """Parse the entry's put."""
        body = self.entry.body
        expect(body[0] == b"id" and body[2] == b"due" and body[4] == b"schedule")
        first = 6 + 2 * int(body[5])
        schedule = {name.decode(): value for name, value in zip(body[6:first:2], body[7:first:2], strict=True)}
        expect(body[first] == b"template")
        last = first + 2 + 2 * int(body[first + 1])
        expect(len(body) >= last)
        return PutRecurring(
            id=body[1].decode(),
            due_ms=milliseconds(body[3]),
            is_paused=body[last:] == [b"paused", b"1"],
            schedule=schedule,
            template=body[first + 2 : last],
            first=first + 2,
        )

    def rows(self) -> Iterable[Row]:
        put = self.put
        nominal, last = (put.schedule.get(name) for name in ("nominal", "last"))
        place = "paused" if put.is_paused else "ended" if put.due_ms is None else "due"
        times = put.due_ms, milliseconds(nominal)
        yield Placed(put.id, "", place, *times, None if last is None else text(last), keeps_note=put.is_paused)

    def changes(self) -> Iterator[Change]:
        put, by = self.put, self.put.schedule.get("created_by")
        why = "paused" if put.is_paused else ""
        yield self._change(put.id, What.PUT, nominal_ms=put.due_ms, why=why, by=text(by) if by else None)

    def record_of(self, number: int) -> Given:
        own = [each for name, value in self.put.schedule.items() for each in (f"{OWN}{name}".encode(), value)]
        return text(self.put.schedule.get("lane", b"normal")), [*self.put.template, *own]

    def owners(self) -> Sequence[Key]:
        return [(self.put.id, "")]

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_in([(self.put.first, self.put.first + len(self.put.template))])


class Enqueued(NamedTuple):
    """A run that was pushed at once; ``retry_of``: which run it repeats, None when none."""

    run_id: str
    is_at_front: bool
    fields: Texts  # of its job
    retry_of: str | None


class EnqueueEntry(ParsedEntry, kind="enqueue"):
    """A run was pushed at once, or once more."""

    whats = frozenset({What.ENQUEUED})
    has_records = True

    @once
    def run(self) -> Enqueued:
        """Parse the entry's run."""
        body = self.entry.body
        last = _ENQUEUED_HEAD + 2 * int(body[5])
        expect(len(body) >= last)
        of = dict(zip(body[last::2], body[last + 1 :: 2], strict=True)).get(b"of")
        return Enqueued(text(body[1]), body[3] == b"1", body[_ENQUEUED_HEAD:last], text(of) if of else None)

    def rows(self) -> Iterable[Row]:
        run_id = self.run.run_id
        id = schedule_of(run_id)
        run = run_id[len(id) + 1 :]
        if self.run.retry_of is None:  # one that is retried leaves the schedule of its id alone
            yield Forgotten(id)
        yield RunPushed(id, run, nominal_ms_of(run))

    def changes(self) -> Iterator[Change]:
        run_id, of = self.run.run_id, self.run.retry_of
        by = _value(self.run.fields, b"zs_created_by")
        why = "" if of is None else f"{RETRY_OF}{of}"
        yield self._change(schedule_of(run_id), What.ENQUEUED, run_id=run_id, why=why, by=by)

    def record_of(self, number: int) -> Given:
        front = [OWN.encode() + b"flags", b"f"] if self.run.is_at_front else []
        return "", [*self.run.fields, *front]

    def owners(self) -> Sequence[Key]:
        key = run_key(self.run.run_id)
        return [] if key is None else [key]

    def payloads(self) -> Mapping[int, int]:
        return self._payloads_in([(_ENQUEUED_HEAD, _ENQUEUED_HEAD + len(self.run.fields))])


class CancelEntry(ParsedEntry, kind="cancel"):
    """A schedule was cancelled."""

    whats = frozenset({What.CANCELLED})

    def rows(self) -> Iterable[Row]:
        id, due_ms = self._field(b"id"), milliseconds(self.fields[b"due"])
        yield Forgotten(id, "" if due_ms is None else f"{due_ms}{self.run_suffix}")

    def changes(self) -> Iterator[Change]:
        yield self._change(self._field(b"id"), What.CANCELLED, nominal_ms=milliseconds(self.fields[b"due"]))


def _value(pairs: Texts, name: bytes) -> str | None:
    found = dict(zip(pairs[::2], pairs[1::2], strict=False)).get(name)
    return None if found is None else text(found)
