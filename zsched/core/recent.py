"""
The last minutes, counted from the log's newest entries: outcomes of occurrences and runs, lateness, losses of Redis.

The counter gets the entries backwards, and reports when it has enough. Of entries with thousands of rows only the words
to count are read (``ParsedEntry.counts``), without a ``Change`` for each row, to answer quickly.

Not guaranteed: that the whole requested time is counted. The log in Redis is short, and its reader may have to stop
earlier. The last stretch is then as long as the time that was read, and ``is_cut`` is True. Entries that Redis lost are
missing: ``is_whole`` is False for a stretch that begins before a loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from zsched.core.changes import OUTCOMES, What
from zsched.core.log import Entry, UnknownEntry, parse, reading
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import ParsedEntry
from zsched.core.log.recovery import MergedEntry, RestoreEntry
from zsched.core.model import iso, seconds
from zsched.core.policy import Why
from zsched.core.runs import BAD, OVER, Run, RunStatus

_AHEAD_MS: Final = 10_000  # in the future: an entry from a clock that was ahead; a slow network makes less
WINDOWS_MS: Final = (60_000, 300_000, 1_800_000)  # the log in Redis keeps an hour, unless that is too large
FAILURES: Final = 10  # kinds of failures in a report
_FAILED: Final = (*BAD, RunStatus.EXPIRED)
_COMPARED: Final = 1000  # failed runs that are grouped by their kind of failure
HAPPENED: Final = (What.PUT, *OUTCOMES)  # changes that are counted
LEFT_OUT: Final = (What.SKIPPED, What.EXPIRED, What.COALESCED)
_SAMPLED: Final = 20_000  # firings whose lateness is kept, the newest
_MISSED: Final = (What.SKIPPED, Why.MISSED.value)


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    The last *span_ms*: numbers of changes, statuses of ended runs, and the largest lateness of a firing (None: nothing
    fired). ``missed``: number of skipped occurrences that had passed while their schedule was paused or no daemon led,
    and that catch-up does not fire. ``is_whole`` is False if Redis lost a part of the entries. ``late_p50_ms`` and
    ``late_p99_ms`` are of the newest 20,000 firings.
    """

    span_ms: int
    happened: Mapping[What, int]
    ended: Mapping[RunStatus, int]
    late_ms: float | None
    missed: int = 0
    is_whole: bool = True
    late_p50_ms: float | None = None
    late_p99_ms: float | None = None

    @property
    def left_out(self) -> int:
        """The number of occurrences that were not pushed, as it was too late or the run before was not over."""
        return sum(self.happened.get(what, 0) for what in LEFT_OUT)

    def per_second(self, what: What) -> float:
        """Return the rate of *what*, per second."""
        return self.happened.get(what, 0) * 1000 / self.span_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the stretch for JSON; every key is always present and stable."""
        return {
            "span_s": seconds(self.span_ms),
            "happened": {what.value: self.happened.get(what, 0) for what in HAPPENED},
            "ended": {status.value: self.ended.get(status, 0) for status in RunStatus if status in OVER},
            "late_s": seconds(self.late_ms),
            "late_p50_s": seconds(self.late_p50_ms),
            "late_p99_s": seconds(self.late_p99_ms),
            "missed": self.missed,
            "is_whole": self.is_whole,
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """*times* runs of one schedule with the same failure, loss or expiry; *run* is the last."""

    run: Run
    times: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return self.run.to_dict() | {"times": self.times}


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """
    A loss of Redis that was restored at *at_ms*. *changes*: numbers of schedules RESTORED, of runs PUSHED_AGAIN or
    SKIPPED as uncertain, …, as far as the log was read.
    """

    at_ms: int
    changes: Mapping[What, int]


@dataclass(frozen=True, slots=True)
class Ahead:
    """
    A clock of Redis that was ahead. ``until_ms``: the latest time that it showed. ``times``: recurring schedules that
    it advanced, each with its next nominal time. An unchanged schedule does not fire until then.
    """

    until_ms: int
    times: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {"until": iso(self.until_ms), "silent": sorted(self.times)}


@dataclass(frozen=True, slots=True)
class Recent:
    """
    The *stretches*, the shortest first; the latest runs that failed, were lost or expired, the latest end first; the
    last loss of Redis; the last time that its clock was ``ahead``. ``is_cut``: the longest stretch is shorter than
    requested.
    """

    stretches: Sequence[Stretch]
    failures: Sequence[Failure]
    rebuilt: Rebuilt | None
    is_cut: bool
    ahead: Ahead | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
        self._lates = list[float]()  # in ms, of the newest firings
        self._missed = 0
        self._failures: dict[tuple[str, RunStatus, str], Failure] = {}  # by schedule, status and error
        self._compared = 0
        self._rebuilt_ms: int | None = None
        self._put_back: Counter[What] = Counter()
        self._ahead_ms, self._silent = 0, dict[str, int]()
        self._read_ms = 1  # how far back entries were read

    def see(self, entry: Entry) -> bool:
        """Count *entry*; return False if it is before the requested time, so that no more entries are needed."""
        age_ms = self._now_ms - entry.position.t_us // 1000
        while self._windows_ms and age_ms >= self._windows_ms[0]:
            self._close(self._windows_ms.pop(0))
        if self._windows_ms:
            self._read_ms = max(age_ms, self._read_ms)
            if age_ms < -_AHEAD_MS:
                self._note_ahead(entry)
            with suppress(UnknownEntry):  # an entry of a newer version or of another writer
                self._count(entry)
        return bool(self._windows_ms)

    def told(self, *, is_all: bool) -> Recent:
        """Return the counts. *is_all*: there are no entries before those that were seen."""
        is_cut = bool(self._windows_ms) and not is_all
        for span_ms in [self._read_ms] if is_cut else self._windows_ms:
            self._close(span_ms)
        self._windows_ms = []
        rebuilt = None if self._rebuilt_ms is None else Rebuilt(self._rebuilt_ms, self._put_back)
        ahead = Ahead(self._ahead_ms, self._silent) if self._ahead_ms else None
        return Recent(self._stretches, list(self._failures.values()), rebuilt, is_cut, ahead)

    def _close(self, span_ms: int) -> None:
        happened, ended, is_whole = Counter(self._happened), Counter(self._ended), self._rebuilt_ms is None
        sorted_ms = sorted(self._lates)
        p50, p99 = ((sorted_ms[int((len(sorted_ms) - 1) * share)] if sorted_ms else None) for share in (0.5, 0.99))
        self._stretches.append(Stretch(span_ms, happened, ended, self._late_ms, self._missed, is_whole, p50, p99))

    def _note_ahead(self, entry: Entry) -> None:
        """Note an entry of a clock that was ahead. The newest entry of a schedule has its next nominal time."""
        self._ahead_ms = max(self._ahead_ms, entry.position.t_us // 1000)
        advance = AdvanceEntry.of(entry)
        with suppress(UnknownEntry), reading(entry):
            for move in advance.moves if advance else ():
                if move.next_nominal_ms is not None and move.next_nominal_ms > self._now_ms + _AHEAD_MS:
                    self._silent.setdefault(move.id, move.next_nominal_ms)

    # -- an entry ---------------------------------------------------------------------------------

    def _count(self, entry: Entry) -> None:
        """Count *entry*. Raises UnknownEntry; the counts of its readable part stay."""
        parsed = parse(entry, self._run_suffix)
        with reading(entry):
            counts = parsed.counts()
            happened = Counter[What]()
            for (what, why), number in counts.happened.items():
                happened[what] += number
                self._missed += number if (what, why) == _MISSED else 0
            self._happened.update({what: happened[what] for what in HAPPENED if what in happened})
            if counts.due_ms:
                late_ms = (entry.position.t_us - min(counts.due_ms) * 1000) / 1000
                self._late_ms = late_ms if self._late_ms is None else max(late_ms, self._late_ms)
                room = counts.due_ms[: _SAMPLED - len(self._lates)]
                self._lates += [(entry.position.t_us - due_ms * 1000) / 1000 for due_ms in room]
            self._count_ends(parsed)
        restore = RestoreEntry.of(entry)
        if restore and restore.reason == "lost":  # not an audit's
            self._put_back.update(happened)
        if MergedEntry.of(entry):
            self._rebuilt_ms = self._rebuilt_ms or entry.position.t_us // 1000

    def _count_ends(self, parsed: ParsedEntry) -> None:
        self._ended.update(parsed.end_statuses())
        failed = parsed.only_ends(_FAILED) if self._compared < _COMPARED else None
        if failed is not None:
            for run in reversed(list(parse(failed, self._run_suffix).ended_runs())):
                self._note_failure(run)

    def _note_failure(self, run: Run) -> None:
        self._compared += 1
        alike = run.schedule_id, run.status, run.error
        known = self._failures.get(alike)
        if known is not None:
            self._failures[alike] = replace(known, times=known.times + 1)
        elif len(self._failures) < FAILURES:
            self._failures[alike] = Failure(run)
