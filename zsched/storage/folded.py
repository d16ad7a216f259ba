"""
The log in Redis, folded into an archive in memory: where no daemon's archive answers, it answers the same questions.

::

    the log's end ──► read backwards, within bounds ──► archive.append ──► storage.answering

A question about one schedule takes only the entries that name it, so it goes further back: 50,000 entries. Its history
needs no archive. Any other question folds 20,000 rows, in half a second. That fold is kept, and the next question adds
what came since. What was before a fold is unknown, and every answer says since when it knows.

Threads and greenlets may share it: they read the log at the same time, and fold and ask in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from zsched.core.entry import Entry, Position, any_milliseconds
from zsched.core.log.kinds import is_leaders, narrowed
from zsched.core.log.lives import TermEntry
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

if TYPE_CHECKING:
    from zsched.archive.temporary import LogEnd, TemporaryArchive

    Fold = TemporaryArchive | LogEnd

_ROWS: Final = 20_000  # in one fold
_ROW_BYTES: Final = 2048  # a larger row counts as several: a fold has 40 MiB at most
_ENTRIES: Final = 50_000  # read backwards, at most
_LOOKED_FOR_MS: Final = 5000.0  # the same


class FoldedLog:
    """The end of one namespace's log, over one link. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._namespace, self._log = link, keys.namespace, Log(link, keys)
        self._kept: TemporaryArchive | None = None

    def fold(self, id: str | None, *, is_searched: bool = True) -> Fold:
        """
        Fold the log's end; with *id*, the part about that schedule may do. Not *is_searched*: so may its history alone.
        """
        from zsched.archive.temporary import folded

        kept = self._kept
        if kept is not None and (kept.rows >= 2 * _ROWS or kept.last is None):
            kept = None
        if id is None or (kept is not None and kept.is_whole):
            end, follows = self._read(None, None if kept is None else kept.last)
            if id is None or follows:
                self._kept = archive = self._link.compute(folded, end, kept if follows else None)
                return archive
        end, _ = self._read(id, None)
        return self._link.compute(folded, end, None) if is_searched else end

    def _read(self, id: str | None, known: Position | None) -> tuple[LogEnd, bool]:
        """Read the log backwards to the entry *known*, or as far as the bounds allow. Return True if that was there."""
        from zsched.archive.temporary import LogEnd  # most clients fold nothing

        found, rows, first, last, follows = list[Entry](), 0, None, None, False
        back = self._log.back(_ENTRIES, for_ms=_LOOKED_FOR_MS)
        for entry, part in ((entry, entry) for entry in back) if id is None else _parts_about(id, back):
            if follows := entry.position == known:
                break
            first, last = entry.position, last or entry.position
            if part is not None:
                found.append(part)
                rows += max(_rows_in(part), part.size // _ROW_BYTES)
            if rows >= _ROWS:
                break
        return LogEnd(self._namespace, found[::-1], first, last), follows


def _parts_about(id: str, back: Iterable[Entry]) -> Iterator[tuple[Entry, Entry | None]]:
    """Yield the entries *back*, each with its part that concerns schedule *id*, or tells when leaders came and went."""
    name, wants_leader = id.encode(), False
    for entry in back:
        is_term = entry.kind == TermEntry.kind
        is_of_leader = is_term or (wants_leader and is_leaders(entry))
        if is_of_leader:
            wants_leader = is_term  # its predecessor's last entry is the next one
        is_about = any(name in each for each in entry.body)
        yield entry, narrowed(entry, id) if is_about else entry if is_of_leader else None


def _rows_in(entry: Entry) -> int:
    """Return about how many rows *entry* has, without parsing it."""
    names = entry.body[::2]
    if b"rows" in names:
        return any_milliseconds(entry.body[2 * names.index(b"rows") + 1]) or 1
    return 1 + max((each.count(b" ") for each in entry.body), default=0)  # run ids in one text
