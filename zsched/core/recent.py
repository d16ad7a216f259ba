"""
The last minutes, counted from the log's newest entries: what became of occurrences, how runs ended, how late, and
whether Redis was rebuilt.

It is given the entries backwards and says when it has enough. Of the kinds that carry thousands (put, fire, end) only
the words that count are read, without a ``Change`` of each row: whoever asks wants an answer at once.

Not guaranteed: that all of the time is counted which was asked for. The log in Redis is short, and who reads it may
have to stop before; the last stretch is then as long as what was read, and ``is_cut`` says so. What Redis lost is not
in it: a stretch that reaches back behind that is not ``is_whole``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from zsched.core.changes import OUTCOMES, What, changes, outcomes
from zsched.core.entries import advanced, quarantined
from zsched.core.log import Entry, UnknownEntry, reading, text
from zsched.core.lookback import only_ends, run_that_ended
from zsched.core.model import iso
from zsched.core.policy import Why
from zsched.core.runs import BAD, OVER, Run, RunStatus, ended_as

_AHEAD_MS: Final = 10_000  # in the future: an entry of a clock that was ahead; a slow network makes less
WINDOWS_MS: Final = (60_000, 300_000, 1_800_000)  # the log in Redis keeps an hour, if that is not too much
FAILURES: Final = 10  # kinds of failures that are told of
_FAILED: Final = (*BAD, RunStatus.EXPIRED)
_COMPARED: Final = 1000  # runs that failed, of which those that are alike are told as one
HAPPENED: Final = (What.PUT, *OUTCOMES)  # what is counted


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    The last *span_ms*: how often what happened, as which runs ended, and how much later than due the latest was fired
    (None: none was). ``missed``: how many of those that were skipped had passed, as their schedule was paused or
    nobody led, and by its catch-up do not fire any more. ``is_whole`` is False when Redis lost a part of what happened.
    """

    span_ms: int
    happened: Mapping[What, int]
    ended: Mapping[RunStatus, int]
    late_ms: float | None
    missed: int = 0
    is_whole: bool = True

    def per_second(self, what: What) -> float:
        """How often that happened in a second."""
        return self.happened.get(what, 0) * 1000 / self.span_ms

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it, every key always: a promise."""
        return {
            "span_s": self.span_ms / 1000,
            "happened": {what.value: self.happened.get(what, 0) for what in HAPPENED},
            "ended": {status.value: self.ended.get(status, 0) for status in RunStatus if status in OVER},
            "late_ms": None if self.late_ms is None else round(self.late_ms, 3),
            "missed": self.missed,
            "is_whole": self.is_whole,
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """*times* runs of one schedule that failed, were lost or expired in their queue alike; *run* is the last."""

    run: Run
    times: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it."""
        return self.run.to_dict() | {"times": self.times}


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """
    Redis had lost something, all of which was put back at *at_ms*. *changes*: how many schedules were RESTORED, runs
    PUSHED_AGAIN or SKIPPED as uncertain, …, as far as the log was read.
    """

    at_ms: int
    changes: Mapping[What, int]


@dataclass(frozen=True, slots=True)
class Ahead:
    """
    A clock of Redis that was ahead. ``until_ms``: the latest time that it showed. ``times``: the recurring schedules
    that were advanced by it, each with its next nominal time. Unless changed since, a schedule is silent until then.
    """

    until_ms: int
    times: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {"until": iso(self.until_ms), "silent": sorted(self.times)}


@dataclass(frozen=True, slots=True)
class Recent:
    """
    The *stretches*, the shortest first; the runs that failed, were lost or expired last, the latest end first; the last
    loss of Redis; when its clock was ``ahead`` last. ``is_cut``: the longest stretch is shorter than was asked for.
    """

    stretches: Sequence[Stretch]
    failures: Sequence[Failure]
    rebuilt: Rebuilt | None
    is_cut: bool
    ahead: Ahead | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it."""
        rebuilt = self.rebuilt
        changes = {} if rebuilt is None else {what.value: count for what, count in rebuilt.changes.items() if count}
        return {
            "stretches": [stretch.to_dict() for stretch in self.stretches],
            "is_cut": self.is_cut,
            "rebuilt": None if rebuilt is None else {"at": iso(rebuilt.at_ms), "changes": changes},
            "ahead": None if self.ahead is None else self.ahead.to_dict(),
        }


class Counting:
    """Counts entries of the log at *now_ms*, the newest first. *run_suffix* is the namespace's part of run ids."""

    def __init__(self, now_ms: int, run_suffix: str = "", windows_ms: Sequence[int] = WINDOWS_MS) -> None:
        self._now_ms, self._run_suffix, self._windows_ms = now_ms, run_suffix, list(windows_ms)
        self._stretches: list[Stretch] = []
        self._happened: Counter[What] = Counter()
        self._ended: Counter[RunStatus] = Counter()
        self._late_ms: float | None = None
        self._missed = 0
        self._failures: dict[tuple[str, RunStatus, str], Failure] = {}  # by what is alike
        self._compared = 0
        self._rebuilt_ms: int | None = None
        self._put_back: Counter[What] = Counter()
        self._ahead_ms, self._silent = 0, dict[str, int]()
        self._read_ms = 1  # how far back that was

    def see(self, entry: Entry) -> bool:
        """Count *entry*; False when it is from before all that is asked for, so that no more are needed."""
        age_ms = self._now_ms - entry.position.t_us // 1000
        while self._windows_ms and age_ms >= self._windows_ms[0]:
            self._close(self._windows_ms.pop(0))
        if self._windows_ms:
            self._read_ms = max(age_ms, self._read_ms)
            if age_ms < -_AHEAD_MS:
                self._note_ahead(entry)
            with suppress(UnknownEntry):  # of a newer version, or a foreign hand's
                self._count(entry)
        return bool(self._windows_ms)

    def told(self, *, is_all: bool) -> Recent:
        """What was counted. *is_all*: nothing was before the entries that were seen."""
        is_cut = bool(self._windows_ms) and not is_all
        for span_ms in [self._read_ms] if is_cut else self._windows_ms:
            self._close(span_ms)
        self._windows_ms = []
        rebuilt = None if self._rebuilt_ms is None else Rebuilt(self._rebuilt_ms, self._put_back)
        ahead = Ahead(self._ahead_ms, self._silent) if self._ahead_ms else None
        return Recent(self._stretches, list(self._failures.values()), rebuilt, is_cut, ahead)

    def _close(self, span_ms: int) -> None:
        happened, ended, is_whole = Counter(self._happened), Counter(self._ended), self._rebuilt_ms is None
        self._stretches.append(Stretch(span_ms, happened, ended, self._late_ms, self._missed, is_whole))

    def _note_ahead(self, entry: Entry) -> None:
        """Note an entry of a clock that was ahead. The newest entry of a schedule has its next nominal time."""
        self._ahead_ms = max(self._ahead_ms, entry.position.t_us // 1000)
        with suppress(UnknownEntry):
            for row in advanced(entry) if entry.kind == "advance" else ():
                if row.next_nominal_ms is not None and row.next_nominal_ms > self._now_ms + _AHEAD_MS:
                    self._silent.setdefault(row.id, row.next_nominal_ms)

    # -- an entry ---------------------------------------------------------------------------------

    def _count(self, entry: Entry) -> None:
        """Raises UnknownEntry; what was counted of the entry until then stays."""
        with reading(entry):
            if entry.kind == "put":
                self._happened[What.PUT] += int(entry.body[5 + 2 * int(entry.body[3])])
            elif entry.kind == "fire":
                self._count_fire(entry)
            elif entry.kind == "end":
                self._count_end(entry)
            elif entry.kind == "merged":
                self._rebuilt_ms = self._rebuilt_ms or entry.position.t_us // 1000
            else:
                self._count_changes(entry)

    def _count_fire(self, entry: Entry) -> None:
        fields = entry.fields()
        runs = fields.get(b"runs", b"").split()
        self._happened[What.FIRED] += len(runs)
        for what, name in ((What.SKIPPED, b"skipped"), (What.EXPIRED, b"expired"), (What.CANCELLED, b"cancelled")):
            self._happened[what] += len(fields.get(name, b"").split())
        self._happened[What.QUARANTINED] += sum(1 for _ in quarantined(fields.get(b"quarantined")))
        if runs:
            suffix = self._run_suffix.encode()
            due_ms = min(int(run.removesuffix(suffix).rpartition(b"-")[2]) for run in runs)
            self._note_late((entry.position.t_us - due_ms * 1000) / 1000)

    def _count_end(self, entry: Entry) -> None:
        words = Counter(row.split(b" ", 2)[1] for row in entry.fields()[b"rows"].split(b"\n"))
        for word, number in words.items():
            self._ended[ended_as(text(word))] += number
        failed = only_ends(entry, _FAILED) if self._compared < _COMPARED else None
        if failed is not None:
            for change in reversed(list(changes(failed, self._run_suffix))):
                self._note_failure(run_that_ended(change))

    def _note_failure(self, run: Run) -> None:
        self._compared += 1
        alike = run.schedule_id, run.status, run.error
        known = self._failures.get(alike)
        if known is not None:
            self._failures[alike] = replace(known, times=known.times + 1)
        elif len(self._failures) < FAILURES:
            self._failures[alike] = Failure(run)

    def _count_changes(self, entry: Entry) -> None:
        told = list(outcomes(entry, self._run_suffix))
        for change in told:
            if change.what in HAPPENED:
                self._happened[change.what] += change.count
            if change.what is What.SKIPPED and change.why == Why.MISSED.value:
                self._missed += change.count
            if change.what is What.FIRED and change.late_ms is not None:
                self._note_late(change.late_ms)
        if entry.kind == "restore" and entry.body[1] == b"lost":  # and not the audit's
            self._put_back.update(change.what for change in told)
            self._put_back[What.RESTORED] += int(entry.body[5]) - len(told)

    def _note_late(self, late_ms: float) -> None:
        self._late_ms = late_ms if self._late_ms is None else max(late_ms, self._late_ms)
