"""
Entries with later states of a schedule (``pause``, ``resume``, ``replan``), of a run (``end``, ``again``, ``stop``,
``unblock``) and of a leader (``term``). An entry of runs does not change their schedules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from zsched.core.changes import Change, What
from zsched.core.entry import BEFORE_BY, Entry, milliseconds, rows_of, text
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Mentioned, Paused, Replanned, Resumed, Row, RunsOver
from zsched.core.run_id import RunKey, run_id_of
from zsched.core.runs import Run, RunStatus, ended_as, ended_run


class PauseEntry(ParsedEntry, kind="pause"):
    """A schedule was paused."""

    whats = frozenset({What.PAUSED})

    def rows(self) -> Iterable[Row]:
        by = f"{BEFORE_BY}{self.by}" if self.by else ""
        yield Paused(self._field(b"id"), milliseconds(self.fields[b"due"]), self._field(b"note") + by)

    def changes(self) -> Iterator[Change]:
        due_ms = milliseconds(self.fields[b"due"])
        yield self._change(self._field(b"id"), What.PAUSED, nominal_ms=due_ms, why=self._field(b"note"))


class ResumeEntry(ParsedEntry, kind="resume"):
    """A schedule was resumed; with ``count``, without the occurrences that passed in the pause."""

    whats = frozenset({What.RESUMED, What.SKIPPED, What.ENDED})

    def rows(self) -> Iterable[Row]:
        is_skipped, nominal_ms = b"count" in self.fields, milliseconds(self.fields.get(b"nominal"))
        yield Resumed(self._field(b"id"), milliseconds(self.fields[b"due"]), nominal_ms, is_skipped)

    def changes(self) -> Iterator[Change]:
        fields = self.fields
        id, due_ms = text(fields[b"id"]), milliseconds(fields[b"due"])
        goes_on = True
        if b"count" in fields:
            first_ms, last_ms = milliseconds(fields[b"first"]), milliseconds(fields[b"last"])
            times = {"first_ms": first_ms, "last_ms": last_ms, "count": int(fields[b"count"])}
            yield self._change(id, What.SKIPPED, why="paused", **times)
            goes_on = due_ms != first_ms
        if goes_on and due_ms is not None:
            yield self._change(id, What.RESUMED, nominal_ms=due_ms)
        elif due_ms is None:
            yield self._change(id, What.ENDED)


class ReplanEntry(ParsedEntry, kind="replan"):
    """The rules of zones changed. In ``changes``, ``nominal_ms`` is the old time and ``next_ms`` the new one."""

    whats = frozenset({What.REPLANNED})
    is_leaders = True

    @once
    def moved(self) -> list[Replanned]:
        """The schedules that were moved."""
        rows = []
        for id, words, _ in self._stored():
            nominal_ms, new_nominal_ms, new_due_ms = map(int, words.split(" "))
            if self._is_id(id):
                rows.append(Replanned(id, nominal_ms, new_nominal_ms, new_due_ms))
        return rows

    def rows(self) -> Iterable[Row]:
        return self.moved

    def changes(self) -> Iterator[Change]:
        why = f"tzdata {self._field(b'old') or 'unknown'} → {self._field(b'new')}"
        for row in self.moved:
            times = {"nominal_ms": row.nominal_ms, "next_ms": row.new_nominal_ms}
            yield self._change(row.id, What.REPLANNED, why=why, **times)


class EndEntry(ParsedEntry, kind="end"):
    """
    Runs are over. A row is run id, status, and facts (JSON, ``core.runs.facts_text``). Leaders write it, and clients
    that cancel a run.
    """

    whats = frozenset({What.RUN_ENDED})

    def rows(self) -> Iterable[Row]:
        yield RunsOver([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, status, facts in self.run_rows:
            yield self._change_of(key, What.RUN_ENDED, status, record=facts)

    def counts(self) -> Counts:
        return Counts()  # it has no occurrences

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
        """Return texts: an archive's BLOB of an entry has one of them if a run ended in one of *statuses*."""
        return [f"{status.value}{{".encode() for status in statuses]

    def only_ends(self, statuses: Collection[RunStatus]) -> Entry | None:
        wanted = {status.value.encode() for status in statuses}
        rows = [row for row in rows_of(self.entry.body) if row[1] in wanted]
        return self.entry.with_rows(rows) if rows else None


class AgainEntry(ParsedEntry, kind="again"):
    """Runs of dead workers are in their queues again. A row is run id, attempt and reason."""

    whats = frozenset({What.RUN_AGAIN})
    is_leaders = True

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, attempt, why in self.run_rows:
            yield self._change_of(key, What.RUN_AGAIN, why, count=int(attempt))


class StopEntry(ParsedEntry, kind="stop"):
    """The worker of a run was asked to stop it. The run's end is another entry."""

    whats = frozenset({What.STOPPING})

    @once
    def key(self) -> RunKey | None:
        """The key of the run."""
        return self._key(self._field(b"run"))

    def rows(self) -> Iterable[Row]:
        yield Mentioned([] if self.key is None else [self.key])

    def changes(self) -> Iterator[Change]:
        if self.key is not None:
            yield self._change_of(self.key, What.STOPPING)


class UnblockEntry(ParsedEntry, kind="unblock"):
    """Runs that waited for others are in their queues, which RQ would not have done. A row is run id and reason."""

    whats = frozenset({What.RELEASED})
    is_leaders = True

    def rows(self) -> Iterable[Row]:
        yield Mentioned([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, why, _ in self.run_rows:
            yield self._change_of(key, What.RELEASED, why)


class TermEntry(ParsedEntry, kind="term"):
    """A term began."""

    is_leaders = True

    def sentence(self) -> str:
        return f"daemon {self._shown(b'daemon')} leads"
