"""The source of an answer about the past: an archive, or the log in Redis."""

from dataclasses import dataclass, replace
from typing import Any, Self

from zsched.core.entry import Position
from zsched.core.model import iso, json_of
from zsched.core.story.sentences import local_text


@dataclass(frozen=True, slots=True)
class Source:
    """
    Source of an answer. ``archive``: host and path; None: only Redis, whose log is short.

    ``complete_since_ms``: the source is complete since then; None: since the beginning (only an archive), or there is
    no log. ``as_of``: its last log entry. ``is_untrimmed``: True for Redis if its log still has its first entry. That
    is the beginning, unless Redis lost its data before. ``place``: the namespace and its Redis.
    """

    archive: str | None
    complete_since_ms: int | None
    as_of: str | None
    problem: str = ""
    is_untrimmed: bool = False
    place: str = "this namespace"
    as_of_ms: int | None = None

    @property
    def whole_since_us(self) -> int:
        """The time since when it is complete, in µs; 0: since the beginning."""
        return 0 if self.is_untrimmed else (self.complete_since_ms or 0) * 1000

    @property
    def is_complete(self) -> bool:
        """True if it knows everything since the beginning, up to now."""
        return self.archive is not None and self.complete_since_ms is None and not self.problem

    @property
    def shortfall(self) -> str:
        """Up to when an archive knows without Redis; "" if Redis helped."""
        if self.archive is None or not self.problem:
            return ""
        at = "its beginning" if self.as_of_ms is None else local_text(self.as_of_ms, "UTC")
        return f"by an archive that knows what happened up to {at}, as Redis does not answer"

    def __str__(self) -> str:
        since = "" if self.complete_since_ms is None else local_text(self.complete_since_ms, "UTC")
        problem = f": {self.problem}" if self.problem else ""
        if self.archive is not None:
            extent = f"complete since {since or 'the beginning'}, up to log entry {self.as_of}"
            at = "" if self.as_of_ms is None else f" of {local_text(self.as_of_ms, 'UTC', has_ms=True)}"
            return f"from the archive {self.archive}, {extent}{at}{problem}"
        log = f"whose log goes back to {since}" if since else "whose log is empty"
        return f"from Redis alone, {log}{problem}"

    def of_log(self, first: Position | None, last: Position | None) -> Self:
        """Return it, of no archive, as that of the log in Redis from *first* to *last*; None: it is empty."""
        since_ms, as_of = None if first is None else first.t_us // 1000, None if last is None else last.id
        is_untrimmed = first is None or first.seq == 1
        return replace(self, complete_since_ms=since_ms, as_of=as_of, is_untrimmed=is_untrimmed)

    def to_dict(self) -> dict[str, Any]:
        """Return the source for JSON; ``complete_since`` is "start" for the beginning."""
        since = iso(self.complete_since_ms) or (None if self.archive is None else "start")
        names = "place", "archive", "complete_since", "as_of", "as_of_at", "problem"
        return json_of(self, *names, complete_since=since)
