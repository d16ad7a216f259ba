"""
Schedules that wait with an owner, a name or a tag, by ``label``: a row per word and entry with such records.

An entry that was replaced since has no row of the state any more, so each candidate is looked up there. ``retention``
deletes the rows of entries that the state does not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from zsched.archive.history import History
from zsched.archive.index import key_of
from zsched.archive.schema import POSTING_BITS
from zsched.core.clock import Clock, SystemClock
from zsched.core.entry import UnknownEntry, reading
from zsched.core.facets import Facets
from zsched.core.log.kinds import parse

_LOOKED_FOR_MS: Final = 1200.0  # an asker waits 2 s
_ENTRIES: Final = "SELECT n FROM label WHERE segment = ? AND word = ?"
_DUE: Final = "SELECT due FROM live WHERE life = ? AND id = ? AND n = ? AND row = ? AND place <> 'open'"


def waiting_with(history: History, *, facets: Facets, clock: Clock | None = None) -> dict[str, Any]:
    """
    Return ``waiting``: due time in ms (None: no time) and id of the schedules in the state with *facets*, which have an
    owner, a name or a tag. None: the state is incomplete, or it takes too long.
    """
    clock = clock or SystemClock()
    until_ms = clock.monotonic_ms() + _LOOKED_FOR_MS
    found = list[tuple[int | None, str]]()
    if not history.has_whole_state or not facets.labels():
        return {"waiting": None}
    for n in _numbers(history, facets):
        if clock.monotonic_ms() >= until_ms:
            return {"waiting": None}
        if (entry := history.entry(n)) is None:
            continue
        with suppress(UnknownEntry):
            parsed = parse(entry, history.run_suffix)
            with reading(entry):
                of_rows = parsed.facets()
                ids = [(id, row) for row, (id, _) in enumerate(parsed.owners()) if of_rows.at(row).has(facets)]
            for id, row in ids:
                due = history.db.execute(_DUE, (history.life, id, n, row)).fetchone()
                found += [] if due is None else [(due[0], id)]
    return {"waiting": found}


def _numbers(history: History, facets: Facets) -> Iterator[int]:
    """Yield the numbers of entries that may have records with *facets*, the newest first."""
    for segment in range(history.last_n >> POSTING_BITS, -1, -1):
        words = (history.db.execute(_ENTRIES, (segment, key_of(word))) for word in facets.labels())
        yield from sorted(set[int].intersection(*({n for (n,) in rows} for rows in words)), reverse=True)
