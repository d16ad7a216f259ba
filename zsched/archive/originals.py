"""
Arguments of a run from the history: find the entry that pushed it, then the record that was valid there.

A run that ended long ago is not in the state, and RQ has deleted it. With its arguments from the history it can be run
once more. Entries are found by the index of schedule ids; for a schedule with many entries the search begins at the
run's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from zsched.archive import body
from zsched.archive.body import Arguments
from zsched.archive.file import converted
from zsched.archive.history import History
from zsched.archive.schema import first_since
from zsched.core.facets import NO_FACETS, Facets
from zsched.core.log import Entry, UnknownEntry, parse, reading
from zsched.core.log.kinds import kinds_with_records
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.search import is_push
from zsched.core.record import Record
from zsched.core.runs.run_id import RunId

_LOOKED_AT: Final = 5000  # entries of one schedule, in each direction, to find the push: the caller waits for 2 s
_ENTRY: Final = f"SELECT {body.COLUMNS} FROM entry WHERE n = ?"


class Original(NamedTuple):
    """``is_known``: the run was pushed. ``record``: its job's original texts; None: not kept, or not found."""

    is_known: bool
    record: list[bytes] | None = None


class Originals:
    """The records of runs in *history*."""

    def __init__(self, history: History) -> None:
        self._history = history

    def of(self, run_id: str) -> Original:
        """Find run *run_id* and its record."""
        parts = RunId.ours(run_id, self._history.namespace)
        if parts is None:
            return Original(False)
        id = parts.schedule_id
        with converted(self._history.path):
            push = self._push(id, run_id, parts.nominal_ms)
            if push is None:
                return Original(False)
            n, entry = push
            return Original(True, self._whole_record(id, run_id, n, parse(entry).is_by_rule))

    def facets_of(self, change: Change, n: int) -> Facets:
        """Return the facets of the newest record before entry *n* of the change's run, or of its schedule."""
        run_id = change.run_id or f"{change.id}-"
        record = self._record(change.id, run_id, n, is_by_rule=True)
        return NO_FACETS if record is None else Facets.of(record[0])

    def _push(self, id: str, run_id: str, nominal_ms: int) -> tuple[int, Entry] | None:
        """Return the number and entry of its push: usually at its time or later, for a one-shot on request before."""
        key, ms = crc32(id.encode()), b"%d" % nominal_ms
        from_n = first_since(self._history.db, nominal_ms * 1000, self._history.last_n)
        for numbers in (self._numbers(key, from_n), self._numbers(key, 0, "DESC")):
            for n in islice(numbers, _LOOKED_AT):
                row = self._history.db.execute(_ENTRY, (n,)).fetchone()
                if row is not None:  # otherwise deleted by age
                    entry = body.entry_of(row)
                    if not any(ms in each for each in entry.body):  # faster than parsing the entry
                        continue
                    if any(change.run_id == run_id and is_push(change) for change in self._history.changes_in(entry)):
                        return n, entry
        return None

    def _numbers(self, key: int, from_n: int, order: str = "ASC") -> Iterator[int]:
        query = f"SELECT n FROM touch WHERE segment = ? AND key = ? AND n >= ? ORDER BY n {order}"
        for segment in self._history.segments if order == "ASC" else reversed(self._history.segments):
            for (n,) in self._history.db.execute(query, (segment, key, from_n)):
                yield n

    def _whole_record(self, id: str, run_id: str, push_n: int, is_by_rule: bool) -> list[bytes] | None:
        """Return the same with its arguments, as in a job; None if they are deleted."""
        found = self._record(id, run_id, push_n, is_by_rule)
        return None if found is None else self._whole(*found)

    def _record(self, id: str, run_id: str, push_n: int, is_by_rule: bool) -> tuple[Record, int, int] | None:
        """
        Return the newest record before its push, of the run itself or, if its rule pushed it, of the schedule; and the
        number of its entry, and its row.
        """
        run, key = run_id[len(id) + 1 :], crc32(id.encode())
        wanted = {(id, run), (id, "")} if is_by_rule else {(id, run)}
        query = (
            f"SELECT {body.COLUMNS} FROM entry WHERE {body.of_kinds(kinds_with_records())} AND n IN"
            " (SELECT n FROM touch WHERE segment = ? AND key = ? AND n <= ?) ORDER BY n DESC"
        )
        for segment in reversed(self._history.segments):
            for stored in self._history.db.execute(query, (segment, key, push_n)):
                entry = body.entry_of(stored)
                with suppress(UnknownEntry), reading(entry):
                    parsed = parse(entry, self._history.run_suffix)
                    for row, of in enumerate(parsed.owners()):
                        if of in wanted and b"data" in (record := parsed.record_of(row)).job[::2]:
                            return record, stored[0], row
        return None

    def _whole(self, record: Record, n: int, row: int) -> list[bytes] | None:
        """Return the fields of its job with its arguments; None if they are deleted."""
        fields = record.job_fields()
        if not fields[b"data"]:  # it is stored separately, or deleted
            fields[b"data"] = Arguments(self._history.db).of(n, row) or b""
        if flags := record.own_fields().get(b"flags"):
            fields.setdefault(b"zs", b"1" + flags)
        return [each for field in fields.items() for each in field] if fields[b"data"] else None
