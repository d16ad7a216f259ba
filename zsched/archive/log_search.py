"""Search the log in an archive, the newest entry first: for what somebody asked for, an id, or a kind of change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from zsched.archive import body
from zsched.archive.history import History
from zsched.archive.index import asked_by, key_of
from zsched.archive.schema import POSTING_BITS, first_since
from zsched.core.clock import Clock, SystemClock
from zsched.core.entry import Entry
from zsched.core.log.kinds import kinds_telling
from zsched.core.occurrences.outcomes import OUTCOMES, What

_LOOKED_FOR_MS: Final = 1000.0
_WINDOW: Final = 2000  # entries of any kind between two readings of the clock
_PLACES: Final = "SELECT n FROM posting WHERE segment = ? AND value = ? AND n >= ? AND n < ? ORDER BY n DESC"


def log_search(
    history: History, *, by: str | None, id: str | None, what: What | None, limit: int, until_us: int | None = None,
    is_all: bool = False, clock: Clock | None = None,
) -> dict[str, Any]:  # fmt: skip
    """
    Return the newest *limit* ``entries`` of the log before *until_us* that *by* asked for (None: anybody), and that
    have a change of schedule *id* of the kind *what*; *is_all*: that nobody asked for, too. ``reached_us``: the time of
    the oldest one that was looked at, if there may be more.
    """
    clock = clock or SystemClock()
    found, until_ms = list[Entry](), clock.monotonic_ms() + _LOOKED_FOR_MS
    last_n = history.last_n if until_us is None else first_since(history.db, until_us, history.last_n) - 1
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
