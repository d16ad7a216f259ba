"""
What happened: asked of an archive, or, when none answers, read from the log that Redis still holds.

Every answer says which of the two it is, since when nothing is missing in it, and how far it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from zsched.core.log import Change, Entry, UnknownEntry, What, changes
from zsched.core.story import LATE_MS, Chronicle, Source
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.questions import WAIT_S, Questions

_PAGE: Final = 100  # log entries in one read or answer
_LOOKED_AT: Final = 50_000  # entries of the log in Redis, at most


class Inquiry:
    """Questions about one namespace's past over one link. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._questions, self._log, self._suffix = Questions(link, keys), Log(link, keys), keys.run_suffix

    def chronicle(self, id: str, newest: int = 40) -> Chronicle:
        """What is known of schedule *id*: its first change and its *newest* ones."""
        answer, source = self._ask("schedule", id=id, newest=newest)
        if answer is not None:
            return Chronicle(id, source, _changes(answer), int(answer["total"]), dict(answer["terms"]))
        return self._from_log(id, newest, source)

    def occurrences(self, whats: Iterable[What], limit: int, id: str | None = None) -> tuple[list[Change], Source]:
        """The newest *limit* changes of the kinds *whats*, the newest first; of schedule *id* alone if it is given."""
        wanted = frozenset(whats)
        names = sorted(what.value for what in wanted)
        answer, source = self._ask("occurrences", whats=names, limit=limit, id=id)
        if answer is not None:
            return _changes(answer), source
        mine = (change for entry in self._back() for change in reversed(self._read(entry)))
        found = (change for change in mine if change.what in wanted and id in (None, change.id))
        return list(islice(found, limit)), source

    def entries(self, since_us: int | None, limit: int) -> tuple[Iterator[Entry], Source]:
        """
        Entries of the log, in order: those with t >= *since_us*, or the newest *limit*; then the source, which is
        Redis where its log goes back far enough.
        """
        first = self._log.first()
        if first is None or first.position.seq == 1 or (since_us is not None and first.position.t_us <= since_us):
            return self._entries_of_log(since_us, limit), self._redis(first, "its log goes back far enough")
        answer, source = self._ask("entries", since_us=since_us, after_n=0, limit=_PAGE if since_us else limit)
        if answer is None:
            return self._entries_of_log(since_us, limit), source
        return self._entries_of_archive(answer, since_us), source

    def follow(self, after: str, wait_ms: int = 1000) -> Iterator[Entry]:
        """Entries behind id *after* as they come; for ever. The newest entry's id is ``last``."""
        while True:
            if self._log.wait(after, wait_ms):
                for entry in self._log.read(f"({after}", _PAGE):
                    after = entry.position.id
                    yield entry

    def last(self) -> str:
        """The id of the log's newest entry; "0-0" when there is none."""
        last = self._log.last()
        return last.position.id if last else "0-0"

    # -- from an archive --------------------------------------------------------------------------

    def _ask(self, about: str, **arguments: Any) -> tuple[dict[str, Any] | None, Source]:
        """An archive's answer and where it comes from; or None, and what can be told from Redis."""
        answer = self._questions.ask(about, **arguments)
        if answer is None or "error" in answer:
            problem = answer["error"] if answer else f"no archive answered within {WAIT_S:g} s"
            return None, self._redis(self._log.first(), problem)
        told = answer["source"]
        since = told["complete_since"]
        since_ms = int(since) // 1000 if since not in (None, "start") else None
        return answer, Source(told["archive"], since_ms, told["as_of"])

    def _entries_of_archive(self, answer: dict[str, Any], since_us: int | None) -> Iterator[Entry]:
        while answer["entries"]:
            for _, id, texts in answer["entries"]:
                yield Entry.of(id.encode(), [text.encode("latin-1") for text in texts])
            if since_us is None:
                return
            after_n = answer["entries"][-1][0]
            further, _ = self._ask("entries", since_us=since_us, after_n=after_n, limit=_PAGE)
            if further is None:
                return
            answer = further

    # -- from the log in Redis --------------------------------------------------------------------

    def _redis(self, first: Entry | None, problem: str) -> Source:
        is_complete = first is None or first.position.seq == 1
        since_ms = None if first is None or is_complete else first.position.t_us // 1000
        return Source(None, since_ms, self.last(), problem)

    def _entries_of_log(self, since_us: int | None, limit: int) -> Iterator[Entry]:
        if since_us is None:
            return reversed(list(islice(self._back(), limit)))
        since = self._log.search(lambda position: position.t_us >= since_us)
        return iter(()) if since is None else self._log.entries(since.id, _PAGE)

    def _from_log(self, id: str, newest: int, source: Source) -> Chronicle:
        found: list[list[Change]] = []
        terms: dict[str, int] = {}
        late: list[str] = []
        for entry in self._back():
            if entry.kind == "term":
                terms |= dict.fromkeys(late, entry.position.t_us)
                late = []
            mine = [change for change in self._read(entry) if change.id == id]
            late += [change.entry for change in mine if (change.late_ms or 0) > LATE_MS]
            found += [mine] if mine else []
        kept = found if len(found) <= newest + 1 else [*found[:newest], found[-1]]
        return Chronicle(id, source, [change for mine in reversed(kept) for change in mine], len(found), terms)

    def _back(self) -> Iterator[Entry]:
        """The log from its end, as far as is looked."""
        last, left = "+", _LOOKED_AT
        while left > 0 and (page := self._log.read_back(last, _PAGE)):
            yield from page
            last, left = f"({page[-1].position.id}", left - len(page)

    def _read(self, entry: Entry) -> list[Change]:
        try:
            return list(changes(entry, self._suffix))
        except UnknownEntry:
            return []


def _changes(answer: dict[str, Any]) -> list[Change]:
    return [Change.of_dict(change) for change in answer["changes"]]
