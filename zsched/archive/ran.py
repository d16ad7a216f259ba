"""
Occurrences of a schedule that ran, found in the history: a backfill leaves them out.

A run is never pushed before its time. So the pushes for a period are after the first entry of that period, but maybe
much later: runs may be late, or backfilled. So all entries of the schedule from there on are read, in parts: the caller
gets the result of one part and asks for the next, and the daemon can answer others in between. A part takes at most
0.5 s, for 30,000 entries of one run each, or 3,000 entries of 200 runs (measured; the file cached, two shared cores).

Not guaranteed: runs before the time since when an archive is complete; entries from a time when the server's clock was
set back, because their times are not in order.
"""

from __future__ import annotations

from typing import Final

from zsched.archive.body import entry_of
from zsched.archive.history import ENTRY, History
from zsched.archive.schema import first_since
from zsched.core.clock import Clock, SystemClock
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import kinds_telling
from zsched.core.occurrences.backfill import ran_at
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import RAN, What
from zsched.core.occurrences.search import is_push

_LOOKED_FOR_MS: Final = 500.0
_MOST: Final = 20_000  # occurrences in one answer
_TELLING: Final = kinds_telling(*RAN)
_ENTRIES_AT_ONCE: Final = 100_000  # of any kind in one look for suppressed occurrences
_MOST_SUPPRESSED: Final = 200  # in one look
_EARLY_US: Final = 60_000_000  # a push is searched from this long before its time: run_now pushes a one-shot early
_DUPLICATES: Final = f"{ENTRY} WHERE n > ? AND n <= ? AND kind = '{AdvanceEntry.kind}' AND has(body, ?) ORDER BY n"


def ran(
    history: History, id: str, start_ms: int, end_ms: int, behind_n: int = 0, clock: Clock | None = None
) -> tuple[list[int], int | None]:
    """
    Return the occurrences of schedule *id* in [start_ms, end_ms) that ran, ascending, from the entries after number
    *behind_n*; and the number of the last entry read, None at the end.
    """
    clock = clock or SystemClock()
    until_ms, found = clock.monotonic_ms() + _LOOKED_FOR_MS, set[int]()
    first_n = max(behind_n + 1, first_since(history.db, start_ms * 1000, history.last_n))
    for n, entry in history.entries(id, first_n, kinds=_TELLING, is_forwards=True):
        times = map(ran_at, history.changes_in(entry, id))
        found.update(ms for ms in times if ms is not None and start_ms <= ms < end_ms)
        if clock.monotonic_ms() >= until_ms or len(found) >= _MOST:
            return sorted(found), n
    return sorted(found), None


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
        behind_n = first_since(history.db, since_us, history.last_n) - 1
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
    first_n = first_since(history.db, nominal_us - _EARLY_US, history.last_n)
    entries = history.entries(duplicate.id, first_n, kinds=_TELLING, is_forwards=True)
    changes = (change for _, entry in entries for change in history.changes_in(entry))
    return any(is_push(change) and change.run_id == duplicate.run_id for change in changes)
