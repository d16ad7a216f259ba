"""
Records in the history: of the puts of a schedule, for their comparison, and the original of a run, to run it once more.

A run that ended long ago is not in the state, and RQ has deleted it. Its original is the record that was valid at the
entry that pushed it. For a schedule with many entries the search for that entry begins at the run's time.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import chain
from typing import Final

from zsched.archive.body import Arguments
from zsched.archive.history import History
from zsched.archive.schema import first_since
from zsched.core.entry import Entry, UnknownEntry, reading
from zsched.core.facets import NO_FACETS, Facets
from zsched.core.log.kinds import LoggedPut, kinds_with_records, logged_put, parse
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.search import is_push, record_key_of
from zsched.core.record import Key, Record
from zsched.core.runs.run_id import nominal_ms_of, run_id_of, run_key

_PUTS_AMONG: Final = 20_000  # entries of the schedule that are looked at, most of them its runs: 0.1 s
_PUSH_AMONG: Final = 5000  # entries of the schedule, in each direction, to find a push: the caller waits for 2 s
_KINDS: Final = kinds_with_records()


def puts_of(history: History, id: str, wanted: Collection[str]) -> list[LoggedPut]:
    """
    Return the puts of schedule *id* in the entries with the ids *wanted*, and the one before the oldest of them, in
    order. Puts further back than the newest ``_PUTS_AMONG`` entries of the schedule are left out.
    """
    missing, found = set(wanted), list[LoggedPut]()
    for _, entry in history.entries(id, kinds=_KINDS, most=_PUTS_AMONG):
        with suppress(UnknownEntry):
            if (put := logged_put(entry, id, history.run_suffix)) is not None:
                found.append(put)
                if put.entry not in missing and not missing:
                    break
                missing.discard(put.entry)
    return found[::-1]


def original_of(history: History, run_id: str) -> list[bytes] | None:
    """Return the original fields of a run's job; [] if they are not kept, None if its push is not in the history."""
    key = run_key(run_id, history.namespace)
    push = None if key is None else _push(history, *key)
    if key is None or push is None:
        return None
    n, entry = push
    found = _record_before(history, key, n, is_by_rule=parse(entry).is_by_rule)
    return [] if found is None else _whole(history, *found)


def facets_before(history: History, change: Change, n: int) -> Facets:
    """Return the facets of the newest record before entry *n* of the change's run, or of its schedule."""
    found = _record_before(history, record_key_of(change), n, is_by_rule=True)
    return NO_FACETS if found is None else Facets.of(found[0])


def _push(history: History, id: str, run: str) -> tuple[int, Entry] | None:
    """Return the number and entry of its push: usually at its time or later, for a one-shot on request before."""
    nominal_ms, run_id = nominal_ms_of(run) or 0, run_id_of(id, run)
    ms, from_n = b"%d" % nominal_ms, first_since(history.db, nominal_ms * 1000, history.last_n)
    later, all = history.entries(id, from_n, most=_PUSH_AMONG, is_forwards=True), history.entries(id, most=_PUSH_AMONG)
    for n, entry in chain(later, all):
        if not any(ms in each for each in entry.body):  # faster than parsing the entry
            continue
        if any(change.run_id == run_id and is_push(change) for change in history.changes_in(entry, id)):
            return n, entry
    return None


def _record_before(history: History, key: Key, push_n: int, *, is_by_rule: bool) -> tuple[Record, int, int] | None:
    """
    Return the newest record up to entry *push_n*, of the run itself or, if its rule pushed it, of the schedule; and the
    number of its entry, and its row.
    """
    wanted = {key, (key[0], "")} if is_by_rule else {key}
    for n, entry in history.entries(key[0], end_n=push_n + 1, kinds=_KINDS):
        with suppress(UnknownEntry), reading(entry):
            parsed = parse(entry, history.run_suffix)
            for row, of in enumerate(parsed.owners()):
                if of in wanted and b"data" in (record := parsed.record_of(row)).job[::2]:
                    return record, n, row
    return None


def _whole(history: History, record: Record, n: int, row: int) -> list[bytes]:
    """Return the fields of its job with its arguments; [] if they are deleted."""
    fields = record.job_fields()
    if not fields[b"data"]:  # it is stored separately, or deleted
        fields[b"data"] = Arguments(history.db).of(n, row) or b""
    if flags := record.own_fields().get(b"flags"):
        fields.setdefault(b"zs", b"1" + flags)
    return [each for field in fields.items() for each in field] if fields[b"data"] else []
