"""Entries that say how a schedule goes on: ``pause``, ``resume``, ``replan``; and ``term``, who leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zsched.core.changes import Change, What
from zsched.core.log.entry import milliseconds, text
from zsched.core.log.kinds import ParsedEntry
from zsched.core.log.rows import Paused, Replanned, Resumed, Row
from zsched.core.once import once


class PauseEntry(ParsedEntry, kind="pause"):
    """A schedule was paused."""

    whats = frozenset({What.PAUSED})

    def rows(self) -> Iterable[Row]:
        yield Paused(self._field(b"id"), milliseconds(self.fields[b"due"]), self._field(b"note"))

    def changes(self) -> Iterator[Change]:
        due_ms = milliseconds(self.fields[b"due"])
        yield self._change(self._field(b"id"), What.PAUSED, nominal_ms=due_ms, why=self._field(b"note"))


class ResumeEntry(ParsedEntry, kind="resume"):
    """A schedule goes on; with ``count``, without the occurrences that passed in the pause."""

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
    """The rules of zones changed. In ``changes`` ``nominal_ms`` is the time that was, ``next_ms`` the one that is."""

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


class TermEntry(ParsedEntry, kind="term"):
    """A term began."""

    is_leaders = True

    def sentence(self) -> str:
        return f"daemon {self._shown(b'daemon')} leads"
