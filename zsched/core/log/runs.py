"""Entries that say what became of runs: ``end``, ``again`` and ``unblock``. The schedules stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from zsched.core.changes import Change, What
from zsched.core.log.entry import Entry, rows_of, text
from zsched.core.log.kinds import Counts, ParsedEntry
from zsched.core.log.rows import Mentioned, Row, RunsOver
from zsched.core.run_id import run_id_of
from zsched.core.runs import Run, RunStatus, ended_as, ended_run


class EndEntry(ParsedEntry, kind="end"):
    """
    Runs are over: a row is run id, status, and what is recorded of it (JSON, ``core.runs.facts_text``). Leaders write
    it, and who cancels a run.
    """

    whats = frozenset({What.RUN_ENDED})

    def rows(self) -> Iterable[Row]:
        yield RunsOver([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, status, facts in self.run_rows:
            yield self._change_of(key, What.RUN_ENDED, status, record=facts)

    def counts(self) -> Counts:
        return Counts()  # of occurrences nothing is said

    def ended_runs(self) -> Iterator[Run]:
        for key, status, facts in self.run_rows:
            yield ended_run(run_id_of(*key), status, facts, self.at_us // 1000)

    def end_statuses(self) -> Mapping[RunStatus, int]:
        found = Counter[RunStatus]()
        for word, number in Counter(word for _, word, _ in rows_of(self.entry.body)).items():
            found[ended_as(text(word))] += number
        return found

    @staticmethod
    def words(statuses: Iterable[RunStatus]) -> list[bytes]:
        """Return texts, one of which an archive's BLOB of an entry has if a run ended in one of *statuses*."""
        return [f"{status.value}{{".encode() for status in statuses]

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        wanted = {status.value.encode() for status in statuses}
        rows = [row for row in rows_of(self.entry.body) if row[1] in wanted]
        return self.entry.with_rows(rows) if rows else None


class AgainEntry(ParsedEntry, kind="again"):
    """Runs whose workers died are in their queues again: a row is run id, attempt, and why."""

    whats = frozenset({What.RUN_AGAIN})
    is_leaders = True

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, attempt, why in self.run_rows:
            yield self._change_of(key, What.RUN_AGAIN, why, count=int(attempt))


class UnblockEntry(ParsedEntry, kind="unblock"):
    """Runs that waited for others are in their queues, as RQ would never put them there: a row is run id and why."""

    whats = frozenset({What.RELEASED})
    is_leaders = True

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, why, _ in self.run_rows:
            yield self._change_of(key, What.RELEASED, why)
