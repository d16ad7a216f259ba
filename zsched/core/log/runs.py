"""Entries that say what became of runs: ``end``, ``again`` and ``unblock``. The schedules stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from zsched.core.changes import Change, What
from zsched.core.log.entry import Entry, text
from zsched.core.log.kinds import Counts, ParsedEntry
from zsched.core.log.rows import Mentioned, Row, RunsOver
from zsched.core.once import once
from zsched.core.run_id import RunKey
from zsched.core.runs import Run, RunStatus, ended_as, ended_run


class Ended(NamedTuple):
    """A run that is over. ``facts`` is JSON; ``core.runs.of_row`` reads it."""

    run_id: str
    status: str
    facts: str
    key: RunKey


class EndEntry(ParsedEntry, kind="end"):
    """Runs are over. Leaders write it, and who cancels a run."""

    whats = frozenset({What.RUN_ENDED})

    @once
    def ends(self) -> list[Ended]:
        """The runs."""
        found = (line.split(" ", 2) for line in self._lines())
        return [Ended(id, status, facts, key) for id, status, facts in found if (key := self._key(id)) is not None]

    def rows(self) -> Iterable[Row]:
        yield RunsOver([end.key for end in self.ends])

    def changes(self) -> Iterator[Change]:
        for end in self.ends:
            yield self._change_of(end.key, What.RUN_ENDED, end.status, record=end.facts)

    def counts(self) -> Counts:
        return Counts()  # of occurrences nothing is said

    def ended_runs(self) -> Iterator[Run]:
        for end in self.ends:
            yield ended_run(end.run_id, end.status, end.facts, self.at_us // 1000)

    def end_statuses(self) -> Mapping[RunStatus, int]:
        words = Counter(row.split(b" ", 2)[1] for row in self.fields[b"rows"].split(b"\n"))
        found = Counter[RunStatus]()
        for word, number in words.items():
            found[ended_as(text(word))] += number
        return found

    @staticmethod
    def words(statuses: Iterable[RunStatus]) -> list[bytes]:
        """Return the texts that a row's body has where a run ended in one of *statuses*."""
        return [f" {status.value} ".encode() for status in statuses]

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        body, words = self.entry.body, self.words(statuses)
        if len(body) != 2 or not any(word in body[1] for word in words):
            return None
        rows = [row for row in body[1].split(b"\n") if _status_in(row) in words]
        return self.entry._replace(body=[body[0], b"\n".join(rows)]) if rows else None


class Again(NamedTuple):
    """A run whose worker died, and which is in its queue again, for its ``attempt``-th time."""

    run_id: str
    attempt: int
    why: str
    key: RunKey


class AgainEntry(ParsedEntry, kind="again"):
    """Runs whose workers died are in their queues again."""

    whats = frozenset({What.RUN_AGAIN})
    is_leaders = True

    @once
    def runs(self) -> list[Again]:
        """The runs."""
        found = (line.split(" ", 2) for line in self._lines())
        rows = ((id, int(attempt), why) for id, attempt, why in found)
        return [Again(*row, key) for row in rows if (key := self._key(row[0])) is not None]

    def rows(self) -> Iterable[Row]:
        yield Mentioned([run.key for run in self.runs])

    def changes(self) -> Iterator[Change]:
        for run in self.runs:
            yield self._change_of(run.key, What.RUN_AGAIN, run.why, count=run.attempt)


class Released(NamedTuple):
    """A run that waited for others (``overlap="queue"``) and is in its queue."""

    run_id: str
    why: str
    key: RunKey


class UnblockEntry(ParsedEntry, kind="unblock"):
    """Runs that waited for others are in their queues, as RQ would never put them there."""

    whats = frozenset({What.RELEASED})
    is_leaders = True

    @once
    def runs(self) -> list[Released]:
        """The runs."""
        found = (line.split(" ", 1) for line in self._lines())
        return [Released(id, why, key) for id, why in found if (key := self._key(id)) is not None]

    def rows(self) -> Iterable[Row]:
        yield Mentioned([run.key for run in self.runs])

    def changes(self) -> Iterator[Change]:
        for run in self.runs:
            yield self._change_of(run.key, What.RELEASED, run.why)


def _status_in(row: bytes) -> bytes:
    """The second word of *row*, with its blanks."""
    return b" %b " % row.split(b" ", 2)[1] if b" " in row else b""
