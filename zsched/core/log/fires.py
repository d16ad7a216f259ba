"""Entries with outcomes of occurrences, and with pushes by the leader or on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final, NamedTuple

from zsched.core.changes import BACKFILL, RUN_NOW, WAITS_FOR, Change, What
from zsched.core.choices import Priority
from zsched.core.entry import Entry, any_milliseconds, expect, milliseconds, rows_of, text
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Advanced, OneShotsFired, OneShotsLeft, PushedByRule, Quarantined, Row
from zsched.core.policy import Passed, Range, Why
from zsched.core.run_id import RunKey, nominal_ms_of, run_id_of

_LANES: Final = frozenset(lane.value for lane in Priority)


class _Word(NamedTuple):
    """A word of advance.lua: its change and reason; *counted* is the reason if it is counted separately."""

    what: What | None
    why: str = ""
    counted: str = ""


_ADVANCED: Final = {
    "passed": _Word(None),  # only occurrences that passed
    "fired": _Word(What.FIRED),
    "uncertain": _Word(What.FIRED, "uncertain", "uncertain"),
    "skipped": _Word(What.SKIPPED, "uncertain", "uncertain"),
    "overlap": _Word(What.SKIPPED, "overlap: {} was still open", "overlap"),
    "deferred": _Word(What.FIRED, WAITS_FOR + "{}"),
    "expired": _Word(What.EXPIRED),
    "duplicate": _Word(What.DUPLICATE),
    "quarantined": _Word(What.QUARANTINED),
}


class Fires(NamedTuple):
    """
    Results of firing one-shots. ``uncertain``: *runs* that a lost history may have pushed. ``cancelled``: runs with
    their status in RQ.
    """

    runs: list[RunKey]
    uncertain: frozenset[RunKey]
    skipped: list[RunKey]
    expired: list[RunKey]
    cancelled: list[tuple[RunKey, str]]


_UNDONE: Final = {  # words of lua/lib/moved.lua
    "deleted": "RQ's job, from which it was imported, was deleted",
    "scheduled_again": "RQ's job, from which it was imported, was scheduled again in RQ",
}


class FireEntry(ParsedEntry, kind="fire"):
    """Due one-shots left their lanes. Each text is parsed alone, so a malformed one affects no other."""

    whats = frozenset({What.FIRED, What.SKIPPED, What.EXPIRED, What.CANCELLED})
    is_leaders = True

    @once
    def fires(self) -> Fires:
        """Parse the entry's rows."""
        runs = self._keys(b"runs")
        if runs and len(self.fields) == 1:  # the usual case; the rest takes as long again
            return Fires(runs, frozenset(), [], [], [])
        words = (word.partition("=") for word in text(self.fields.get(b"cancelled", b"")).split())
        return Fires(
            runs=runs,
            uncertain=frozenset(self._keys(b"uncertain")),
            skipped=self._keys(b"skipped"),
            expired=self._keys(b"expired"),
            cancelled=[(key, status) for run_id, _, status in words if (key := self._key(run_id)) is not None],
        )

    def only_fired(self) -> Sequence[RunKey] | None:
        return self.fires.runs if len(self.fields) == 1 and b"runs" in self.fields else None

    def rows(self) -> Iterable[Row]:
        fires = self.fires
        yield OneShotsFired(fires.runs, fires.uncertain)
        if left := [*fires.skipped, *fires.expired, *(key for key, _ in fires.cancelled)]:
            yield OneShotsLeft(left)

    def changes(self) -> Iterator[Change]:
        fires = self.fires
        for key in fires.runs:
            yield self._change_of(key, What.FIRED, "uncertain" if key in fires.uncertain else "")
        for key in fires.skipped:
            yield self._change_of(key, What.SKIPPED, "uncertain")
        for key in fires.expired:
            yield self._change_of(key, What.EXPIRED)
        for key, status in fires.cancelled:
            yield self._change_of(key, What.CANCELLED, _UNDONE.get(status) or f"RQ has it as {status}")

    def fired(self) -> Iterable[tuple[str, int]]:
        return ((id, nominal_ms_of(run) or 0) for id, run in self.fires.runs)

    def counts(self) -> Counts:
        names = b"runs", b"uncertain", b"skipped", b"expired", b"cancelled"
        runs, uncertain, skipped, expired, cancelled = (len(self.fields.get(name, b"").split()) for name in names)
        happened = Counter({
            (What.FIRED, ""): runs - uncertain,
            (What.FIRED, "uncertain"): uncertain,
            (What.SKIPPED, "uncertain"): skipped,
            (What.EXPIRED, ""): expired,
            (What.CANCELLED, ""): cancelled,
        })  # fmt: skip
        dues = re.findall(
            rb"-(\d{1,18})(?:%b)?(?: |$)" % re.escape(self.run_suffix.encode()), self.fields.get(b"runs", b"")
        )
        return Counts(happened, list(map(int, dues)))


class AdvanceEntry(ParsedEntry, kind="advance"):
    """Due recurring schedules moved on to their next occurrence."""

    whats = frozenset({
        What.FIRED, What.SKIPPED, What.EXPIRED, What.COALESCED, What.DUPLICATE, What.QUARANTINED, What.ENDED
    })  # fmt: skip
    is_leaders = True
    DUPLICATE: Final = b"duplicate "  # in the body for a run that existed already

    @once
    def moves(self) -> list[Advanced]:
        """Parse the advances, in order."""
        return [self._move(id, words, why) for id, words, why in self._stored() if self._is_id(id)]

    def _move(self, id: str, words: str, why: str) -> Advanced:
        word, nominal, next_nominal, next_due, passed = words.split(" ")
        nominal, _, jitter = nominal.partition("+")
        nominal_ms = milliseconds(nominal)
        run = "" if nominal_ms is None else f"{nominal_ms}{self.run_suffix}"
        times = nominal_ms, milliseconds(next_nominal), milliseconds(next_due)
        return Advanced(id, run, word, *times, _passed(passed), why, int(jitter or 0))

    def rows(self) -> Iterable[Row]:
        return self.moves

    def changes(self) -> Iterator[Change]:
        for move in self.moves:
            times = {"nominal_ms": move.nominal_ms, "next_ms": move.next_nominal_ms}
            for one in move.passed:
                what, why = _of_passed(one)
                yield self._change(move.id, what, why=why, **times, **asdict(one.range))
            word = _ADVANCED[move.word]
            if word.what is not None:
                run_id = run_id_of(move.id, move.run) if move.is_pushed or word.what is What.DUPLICATE else None
                why = word.why.format(move.why) or move.why
                yield self._change(move.id, word.what, run_id=run_id, why=why, jitter_ms=move.jitter_ms, **times)
            if move.next_due_ms is None and word.what is not What.QUARANTINED:
                yield self._change(move.id, What.ENDED)

    def counts(self) -> Counts:
        happened, dues = Counter[tuple[What, str]](), list[int]()
        for move in self.moves:
            for one in move.passed:
                happened[_of_passed(one)] += one.range.count
            word = _ADVANCED[move.word]
            if word.what is not None:
                happened[word.what, word.counted] += 1
            if move.is_pushed and move.nominal_ms is not None:
                dues.append(move.nominal_ms + move.jitter_ms)
        return Counts(happened, dues)

    def narrowed(self, id: str) -> Entry:
        with suppress(ValueError, IndexError):  # readers of the whole entry report what is malformed
            mine = [row for row in rows_of(self.entry.body) if row[0] == id.encode()]
            return self.entry.with_rows(mine) if mine else self.entry
        return self.entry

    @property
    def is_by_rule(self) -> bool:
        return True


class QuarantineEntry(ParsedEntry, kind="quarantine"):
    """Schedules cannot be planned or pushed. Each row is parsed alone, so a malformed one affects no other."""

    whats = frozenset({What.QUARANTINED})
    is_leaders = True

    def rows(self) -> Iterable[Quarantined]:
        for id, words, reason in self._stored():
            lane, _, due = words.partition(" ")
            if lane not in _LANES:
                self.dropped.append(id)
            elif self._is_id(id):
                yield Quarantined(id, lane, any_milliseconds(due), reason)

    def changes(self) -> Iterator[Change]:
        for row in self.rows():
            yield self._change(row.id, What.QUARANTINED, nominal_ms=row.due_ms, why=row.reason)


class RunNowEntry(ParsedEntry, kind="run_now"):
    """A run of a schedule was pushed before its time; ``last``: it is the last run of a recurring schedule."""

    whats = frozenset({What.ENQUEUED})

    def rows(self) -> Iterable[Row]:
        id, run_id = self._field(b"id"), self._field(b"run")
        run = run_id[len(id) + 1 :]
        yield PushedByRule(id, [run], is_last=True) if self.is_by_rule else OneShotsFired([(id, run)])

    def changes(self) -> Iterator[Change]:
        yield self._change(self._field(b"id"), What.ENQUEUED, run_id=self._field(b"run"), why=RUN_NOW)

    @property
    def is_by_rule(self) -> bool:
        return self.fields[b"last"] == b"1"


class BackfillEntry(ParsedEntry, kind="backfill"):
    """Runs of a recurring schedule were pushed for occurrences that had passed. The schedule is unchanged."""

    whats = frozenset({What.ENQUEUED})

    @once
    def keys(self) -> list[RunKey]:
        """Keys of the runs."""
        expect(b"runs" in self.fields)
        return self._keys(b"runs")

    def rows(self) -> Iterable[Row]:
        yield PushedByRule(self._field(b"id"), [run for _, run in self.keys], is_last=False)

    def changes(self) -> Iterator[Change]:
        for key in self.keys:
            yield self._change_of(key, What.ENQUEUED, BACKFILL)

    @property
    def is_by_rule(self) -> bool:
        return True


def _passed(words: str) -> tuple[Passed, ...]:
    """Parse ``<why>:<first ms>:<last ms>:<count>``, separated by commas."""
    if words == "-":
        return ()
    parts = (one.split(":") for one in words.split(","))
    return tuple(Passed(Why(why), Range(int(first), int(last), int(count))) for why, first, last, count in parts)


def _of_passed(one: Passed) -> tuple[What, str]:
    """Return the kind of change for occurrences that passed, and the reason why they did not fire."""
    return (What.COALESCED, "") if one.why is Why.COALESCED else (What.SKIPPED, one.why.value)
