"""
The last minutes, counted from the log's newest entries: outcomes of occurrences and runs, lateness, losses of Redis.

The counter gets the entries backwards, and keeps a slice of counts for each second. So a reader that looks again counts
only what is new, and what it had no time for before. Of entries with thousands of rows only the words to count are read
(``ParsedEntry.counts``), without a ``Change`` for each row, to answer quickly.

Not guaranteed: that the whole requested time is counted. The log in Redis is short, and its reader may have to stop
earlier. The last stretch is then as long as the time that was read, and ``is_cut`` is True. Entries that Redis lost are
missing: ``is_whole`` is False for a stretch that begins before a loss. A stretch begins with a whole second, so it may
be shorter than its span by less than a second.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.clock import LAST_MS
from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.known import Known, known_as
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.kinds import ParsedEntry, parse
from zsched.core.log.puts import MergedEntry, RestoreEntry
from zsched.core.model import iso, json_of
from zsched.core.occurrences.lateness import LATE_MS, Waits
from zsched.core.occurrences.outcomes import LEFT_OUT, OUTCOMES, Outcome, What
from zsched.core.runs.run import BAD, OVER, Run, RunStatus

_AHEAD_MS: Final = 10_000  # in the future: an entry from a clock that was ahead; a slow network makes less
WINDOWS_MS: Final = (60_000, 300_000, 1_800_000)  # the log in Redis keeps an hour, unless that is too large
FAILURES: Final = 10  # kinds of failures in a report
_FAILED: Final = (*BAD, RunStatus.EXPIRED)
_COMPARED: Final = 1000  # failed runs that one reading groups by their kind of failure
HAPPENED: Final = (What.PUT, *OUTCOMES)  # changes that are counted
_SAMPLED: Final = 20_000  # firings whose lateness is kept, the newest
_MISSED: Final = (What.SKIPPED, Outcome.MISSED.reason)


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    The last *span_ms*: numbers of changes, statuses of ended runs, and the largest lateness of a firing (None: nothing
    fired). ``missed``: number of skipped occurrences that had passed while their schedule was paused or no daemon led,
    and that catch-up does not fire. ``is_whole`` is False if Redis lost a part of the entries. ``late_p50_ms`` and
    ``late_p99_ms`` are of the newest 20,000 firings. ``known``: those of ``ended`` that are known failures.
    """

    span_ms: int
    happened: Mapping[What, int]
    ended: Mapping[RunStatus, int]
    late_ms: float | None
    missed: int = 0
    is_whole: bool = True
    late_p50_ms: float | None = None
    late_p99_ms: float | None = None
    known: Mapping[RunStatus, int] = field(default_factory=dict)

    def unknown(self, *statuses: RunStatus) -> int:
        """Return the number of runs that ended in one of *statuses*, without known failures."""
        return sum(self.ended.get(status, 0) - self.known.get(status, 0) for status in statuses)

    @property
    def left_out(self) -> int:
        """The number of occurrences that were not pushed, as it was too late or the run before was not over."""
        return sum(self.happened.get(what, 0) for what in LEFT_OUT)

    def per_second(self, what: What) -> float:
        """Return the rate of *what*, per second."""
        return self.happened.get(what, 0) * 1000 / self.span_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the stretch for JSON; every key is always present and stable."""
        happened = {what.value: self.happened.get(what, 0) for what in HAPPENED}
        ended = {status.value: self.ended.get(status, 0) for status in RunStatus if status in OVER}
        names = "span_s", "happened", "ended", "known", "late_s", "late_p50_s", "late_p99_s", "missed", "is_whole"
        return json_of(self, *names, happened=happened, ended=ended, known=sum(self.known.values()))


@dataclass(frozen=True, slots=True)
class Failure:
    """
    *times* runs of one schedule with the same failure, loss or expiry; *run* is the last. ``retried``: how many of them
    were retried, by the end of the last retry in the log; queued: it has none.
    """

    run: Run
    times: int = 1
    retried: Mapping[RunStatus, int] = field(default_factory=dict)

    @property
    def repair(self) -> str:
        """``retried: succeeded``, ``3 of 12 retried: succeeded``; '' if none was retried."""
        parts = []
        for status, number in self.retried.items():
            which = "" if number == self.times else f"{number:,} of {self.times:,} "
            parts.append(f"{which}retried" + (f": {status.value}" if status in OVER else ""))
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        retried = {status.value: number for status, number in self.retried.items()}
        return self.run.to_dict() | {"times": self.times, "retried": retried}


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """
    A loss of Redis that was restored at *at_ms*. *changes*: numbers of schedules RESTORED, of runs PUSHED_AGAIN or
    SKIPPED as uncertain, …, as far as the log was read.
    """

    at_ms: int
    changes: Mapping[What, int]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"at": iso(self.at_ms), "changes": {what.value: count for what, count in self.changes.items() if count}}


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
class RecentActivity:
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
        return json_of(self, "stretches", "is_cut", "rebuilt", "ahead")


class LogCounts:
    """
    Counts of some entries: those of one second of the log, or of a stretch. The newest entries are added first.

    ``lates_ms``: lateness of the newest firings. ``waits``: entries with late ones, or that made schedules due, each
    with its time, as for ``lateness.Waits``; ``waited_ms`` is the result. ``ends``: runs that ended badly, and later
    ends of requeued runs. ``failures``: of a stretch, by schedule, status and error. ``ahead``: the schedules that a
    clock which was ahead advanced, each with its next nominal time; None if the clock was right.
    """

    def __init__(self, second: int = 0) -> None:
        self.second, self.oldest_ms = second, LAST_MS
        self.happened: Counter[What] = Counter()
        self.ended: Counter[RunStatus] = Counter()
        self.known: Counter[RunStatus] = Counter()
        self.missed = 0
        self.late_ms: float | None = None
        self.lates_ms = list[float]()
        self.waits: list[tuple[int, Sequence[str], Sequence[tuple[str, int]]]] = []
        self.waited_ms = list[float]()
        self.ends: list[Run] = []
        self.failures: dict[tuple[str, RunStatus, str], Failure] = {}
        self.retries: dict[str, str] = {}  # by the run that they repeat
        self.reruns: dict[str, RunStatus] = {}  # their last ends
        self._ended_later = set[str]()  # requeued runs whose last end was added
        self.rebuilt_ms: int | None = None
        self.put_back: Counter[What] = Counter()
        self.ahead: Ahead | None = None

    def stretch(self, span_ms: int) -> Stretch:
        """Return the counts so far as those of the last *span_ms*."""
        sorted_ms = sorted(self.lates_ms)
        p50, p99 = ((sorted_ms[int((len(sorted_ms) - 1) * share)] if sorted_ms else None) for share in (0.5, 0.99))
        happened, ended, known = Counter(self.happened), Counter(self.ended), Counter(self.known)
        is_whole = self.rebuilt_ms is None
        return Stretch(span_ms, happened, ended, self.late_ms, self.missed, is_whole, p50, p99, known)

    def add(self, older: LogCounts) -> None:
        """Add the counts of *older*, but for its ``ahead``."""
        self.oldest_ms = min(self.oldest_ms, older.oldest_ms)
        self.happened.update(older.happened)
        self.ended.update(older.ended)
        self.known.update(older.known)
        self.missed += older.missed
        self.add_lates(older.late_ms, older.lates_ms)
        self.add_lates(max(older.waited_ms, default=None), older.waited_ms)
        for of, retry in older.retries.items():
            self.retries.setdefault(of, retry)
        for rerun, status in older.reruns.items():
            self.reruns.setdefault(rerun, status)
        for run in older.ends:
            self._add_end(run)
        self.rebuilt_ms = self.rebuilt_ms or older.rebuilt_ms
        self.put_back.update(older.put_back)

    def add_lates(self, late_ms: float | None, lates_ms: Sequence[float]) -> None:
        """Add the largest lateness of some firings, and that of the newest of them."""
        if late_ms is not None:
            self.late_ms = late_ms if self.late_ms is None else max(late_ms, self.late_ms)
            self.lates_ms += lates_ms[: _SAMPLED - len(self.lates_ms)]

    def _add_end(self, run: Run) -> None:
        """Add a counted end: a failure of its own, or one more of its kind; not if the run has ended again since."""
        if run.id in self._ended_later:
            self.ended[run.status] -= 1
            return
        if run.was is not None:
            self._ended_later.add(run.id)
        alike = run.schedule_id, run.status, run.error
        known = self.failures.get(alike)
        if known is None and (run.status not in _FAILED or len(self.failures) >= FAILURES):
            return
        retried = Counter({} if known is None else known.retried)
        if (retry := self._last_retry(run.id)) is not None:
            retried[self.reruns.get(retry, RunStatus.QUEUED)] += 1
        times = 1 if known is None else known.times + 1
        self.failures[alike] = Failure(run if known is None else known.run, times, retried)

    def _last_retry(self, run_id: str) -> str | None:
        """Return the last of the runs that repeat one another, from a run on; None if there is none."""
        last, seen = self.retries.get(run_id), set[str]()
        while last is not None and last not in seen and (later := self.retries.get(last)) is not None:
            seen.add(last)
            last = later
        return last


class LogCounter:
    """
    Counts entries of the log, the newest first: it saw those from ``newest`` back to ``oldest``. ``is_all``: none
    before them is needed. *run_suffix* is the namespace's part of run ids. *known*: failures that are only counted.
    """

    def __init__(
        self, run_suffix: str = "", windows_ms: Sequence[int] = WINDOWS_MS, known: Sequence[Known] = ()
    ) -> None:
        self._run_suffix, self._windows_ms, self._known = run_suffix, windows_ms, known
        self._slices = deque[LogCounts]()
        self._compared = self._late = 0
        self.newest: Position | None = None
        self.oldest: Position | None = None
        self.is_all = True  # an empty log

    def add(self, entry: Entry, now_ms: int) -> bool:
        """Count *entry*; return False if it is before the requested time, so that no more entries are needed."""
        at_ms = entry.position.t_us // 1000
        self.newest, self.oldest = self.newest or entry.position, entry.position
        is_before = _is_before(at_ms // 1000, now_ms - self._windows_ms[-1])
        self.is_all = is_before or entry.position.seq == 1
        if is_before:
            return False
        if not self._slices or self._slices[-1].second != at_ms // 1000:
            self._slices.append(LogCounts(at_ms // 1000))
        one = self._slices[-1]
        one.oldest_ms = min(one.oldest_ms, at_ms)
        if at_ms > now_ms + _AHEAD_MS:
            _note_ahead(one, entry, now_ms)
        with suppress(UnknownEntry):  # an entry of a newer version or of another writer
            self._count(one, entry)
        return True

    def append(self, older: LogCounter) -> None:
        """Add the counts of *older*: its entries are all before those that were seen here."""
        self._slices.extend(older._slices)
        self.newest, self.oldest, self.is_all = self.newest or older.newest, older.oldest, older.is_all

    def summary(self, now_ms: int) -> RecentActivity:
        """Return the counts at *now_ms*, and forget what is before the requested time."""
        waits = Waits()
        for one in reversed(self._slices):
            one.waited_ms = [late_ms for entry in reversed(one.waits) for late_ms in waits.lates_ms(*entry)]
        total, stretches, windows_ms = LogCounts(), list[Stretch](), list(self._windows_ms)
        used = deque[LogCounts]()
        for one in self._slices:
            while windows_ms and _is_before(one.second, now_ms - windows_ms[0]):
                stretches.append(total.stretch(windows_ms.pop(0)))
            if not windows_ms:
                break
            if len(total.lates_ms) == _SAMPLED:
                one.lates_ms = []  # there will only be more of later ones
            total.add(one)
            used.append(one)
        self._slices = used
        is_cut = bool(windows_ms) and not self.is_all
        read_ms = max(now_ms - total.oldest_ms, 1)
        stretches += map(total.stretch, [read_ms] if is_cut else windows_ms)
        rebuilt = None if total.rebuilt_ms is None else Rebuilt(total.rebuilt_ms, total.put_back)
        return RecentActivity(stretches, list(total.failures.values()), rebuilt, is_cut, _ahead(used, now_ms))

    def _count(self, one: LogCounts, entry: Entry) -> None:
        """Count *entry*. Raises UnknownEntry; the counts of its readable part stay."""
        with parse(entry, self._run_suffix) as parsed:
            counts = parsed.counts()
            happened = Counter[What]()
            for (what, why), number in counts.happened.items():
                happened[what] += number
                one.missed += number if (what, why) == _MISSED else 0
            one.happened.update({what: happened[what] for what in HAPPENED if what in happened})
            made_due, late_ms = list(parsed.made_due()), 0.0
            if counts.due_ms:
                late_ms = (entry.position.t_us - min(counts.due_ms) * 1000) / 1000
            if made_due or (late_ms > LATE_MS and self._late < _SAMPLED):
                fired = list(parsed.fired())
                self._late += len(fired)
                one.waits.append((entry.position.t_us, made_due, fired))
            elif counts.due_ms:
                lates_ms = [(entry.position.t_us - due_ms * 1000) / 1000 for due_ms in counts.due_ms[:_SAMPLED]]
                one.add_lates(late_ms, lates_ms)
            self._count_ends(one, parsed)
        restore = RestoreEntry.of(entry)
        if restore and restore.reason == "lost":  # not an audit's
            one.put_back.update(happened)
        if MergedEntry.of(entry):
            one.rebuilt_ms = one.rebuilt_ms or entry.position.t_us // 1000

    def _count_ends(self, one: LogCounts, parsed: ParsedEntry) -> None:
        one.ended.update(parsed.end_statuses())
        one.retries = dict(parsed.retries()) | one.retries
        one.reruns = dict(parsed.ends_of_reruns()) | one.reruns
        failed = parsed.only_ends(_FAILED) if self._known or self._compared < _COMPARED else None
        for run in () if failed is None else reversed(list(parse(failed, self._run_suffix).ended_runs())):
            if known_as(run, self._known, parsed.at_us // 1000):
                one.known[run.status] += 1
                run = run._replace(status=RunStatus.SUCCEEDED)  # it only matters that a requeued run ended again
            if self._compared < _COMPARED and (run.status in _FAILED or run.was is not None):
                self._compared += 1
                one.ends.append(run)


def _is_before(second: int, begin_ms: int) -> bool:
    """Return True if *second* of the log is not whole within a stretch that begins at *begin_ms*."""
    return second * 1000 < begin_ms


def _note_ahead(one: LogCounts, entry: Entry, now_ms: int) -> None:
    """Note an entry of a clock that was ahead. The newest entry of a schedule has its next nominal time."""
    until_ms, times = entry.position.t_us // 1000, dict(one.ahead.times) if one.ahead else {}
    if advance := AdvanceEntry.of(entry):
        with suppress(UnknownEntry), advance:
            for move in advance.moves:
                if move.next_nominal_ms is not None and move.next_nominal_ms > now_ms + _AHEAD_MS:
                    times.setdefault(move.id, move.next_nominal_ms)
    one.ahead = Ahead(max(until_ms, one.ahead.until_ms if one.ahead else 0), times)


def _ahead(slices: Iterable[LogCounts], now_ms: int) -> Ahead | None:
    """Return what *slices*, the newest first, tell of a clock that is still ahead of the right one."""
    found = [one.ahead for one in slices if one.ahead and one.ahead.until_ms > now_ms + _AHEAD_MS]
    times = {id: next_ms for one in reversed(found) for id, next_ms in one.times.items()}
    late = {id: next_ms for id, next_ms in times.items() if next_ms > now_ms + _AHEAD_MS}
    return Ahead(max(one.until_ms for one in found), late) if found else None
