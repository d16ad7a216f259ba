"""
The runs in an archive: the open ones, what became of a push, and the record that a run or a change had.

A run is open if the state has it. An index of open runs would cost a tenth of the archiving speed (measured: every fire
adds a row to it, every end removes one). There are two ways without an index: ask for runs by id (``among``), or read
the whole state in parts, with waiting schedules (``next``).

A run that is over has its end in one of the next entries of its id, and its push is found by its time, which the end
has. If it ended long ago, RQ has deleted it too: its original is the record that was valid at the entry that pushed it.
For a schedule with many entries the search for that entry begins at the run's time.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import chain, islice
from typing import Final

from zsched.archive import live
from zsched.archive.body import arguments_at
from zsched.archive.history import History, ScheduleHistory
from zsched.archive.index import another_end, facets_at
from zsched.archive.live import record_in
from zsched.archive.lookups import places
from zsched.core.entry import Entry, UnknownEntry
from zsched.core.facets import NO_FACETS, Facets
from zsched.core.log.kinds import KINDS, LoggedPut, kinds_telling, parse
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change, is_push, record_key_of, run_that_ended
from zsched.core.occurrences.outcomes import What
from zsched.core.pages import grouped
from zsched.core.record import Key, Record
from zsched.core.runs.run import Run, pushed
from zsched.core.runs.run_id import RunKey, nominal_ms_of, run_id_of, run_key
from zsched.core.wording import LONGEST_NAME
from zsched.errors import ArchiveCorrupt

_RUN: Final = "FROM live WHERE life = ? AND id = ? AND run = ? AND place = 'open'"
_IS_OPEN: Final = f"SELECT t, note {_RUN}"
_ROW: Final = f"SELECT {live.COLUMNS} {_RUN}"
_PART: Final = "FROM live WHERE life = ? AND (id, run) > (?, ?) ORDER BY id, run LIMIT"
_OPEN_PART: Final = (
    f"SELECT id, run, t, note FROM (SELECT id, run, t, note, place {_PART} ?) WHERE place = 'open' LIMIT ?"
)
_UNFOUND: Final = (
    "SELECT id, run, value + 1 FROM live AS old JOIN fact ON name = 'boot_n' WHERE life = ? AND place = 'open'"
    " AND NOT EXISTS (SELECT 1 FROM live WHERE life = old.life + 1 AND id = old.id AND run = old.run)"
)
_END_OF_PART: Final = f"SELECT id, run {_PART} 1 OFFSET ?"

_LOOKED_BACK: Final = 200  # entries of a schedule
_OF_ONE_RUN: Final = 200  # entries of an id after the push, among which the run's end is searched
_OF_ONE_TIME: Final = 10  # entries that are searched for a push: all entries of a bootstrap have one t
_AT: Final = "SELECT n FROM entry WHERE n >= ? AND n < ? AND t = ?"
_TELLING: Final = {EndEntry.kind, *kinds_telling(What.PUSHED_AGAIN, What.FOUND, What.ENQUEUED, What.RUN_AGAIN)}
_PUTS_AMONG: Final = 20_000  # entries of the schedule that are looked at, most of them its runs: 0.1 s
_PUSH_AMONG: Final = 5000  # entries of the schedule, in each direction, to find a push: the caller waits for 2 s
_KINDS: Final = [name for name, kind in KINDS.items() if kind.has_records]


class OpenRuns(History):
    """The open runs of an archive at one moment; only their pushes are known. While it bootstraps, they are old."""

    def among(self, keys: Iterable[RunKey]) -> dict[RunKey, Run]:
        """Return the open runs among *keys*."""
        found = ((key, self.db.execute(_IS_OPEN, (self.life, *key)).fetchone()) for key in keys)
        return {key: _open(*key, *row) for key, row in found if row is not None}

    def last_end(self, key: RunKey) -> Run | None:
        """
        Return the latest end of run *key*; None if there is none, or only long before its schedule's newest entries.
        """
        run_id = run_id_of(*key)
        for _, changes in islice(self.changes_of(key[0]), _LOOKED_BACK):
            for change in reversed(changes):
                if change.what is What.RUN_ENDED and change.run_id == run_id:
                    return run_that_ended(change)
        return None

    def queues(self, run_ids: Iterable[str]) -> dict[str, str]:
        """
        Return the queue of each of *run_ids* from its record. Left out are runs that are no longer open, and runs with
        an unreadable record: the report of their ends must not fail. Each entry is parsed once for all of its runs.
        """
        found, facets_of = dict[str, str](), cache(partial(facets_at, self.db))
        for run_id in run_ids:
            stored = self.db.execute(_ROW, (self.life, *(run_key(run_id) or ("", "")))).fetchone()
            with suppress(ArchiveCorrupt):
                row = None if stored is None else record_in(stored)
                if row is not None and (facets := facets_of(row.n)) is not None:
                    found[run_id] = facets.at(row.row).queue[:LONGEST_NAME]
        return found

    def unfound(self) -> list[str]:
        """
        Return the open runs that a bootstrap has not found in Redis, and of which its new entries say at most that they
        were pushed again: they ended before it looked, and no entry has that.
        """
        found, rows = list[str](), self.db.execute(_UNFOUND, (self.life,)) if self.position else ()
        for id, run, first_n in rows:
            told = (one for _, entry in self.entries(id, first_n) for one in self.changes_in(entry, id))
            if all(is_push(one) for one in told if one.run_id == run_id_of(id, run)):
                found.append(run_id_of(id, run))
        return found

    def next(self, after: RunKey | None, looked_at: int, limit: int) -> tuple[list[Run], RunKey | None]:
        """
        Return at most *limit* open runs among the *looked_at* rows of the state after *after*, by id; and the key to
        continue after, None at the end.
        """
        start = after or ("", "")
        rows = self.db.execute(_OPEN_PART, (self.life, *start, looked_at, limit)).fetchall()
        if len(rows) == limit:
            end = rows[-1][:2]
        else:
            end = self.db.execute(_END_OF_PART, (self.life, *start, looked_at - 1)).fetchone()
        return [_open(*row) for row in rows], end


def _open(id: str, run: str, fired_us: int, note: str | None) -> Run:
    """Return the run of some columns of the state."""
    return pushed(run_id_of(id, run), fired_us, note == "uncertain")


class PushedRuns:
    """The pushed runs of *history*. An entry that has many of them is read once."""

    def __init__(self, history: History) -> None:
        self._history, self._db = history, history.db
        self._by_run = lru_cache(maxsize=100)(self._read)
        self._numbers_at = lru_cache(maxsize=100)(self._read_numbers)

    def run_of(self, push: Change, n: int) -> tuple[Run, bool] | None:
        """
        Return the run of *push* in entry *n*, and True if a later entry pushed it again; None if a recovery skipped it:
        it is not a run any more.
        """
        run_id = push.run_id or ""
        is_open = self._db.execute(_IS_OPEN, (self._history.life, *record_key_of(push))).fetchone() is not None
        is_superseded, attempt = False, 1
        for later_n, kind in islice(self._history.numbers(push.id, n + 1, is_forwards=True), _OF_ONE_RUN):
            for change in self._by_run(later_n).get(run_id, ()) if kind in _TELLING else ():
                if change.what is What.RUN_ENDED and not is_open:
                    return run_that_ended(self.last_end(run_id, later_n, change)[1]), is_superseded
                if change.what is What.SKIPPED and not is_open:
                    return None
                is_superseded = is_superseded or is_push(change)
                attempt = change.count if change.what is What.RUN_AGAIN else attempt
        return pushed(run_id, push.at_us, push.why == "uncertain")._replace(attempt=attempt), is_superseded

    def last_end(self, run_id: str, n: int, end: Change) -> tuple[int, Change]:
        """Return the number and the change of the last end of a run that ended by *end* in entry *n*."""
        for later_n in places(self._history, another_end(run_id), n + 1):
            if later := self._by_run(later_n).get(run_id):
                return later_n, later[-1]
        return n, end

    def push_at(self, t_us: int, run_id: str) -> tuple[int, Change] | None:
        """Return the number of the entry with the push of *run_id* at *t_us*, and the push; None if it is not there."""
        for n in self._numbers_at(t_us):
            for change in self._by_run(n).get(run_id, ()):
                if is_push(change):
                    return n, change
        return None

    def with_push(self, ended: Change) -> Change:
        """Return *ended* with its push instead of its end; unchanged if the push is not in the archive."""
        t_us = None if ended.run is None else ended.run.fired_us
        push = None if t_us is None else self.push_at(t_us, ended.run_id or "")
        if push is None:
            return ended
        found = self._history.with_ready(push[1], push[0])
        return replace(found, run=ended.run, facets=ended.facets, cursor=ended.cursor)

    def _read(self, n: int) -> Mapping[str, Sequence[Change]]:
        """Return the changes in entry *n*, by run id."""
        return grouped((one.run_id or "", one) for one in self._history.changes_in(self._history.entry(n)))

    def _read_numbers(self, t_us: int) -> list[int]:
        """Return the numbers of the first entries with exactly this time."""
        n = self._history.first_since(t_us)
        return [found for (found,) in self._db.execute(_AT, (n, n + _OF_ONE_TIME, t_us))]


def puts_of(history: ScheduleHistory, id: str, wanted: Collection[str]) -> list[LoggedPut]:
    """
    Return the puts of schedule *id* in the entries with the ids *wanted*, and the one before the oldest of them, in
    order. Puts further back than the newest ``_PUTS_AMONG`` entries of the schedule are left out.
    """
    missing, found = set(wanted), list[LoggedPut]()
    for _, entry in history.entries(id, kinds=_KINDS, most=_PUTS_AMONG):
        with suppress(UnknownEntry), parse(entry, history.run_suffix) as parsed:
            if (put := parsed.logged_put(id)) is not None:
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
    ms, from_n = b"%d" % nominal_ms, history.first_since(nominal_ms * 1000)
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
        with suppress(UnknownEntry), parse(entry, history.run_suffix) as parsed:
            for row, of in enumerate(parsed.owners()):
                if of in wanted and b"data" in (record := parsed.record_of(row)).job[::2]:
                    return record, n, row
    return None


def _whole(history: History, record: Record, n: int, row: int) -> list[bytes]:
    """Return the fields of its job with its arguments; [] if they are deleted."""
    fields = record.job_fields()
    if not fields[b"data"]:  # it is stored separately, or deleted
        fields[b"data"] = arguments_at(history.db, n, row) or b""
    if flags := record.own_fields().get(b"flags"):
        fields.setdefault(b"zs", b"1" + flags)
    return [each for field in fields.items() for each in field] if fields[b"data"] else []
