"""
The part of the client that reads the past: what happened to a schedule, to occurrences, and at all.

It is asked of a daemon's archive through Redis, and read from what Redis still holds when none answers; every
answer says which. Nothing here writes but the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from zsched.core.arguments import check_id, choice, instant_ms, zone_name
from zsched.core.changes import OUTCOMES, Change, What
from zsched.core.log import Entry, Position
from zsched.core.story import Source, Story, tell
from zsched.errors import InvalidSchedule
from zsched.storage.inquiry import Inquiry
from zsched.storage.reader import Reader


class Past:
    """What ``Client`` knows of the past of its namespace. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, reader: Reader, inquiry: Inquiry) -> None:
        self._reader, self._inquiry = reader, inquiry

    def why(self, id: str, tz: str | None = None) -> Story:
        """
        The story of a schedule: created, changed, fired, skipped and why, and what comes next; from an archive, or
        from what Redis still holds. ``Story.source`` says which. Times are local in *tz*, else in its own zone.
        """
        zone = zone_name(tz)
        chronicle = self._inquiry.chronicle(check_id(id))
        found = self._reader.find(id)
        if found is None and not chronicle.explains_absence:  # it may have fired between the two
            chronicle = self._inquiry.chronicle(id)
        return tell(chronicle, found.schedule if found else None, self._reader.now_ms(), zone)

    def history(
        self, id: str | None = None, *, status: str | What | None = None, limit: int = 20
    ) -> tuple[Sequence[Change], Source]:
        """
        What became of the latest occurrences, the newest first: fired, enqueued, skipped, coalesced, duplicate,
        cancelled or quarantined; of schedule *id* alone, or with one *status* alone. And where that comes from.
        """
        _check_limit(limit, 1000)
        wanted = OUTCOMES if status is None else (choice("status", status, What),)
        if not set(wanted) <= set(OUTCOMES):
            words = ", ".join(what.value for what in OUTCOMES)
            raise InvalidSchedule("status", status, "not what becomes of an occurrence", f"give one of {words}")
        return self._inquiry.occurrences(wanted, limit, None if id is None else check_id(id))

    def log(self, since: datetime | None = None, *, limit: int = 50) -> tuple[Iterator[Entry], Source]:
        """
        All entries of the log since *since* (aware), or the newest *limit*, in order; and where they come from.

        Raises:
            ArchiveError: while they are read, when the archive stops answering.
        """
        _check_limit(limit, 50_000)
        since_us = None if since is None else instant_ms("since", since, None) * 1000
        return self._inquiry.entries(since_us, limit)

    def follow_log(self, after: Position | None = None) -> Iterator[Entry]:
        """Entries of the log behind *after*, or from now on, as they come; it does not end."""
        return self._inquiry.follow(after or self._inquiry.last())


def _check_limit(limit: object, most: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise InvalidSchedule("limit", limit, "not a number of things to show", f"give 1 to {most}")
