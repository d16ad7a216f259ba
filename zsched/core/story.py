"""
The story of one schedule in plain lines: what happened to it, when, why, and what comes next.

Its sources are an archive's history (``Chronicle``) and the present contents of Redis; the answer names them.
``core.sentences`` has the sentence of each change, ``core.lateness`` the reasons of lateness. This module adds the
other context from the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from zsched.core.changes import BACKFILL, OF_RUNS, Change, What
from zsched.core.lateness import Lateness
from zsched.core.lookback import is_push, run_that_ended
from zsched.core.model import Schedule, iso
from zsched.core.run_id import RunId
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import CHANGED, CREATED, local_text, sentence, standing, state_text, told_together


class Stalled(Enum):
    """The reason why no worker takes a run from its queue, {}."""

    UNHEARD = "RQ knows of no worker that listens to queue {}"
    SUSPENDED = "RQ's workers are suspended: rq resume lets them go on"


@dataclass(frozen=True, slots=True)
class Source:
    """
    Source of an answer. ``archive``: host and path; None: only Redis, whose log is short.

    ``complete_since_ms``: the source is complete since then; None: since the beginning (only an archive), or there is
    no log. ``as_of``: its last log entry. ``is_untrimmed``: True for Redis if its log still has its first entry. That
    is the beginning, unless Redis lost its data before.
    """

    archive: str | None
    complete_since_ms: int | None
    as_of: str | None
    problem: str = ""
    is_untrimmed: bool = False

    @property
    def whole_since_us(self) -> int:
        """The time since when it is complete, in µs; 0: since the beginning."""
        return 0 if self.is_untrimmed else (self.complete_since_ms or 0) * 1000

    def __str__(self) -> str:
        since = "" if self.complete_since_ms is None else local_text(self.complete_since_ms, "UTC")
        if self.archive is not None:
            extent = f"complete since {since or 'the beginning'}, up to log entry {self.as_of}"
            return f"from the archive {self.archive}, {extent}"
        log = f"whose log goes back to {since}" if since else "whose log is empty"
        return f"from Redis alone, {log}" + (f": {self.problem}" if self.problem else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the source for JSON; ``complete_since`` is "start" for the beginning."""
        since = iso(self.complete_since_ms)
        if since is None and self.archive is not None:
            since = "start"
        return {"archive": self.archive, "complete_since": since, "as_of": self.as_of, "problem": self.problem or None}


@dataclass(frozen=True, slots=True)
class Chronicle:
    """
    The known history of one schedule: ``changes`` in order. If there are many, ``left_out`` entries after the first are
    missing. ``terms`` and ``led``: the leaders before late occurrences, as in ``lateness.LeadersBack``.
    """

    id: str
    source: Source
    changes: Sequence[Change]
    left_out: int = 0
    terms: dict[str, int] = field(default_factory=dict)
    led: dict[str, int] = field(default_factory=dict)

    @property
    def explains_absence(self) -> bool:
        """True if this history explains why Redis has no such schedule."""
        if not self.changes:
            return True
        teller = _Teller(self, "UTC")
        list(teller.lines())
        return not teller.is_there


@dataclass(frozen=True, slots=True)
class Story:
    """
    The story of one schedule or, by its id, of one run: a line per change (instant in ms, text), and the present state.
    Local times are in *tz*.
    """

    id: str
    tz: str
    lines: list[tuple[int, str]]
    now: str
    is_known: bool
    source: Source
    changes: Sequence[Change]

    def to_dict(self) -> dict[str, Any]:
        """Return the story for JSON: the text for people, and the unchanged changes."""
        return {
            "id": self.id,
            "known": self.is_known,
            "story": [{"at": iso(at_ms), "text": text} for at_ms, text in self.lines],
            "now": self.now,
            "changes": [change.shown() for change in self.changes],
            "source": self.source.to_dict(),
        }


def tell(
    chronicle: Chronicle,
    schedule: Schedule | None,
    now_ms: int,
    tz: str | None = None,
    runs: Sequence[Run] = (),
    stalled: Mapping[str, Stalled] = {},
) -> Story:
    """
    Return the story of *chronicle*.

    *schedule*: as in Redis (None: not there). *runs*: its runs without a known end, as RQ has them, the newest first.
    *stalled*: their queues without a worker. Times are local in *tz*, by default in the schedule's own zone.
    """
    tz = tz or (schedule.tz if schedule else "UTC")
    teller = _Teller(chronicle, tz, stalled)
    lines = list(teller.lines())
    is_known = bool(chronicle.changes) or schedule is not None
    now = teller.now(schedule, now_ms, runs) if is_known else f"never heard of it: {_nothing(chronicle)}"
    return Story(chronicle.id, tz, lines, now, is_known, chronicle.source, chronicle.changes)


def tell_of_run(
    run_id: str,
    chronicle: Chronicle,
    schedule: Schedule | None,
    now_ms: int,
    tz: str | None = None,
    runs: Sequence[Run] = (),
    stalled: Mapping[str, Stalled] = {},
) -> Story:
    """Return the story of run *run_id* from the *chronicle* of its schedule; *runs*: that run, if known."""
    tz = tz or (schedule.tz if schedule else "UTC")
    teller = _Teller(chronicle, tz, stalled)
    own = of_run(run_id, chronicle.changes)
    lines = list(teller.lines_of(own))
    now = teller.now_of_run(run_id, own, schedule, now_ms, runs)
    return Story(run_id, tz, lines, now, bool(own), chronicle.source, own)


def of_run(run_id: str, changes: Iterable[Change]) -> list[Change]:
    """Return those of the schedule's *changes* that name run *run_id* or concern its occurrence."""
    parts = RunId.parse(run_id)
    nominal_ms = None if parts is None or parts.rerun else parts.nominal_ms
    return [change for change in changes if _names(change, run_id) or _concerns(change, nominal_ms)]


def _names(change: Change, run_id: str) -> bool:
    return change.run_id == run_id or run_id in change.why.split()


def _concerns(change: Change, nominal_ms: int | None) -> bool:
    """Return True if *change* has no run, and concerns the occurrence of *nominal_ms*."""
    if nominal_ms is None or change.run_id is not None:
        return False
    first_ms, last_ms = change.first_ms, change.last_ms
    is_among = first_ms is not None and last_ms is not None and first_ms <= nominal_ms <= last_ms
    return is_among or change.nominal_ms == nominal_ms


class _Teller:
    """Writes the story of one schedule, change by change, and its resulting state."""

    def __init__(self, chronicle: Chronicle, tz: str, stalled: Mapping[str, Stalled] = {}) -> None:
        self._chronicle, self._tz, self._stalled = chronicle, tz, stalled
        self.is_there = False  # True if Redis has it, by the changes so far
        self._is_recurring = False
        self._lateness = Lateness(chronicle.terms, chronicle.led, chronicle.source.whole_since_us, tz)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield a line per change, and one for left out changes."""
        changes, left_out = self._chronicle.changes, self._chronicle.left_out
        first = [change for change in changes if left_out and change.entry == changes[0].entry]
        for change in (*told_together(first), *told_together(changes[len(first) :])):
            if left_out and change.entry != changes[0].entry:
                yield change.at_us // 1000, f"… {left_out:,} more changes lie before this …"
                left_out = 0
            yield change.at_us // 1000, sentence(change, self._tz, self._context(change))
            self._note(change)

    def lines_of(self, own: Sequence[Change]) -> Iterator[tuple[int, str]]:
        """Yield a line for each of *own*, some of the changes; the context comes from all changes."""
        for change in self._chronicle.changes:
            if change in own:
                yield change.at_us // 1000, sentence(change, self._tz, self._context(change))
            self._note(change)

    def now(self, schedule: Schedule | None, now_ms: int, runs: Sequence[Run]) -> str:
        """Return its state by Redis, and the states of its open *runs* by RQ."""
        if schedule is None:
            return f"it is not scheduled any more{_LOST if self.is_there else self._why_gone(runs)}"
        return standing(schedule, now_ms, self._tz) + self._open(runs)

    def now_of_run(
        self, run_id: str, own: Sequence[Change], schedule: Schedule | None, now_ms: int, runs: Sequence[Run]
    ) -> str:
        """Return the state of a run by RQ, or its end by *own*, the changes that concern it."""
        id = self._chronicle.id
        if not own:
            some = f"the newest {len(self._chronicle.changes):,} changes" if self._chronicle.left_out else "the changes"
            return f"never heard of it: {some} of schedule {id} do not name it; zsched why {id} tells them"
        if runs:
            return f"run {run_id} of schedule {id} {self._state(runs[0])}"
        if schedule is not None and own[-1].what in _WAITS:
            return f"run {run_id} was not pushed; schedule {id} is {standing(schedule, now_ms, self._tz)}"
        again = " again" if any(map(is_push, own)) else ""
        return f"run {run_id} of schedule {id} was not pushed{again}{_LAST.get(own[-1].what, '')}"

    def _state(self, run: Run) -> str:
        why = self._stalled.get(run.queue) if run.status is RunStatus.QUEUED else None
        return state_text(run, self._tz) + (f"; {why.value.format(run.queue)}" if why else "")

    def _open(self, runs: Sequence[Run]) -> str:
        """Return the state in RQ of the run that was pushed last."""
        if not runs:
            return ""
        others = sum(not run.is_over for run in runs[1:])
        more = f" ({others} more of its runs {'is' if others == 1 else 'are'} not over)" if others else ""
        return f"; its run {runs[0].id} {self._state(runs[0])}{more}"

    def _why_gone(self, runs: Sequence[Run]) -> str:
        """Return its last change; if it ended with its run, the end of that run."""
        changes = self._chronicle.changes
        ends = {change.run_id: run_that_ended(change) for change in changes if change.what is What.RUN_ENDED}
        last = next((change for change in reversed(changes) if change.what not in OF_RUNS), changes[-1])
        why = _LAST.get(last.what, "")
        if last.what not in _PUSHES:
            return why + self._open(runs)
        known = ends | {run.id: run for run in runs}
        run = known.get(last.run_id)
        if run is None:
            return f"{why}; that its run ended is not recorded yet"
        return f"{why}, and its run {self._state(run)}"

    def _note(self, change: Change) -> None:
        """Add *change* to the context of the following changes."""
        what = change.what
        self._lateness.note(change)
        if what is What.PUT:
            self._is_recurring = change.run_id is None
        elif what is What.REPLANNED:
            self._is_recurring = True
        elif what is What.FOUND:
            self._is_recurring = self._is_recurring or change.run_id is None
        elif what is What.RESTORED:
            self._is_recurring = change.run_id is None
        elif (what in _ADVANCES and change.next_ms is not None) or (what is What.ENQUEUED and change.why == BACKFILL):
            self._is_recurring = True
        is_broken_run = what is What.QUARANTINED and change.run_id
        if is_broken_run or what in (*OF_RUNS, What.RETRIED, What.PUSHED_AGAIN, What.HELD):
            return  # a change of a run: the schedule is unchanged
        if what in (What.CANCELLED, What.WITHDRAWN) or (what is What.ENQUEUED and not change.why):
            self.is_there = False  # an enqueued run replaces the waiting schedule
        elif what in _OVER or (what is What.FOUND and change.why == "open"):
            self.is_there = self._is_recurring  # a one-shot ends with its run
        else:
            self.is_there = True

    def _context(self, change: Change) -> str:
        """Return the context of *change* from the history: the verb of a put, the reason of a lateness."""
        if change.what is What.PUT:
            return CHANGED if self.is_there else CREATED
        if change.what is What.DUPLICATE:
            return self._suppressed(change)
        return self._lateness.reason(change)

    def _suppressed(self, change: Change) -> str:
        """Return why an existing run had not been pushed, or "" unless the source knows all pushes since its time."""
        source, nominal_us = self._chronicle.source, (change.nominal_ms or 0) * 1000
        is_complete = source.is_untrimmed or source.archive is not None or source.complete_since_ms is not None
        known = (one.run_id for one in self._chronicle.changes if is_push(one))
        if not is_complete or self._chronicle.left_out or source.whole_since_us > nominal_us or change.run_id in known:
            return ""
        return f"another program had made a job of run {change.run_id}, which was never pushed"


_WAITS: Final = (What.PUT, What.FOUND, What.RESUMED, What.PAUSED, What.REPLANNED, What.RESTORED)
_OVER: Final = (What.FIRED, What.ENQUEUED, What.SKIPPED, What.EXPIRED)  # a one-shot ends with them
_LAST: Final = {
    What.FIRED: ": it fired",
    What.FOUND: ": it had fired",
    What.ENQUEUED: ": it was pushed on request",
    What.RETRIED: ": it was retried",
    What.PUSHED_AGAIN: ": it was pushed again",
    What.HELD: ": it had fired",
    What.RUN_ENDED: ": it had fired",
    What.RUN_AGAIN: ": it had fired",
    What.STOPPING: ": it had fired",
    What.RELEASED: ": it had fired",
    What.CANCELLED: ": it was cancelled",
    What.SKIPPED: ": its occurrence was skipped",
    What.EXPIRED: ": its occurrence was too late",
}
_PUSHES: Final = (
    What.FIRED, What.FOUND, What.ENQUEUED, What.RETRIED, What.PUSHED_AGAIN, What.HELD, *OF_RUNS,
)  # fmt: skip  # and it was gone
_LOST: Final = ": nothing here says why, so Redis lost it, or another writer removed it"
_ADVANCES: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE)  # of a recurring one, with its next time


def _nothing(chronicle: Chronicle) -> str:
    source = chronicle.source
    if source.complete_since_ms is None and source.archive is not None:
        return "no schedule of this id was ever put here"
    since = "" if source.complete_since_ms is None else f" since {local_text(source.complete_since_ms, 'UTC')}"
    return f"nothing is known of this id{since}; what was before is not in reach"
