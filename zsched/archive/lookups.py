"""
The smaller searches of a history: entries of the log, waiting schedules by label, and occurrences that ran.

**The log**, the newest entry first: for what somebody asked for, an id, or a kind of change.

**Labels**: ``label`` has a row per owner, name or tag and entry with such records. An entry that was replaced since has
no row of the state any more, so each candidate is looked up there. ``retention`` deletes the rows of entries that the
state does not need.

**Occurrences that ran** are left out by a backfill. A run is never pushed before its time. So the pushes for a period
are after the first entry of that period, but maybe much later: runs may be late, or backfilled. So all entries of the
schedule from there on are read, in parts: the caller gets the result of one part and asks for the next, and the daemon
can answer others in between. A part takes at most 0.5 s, for 30,000 entries of one run each, or 3,000 entries of 200
runs (measured; the file cached, two shared cores). Not guaranteed: runs before the time since when an archive is
complete; entries from a time when the server's clock was set back, because their times are not in order.
"""

from collections.abc import Iterator
from typing import Any, Final

from zsched.archive import body
from zsched.archive.body import entry_of
from zsched.archive.history import ENTRY, History, ScheduleHistory
from zsched.archive.index import asked_by, key_of
from zsched.archive.schema import POSTING_BITS
from zsched.core.clock import SYSTEM, Clock
from zsched.core.entry import Entry
from zsched.core.facets import Facets
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import kinds_telling, parse
from zsched.core.occurrences.backfill import ran_at
from zsched.core.occurrences.changes import Change, is_push
from zsched.core.occurrences.outcomes import OUTCOMES, RAN, What

_LOOKED_FOR_MS: Final = 1000.0
_WINDOW: Final = 2000  # entries of any kind between two readings of the clock
_PLACES: Final = "SELECT n FROM posting WHERE segment = ? AND value = ? AND n >= ? AND n < ? ORDER BY n DESC"
_LABELS_MS: Final = 1200.0  # an asker waits 2 s
_LABELED: Final = "SELECT n FROM label WHERE segment = ? AND word = ?"
_DUE: Final = "SELECT due FROM live WHERE life = ? AND id = ? AND n = ? AND row = ? AND place <> 'open'"
_RAN_MS: Final = 500.0
_MOST_RAN: Final = 20_000  # occurrences in one answer
_TELLING: Final = kinds_telling(*RAN)
_ENTRIES_AT_ONCE: Final = 100_000  # of any kind in one look for suppressed occurrences
_MOST_SUPPRESSED: Final = 200  # in one look
_EARLY_US: Final = 60_000_000  # a push is searched from this long before its time: run_now pushes a one-shot early
_DUPLICATES: Final = f"{ENTRY} WHERE n > ? AND n <= ? AND kind = '{AdvanceEntry.kind}' AND has(body, ?) ORDER BY n"


def log_search(
    history: History, *, by: str | None, id: str | None, what: What | None, limit: int, until_us: int | None = None,
    is_all: bool = False, clock: Clock = SYSTEM,
) -> dict[str, Any]:  # fmt: skip
    """
    Return the newest *limit* ``entries`` of the log before *until_us* that *by* asked for (None: anybody), and that
    have a change of schedule *id* of the kind *what*; *is_all*: that nobody asked for, too. ``reached_us``: the time of
    the oldest one that was looked at, if there may be more.
    """
    found, until_ms = list[Entry](), clock.monotonic_ms() + _LOOKED_FOR_MS
    last_n = history.last_n if until_us is None else history.first_since(until_us) - 1
    for n in range(last_n, 0, -1) if is_all else _numbers(history, last_n, by, id, what):
        entry = history.entry(n)
        if entry is not None and _is_wanted(history, entry, by, id, what):
            found.append(entry)
        if entry is not None and (len(found) == limit or clock.monotonic_ms() >= until_ms):
            return {"entries": found, "reached_us": entry.position.t_us}
    return {"entries": found, "reached_us": None}


def _numbers(history: History, last_n: int, by: str | None, id: str | None, what: What | None) -> Iterator[int]:
    """Yield the numbers of entries that may be wanted, from an index that has them all and few others."""
    if by is None and id is not None:
        return (n for n, _ in history.numbers(id, end_n=last_n + 1))
    if by is None and what is not None and (what not in OUTCOMES or what is What.FIRED):
        return _telling(history, last_n, what)
    return places(history, what.value if by is None and what else asked_by(by), end_n=last_n + 1)


def places(history: History, value: str, first_n: int = 0, end_n: int | None = None) -> Iterator[int]:
    """Yield the numbers of the entries in [first_n, end_n) that are the places of *value* in the index."""
    end_n = history.last_n + 1 if end_n is None else end_n
    segments = range(end_n >> POSTING_BITS, (first_n >> POSTING_BITS) - 1, -1)
    return (n for each in segments for (n,) in history.db.execute(_PLACES, (each, key_of(value), first_n, end_n)))


def _telling(history: History, last_n: int, what: What) -> Iterator[int]:
    """Yield the numbers of entries of the kinds that tell of *what*, and one of each window: a search may end there."""
    query = f"SELECT n FROM entry WHERE n > ? AND n <= ? AND {body.of_kinds(kinds_telling(what))} ORDER BY n DESC"
    for end in range(last_n, 0, -_WINDOW):
        found = [n for (n,) in history.db.execute(query, (end - _WINDOW, end))]
        yield from found or [max(end - _WINDOW + 1, 1)]


def _is_wanted(history: History, entry: Entry, by: str | None, id: str | None, what: What | None) -> bool:
    if entry.position.seq == 0 or (by is not None and entry.by != by.encode()):
        return False
    return (what is None and id is None) or any(what in (None, one.what) for one in history.changes_in(entry, id))


def waiting_with(history: History, *, facets: Facets, clock: Clock = SYSTEM) -> dict[str, Any]:
    """
    Return ``waiting``: due time in ms (None: no time) and id of the schedules in the state with *facets*, which have an
    owner, a name or a tag. None: the state is incomplete, or it takes too long.
    """
    until_ms = clock.monotonic_ms() + _LABELS_MS
    found = list[tuple[int | None, str]]()
    if not history.has_whole_state or not facets.labels():
        return {"waiting": None}
    for n in _numbers_with(history, facets):
        if clock.monotonic_ms() >= until_ms:
            return {"waiting": None}
        if (entry := history.entry(n)) is None:
            continue
        parsed = parse(entry, history.run_suffix)
        of_rows = parsed.facets()
        for row, (id, _) in enumerate(parsed.owners()):
            if of_rows.at(row).has(facets):
                due = history.db.execute(_DUE, (history.life, id, n, row)).fetchone()
                found += [] if due is None else [(due[0], id)]
    return {"waiting": found}


def _numbers_with(history: History, facets: Facets) -> Iterator[int]:
    """Yield the numbers of entries that may have records with *facets*, the newest first."""
    for segment in range(history.last_n >> POSTING_BITS, -1, -1):
        words = (history.db.execute(_LABELED, (segment, key_of(word))) for word in facets.labels())
        yield from sorted(set[int].intersection(*({n for (n,) in rows} for rows in words)), reverse=True)


def ran(
    history: ScheduleHistory, *, id: str, start_ms: int, end_ms: int, read_to: dict[str, int], clock: Clock = SYSTEM
) -> dict[str, Any]:
    """
    Return occurrences of schedule *id* in [start_ms, end_ms) that ran, found in a part of the history. ``read_to`` is
    how far this archive, ``by``, was read (None: to its end). The asker passes it back in the next question, with the
    values of other archives.
    """
    until_ms, found = clock.monotonic_ms() + _RAN_MS, set[int]()
    first_n = max(read_to.get(history.id, 0) + 1, history.first_since(start_ms * 1000))
    for n, entry in history.entries(id, first_n, kinds=_TELLING, is_forwards=True):
        times = map(ran_at, history.changes_in(entry, id))
        found.update(ms for ms in times if ms is not None and start_ms <= ms < end_ms)
        if clock.monotonic_ms() >= until_ms or len(found) >= _MOST_RAN:
            return {"ran": found, "by": history.id, "read_to": n}
    return {"ran": found, "by": history.id, "read_to": None}


def find_suppressed(history: History, since_us: int, behind_n: int | None) -> tuple[list[Change], int]:
    """
    Return suppressed occurrences after entry number *behind_n* (None, or of another file: since *since_us*), and the
    number of the last entry read. ``advance`` did not push them because a job of their run existed, and this history
    never pushed that run: another program made that job.

    A run with a time before the beginning of the archive's history is never reported. Not guaranteed: that all reported
    runs were suppressed. A lost history without an archive may have pushed them, or ``run_now`` more than a minute
    before their time. Occurrences may be missed in a period to which the server's clock was set back later.
    """
    if behind_n is None or behind_n > history.last_n:
        behind_n = history.first_since(since_us) - 1
    until_n, found, asked = min(behind_n + _ENTRIES_AT_ONCE, history.last_n), list[Change](), 0
    for row in history.db.execute(_DUPLICATES, (behind_n, until_n, AdvanceEntry.DUPLICATE)).fetchall():
        for change in history.changes_in(entry_of(row)):
            if change.what is What.DUPLICATE and asked < _MOST_SUPPRESSED:
                asked += 1
                found += [] if _may_have_pushed(history, change) else [change]
    return found, until_n


def _may_have_pushed(history: History, duplicate: Change) -> bool:
    """Return True if *history* pushed the run of *duplicate*, or does not go back to its time."""
    nominal_us, since = (duplicate.nominal_ms or 0) * 1000, history.complete_since
    if since is None or (since != "start" and int(since) > nominal_us):
        return True
    first_n = history.first_since(nominal_us - _EARLY_US)
    entries = history.entries(duplicate.id, first_n, kinds=_TELLING, is_forwards=True)
    changes = (change for _, entry in entries for change in history.changes_in(entry))
    return any(is_push(change) and change.run_id == duplicate.run_id for change in changes)
