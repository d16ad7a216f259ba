"""Entries with outcomes of occurrences, and with pushes by the leader or on request."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from zsched.core.entry import Entry, any_milliseconds, milliseconds, rows_of, text
from zsched.core.log.kinds import Counts, ParsedEntry, once
from zsched.core.log.rows import Advanced, DeadlinesMissed, OneShotsFired, OneShotsLeft, PushedByRule, Quarantined, Row
from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, Change
from zsched.core.occurrences.outcomes import LEFT_OUT, Outcome, What, outcome_of
from zsched.core.occurrences.policy import passed_in
from zsched.core.options.choices import Priority
from zsched.core.runs.run_id import RunKey, nominal_ms_of, run_id_of

_LANES: Final = frozenset(lane.value for lane in Priority)
_LISTS: Final = frozenset({b"runs", b"uncertain", b"skipped", b"expired", b"cancelled"})  # of run ids, in a fire
_ADVANCED: Final = {*LEFT_OUT, What.EXCLUDED, What.FIRED, What.DUPLICATE, What.QUARANTINED, What.UNKNOWN, What.ENDED}
_UNDONE: Final = {  # words of lua/lib/moved.lua
    "deleted": "RQ's job, from which it was imported, was deleted",
    "scheduled_again": "RQ's job, from which it was imported, was scheduled again in RQ",
}


class FireEntry(
    ParsedEntry, kind="fire", whats={What.FIRED, What.SKIPPED, What.EXPIRED, What.CANCELLED}, is_leaders=True
):
    """Due one-shots left their lanes. Each text is parsed alone, so a malformed one affects no other."""

    @once
    def pushed(self) -> OneShotsFired:
        """The runs that were pushed."""
        return OneShotsFired(self._keys(b"runs"), frozenset(self._keys(b"uncertain")))

    @once
    def left(self) -> list[tuple[RunKey, What, str]]:
        """The runs that were not pushed, each with what became of it, and why."""
        words = (word.partition("=") for word in text(self.fields.get(b"cancelled", b"")).split())
        undone = [(key, status) for run_id, _, status in words if (key := self._key(run_id)) is not None]
        return [
            *((key, What.SKIPPED, Outcome.UNCERTAIN.reason) for key in self._keys(b"skipped")),
            *((key, What.EXPIRED, "") for key in self._keys(b"expired")),
            *((key, What.CANCELLED, _UNDONE.get(status) or f"its status in RQ is {status}") for key, status in undone),
        ]

    def only_fired(self) -> Sequence[RunKey] | None:
        return self.pushed.at if len(self.fields) == 1 and b"runs" in self.fields else None

    def rows(self) -> Iterable[Row]:
        yield self.pushed
        if self.left:
            yield OneShotsLeft([key for key, _, _ in self.left])

    def changes(self) -> Iterator[Change]:
        for key in self.pushed.at:
            yield self._change_of(key, What.FIRED, Outcome.UNCERTAIN.reason if key in self.pushed.uncertain else "")
        for key, what, why in self.left:
            yield self._change_of(key, what, why)

    def fired(self) -> Iterable[tuple[str, int]]:
        return ((id, nominal_ms_of(run) or 0) for id, run in self.pushed.at)

    def counts(self) -> Counts:
        words = {text(name): len(runs.split()) for name, runs in self.fields.items() if name in _LISTS}
        words["fired"] = words.pop("runs", 0) - words.get("uncertain", 0)
        suffix = re.escape(self.run_suffix.encode())
        dues = re.findall(rb"-(\d{1,18})(?:%b)?(?: |$)" % suffix, self.fields.get(b"runs", b""))
        return Counts(_happened(words), list(map(int, dues)))


class AdvanceEntry(ParsedEntry, kind="advance", whats=_ADVANCED, is_leaders=True):
    """Due recurring schedules moved on to their next occurrence."""

    is_by_rule = True
    DUPLICATE: Final = f"{Outcome.DUPLICATE.word} ".encode()  # in the body for a run that existed already

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
        return Advanced(id, run, word, *times, passed_in(passed), why, int(jitter or 0))

    def rows(self) -> Iterable[Row]:
        return self.moves

    def changes(self) -> Iterator[Change]:
        for move in self.moves:
            times = {"nominal_ms": move.nominal_ms, "next_ms": move.next_nominal_ms}
            yield from self._passed(move.id, move.passed, **times)
            run = move.run if move.outcome.is_pushed or move.outcome is Outcome.DUPLICATE else ""
            run_id = run_id_of(move.id, run) if run else None
            yield from self._of_word(move.id, move.word, move.why, run_id=run_id, jitter_ms=move.jitter_ms, **times)
            if move.next_due_ms is None and move.outcome is not Outcome.QUARANTINED:
                yield self._change(move.id, What.ENDED)

    def counts(self) -> Counts:
        words, dues = Counter[str](), list[int]()
        for move in self.moves:
            words[move.word] += 1
            for one in move.passed:
                words[one.why] += one.number
            if move.outcome.is_pushed and move.nominal_ms is not None:
                dues.append(move.nominal_ms + move.jitter_ms)
        return Counts(_happened(words), dues)

    def narrowed(self, id: str) -> Entry:
        with suppress(ValueError, IndexError):  # readers of the whole entry report what is malformed
            mine = [row for row in rows_of(self.entry.body) if row[0] == id.encode()]
            return self.entry.with_rows(mine) if mine else self.entry
        return self.entry


class QuarantineEntry(ParsedEntry, kind="quarantine", whats={What.QUARANTINED}, is_leaders=True):
    """Schedules cannot be planned or pushed. Each row is parsed alone, so a malformed one affects no other."""

    def rows(self) -> Iterable[Quarantined]:
        for id, words, reason in self._stored():
            lane, _, due = words.partition(" ")
            if lane not in _LANES:
                self.dropped.append(id)
            elif self._is_id(id):
                yield Quarantined(id, any_milliseconds(due), reason)

    def changes(self) -> Iterator[Change]:
        for row in self.rows():
            yield self._change(row.id, What.QUARANTINED, nominal_ms=row.due_ms, why=row.reason)


class DeadlineEntry(ParsedEntry, kind="deadline", whats={What.DEADLINE_MISSED}, is_leaders=True):
    """
    Occurrences missed their deadlines. A row is the id of the run that one has or would have, "<deadline ms> <1 if it
    was pushed, else 0>", and its state.
    """

    def rows(self) -> Iterable[Row]:
        yield DeadlinesMissed([key for key, _, _ in self.run_rows])

    def changes(self) -> Iterator[Change]:
        for key, words, state in self.run_rows:
            at_ms, _, is_pushed = words.partition(" ")
            run_id = run_id_of(*key) if is_pushed == "1" else None
            times = {"nominal_ms": nominal_ms_of(key[1]), "next_ms": int(at_ms)}
            yield self._change(key[0], What.DEADLINE_MISSED, run_id=run_id, why=state, **times)


class RunNowEntry(ParsedEntry, kind="run_now", whats={What.ENQUEUED}):
    """A run of a schedule was pushed before its time; ``last``: it is the last run of a recurring schedule."""

    def rows(self) -> Iterable[Row]:
        id, run_id = self._field(b"id"), self._field(b"run")
        run = run_id[len(id) + 1 :]
        yield PushedByRule(id, [run], is_last=True) if self.is_by_rule else OneShotsFired([(id, run)])

    def changes(self) -> Iterator[Change]:
        yield self._change(self._field(b"id"), What.ENQUEUED, run_id=self._field(b"run"), why=RUN_NOW)

    @property
    def is_by_rule(self) -> bool:
        return self.fields[b"last"] == b"1"


class BackfillEntry(ParsedEntry, kind="backfill", whats={What.ENQUEUED}):
    """Runs of a recurring schedule were pushed for occurrences that had passed. The schedule is unchanged."""

    is_by_rule = True

    def rows(self) -> Iterable[Row]:
        yield PushedByRule(self._field(b"id"), [run for _, run in self.runs], is_last=False)

    def changes(self) -> Iterator[Change]:
        for key in self.runs:
            yield self._change_of(key, What.ENQUEUED, BACKFILL)


def _happened(words: Mapping[str, int]) -> Counter[tuple[What, str]]:
    """Count the changes of outcomes, whose *words* are counted."""
    happened = Counter[tuple[What, str]]()
    for word, number in words.items():
        outcome = outcome_of(word)
        if outcome.what is not None:
            happened[outcome.what, outcome.reason] += number
    return happened
