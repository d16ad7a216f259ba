"""
The story of one schedule in plain lines: what happened to it, when, why, and what comes next.

It is told from what an archive knows (``Chronicle``) and from what Redis holds at this moment; where they come
from is a part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.changes import Change, What
from zsched.core.clock import LAST_MS, from_ms
from zsched.core.model import Schedule, ScheduleState, iso
from zsched.core.triggers import zone

LATE_MS: Final = 1000.0  # a fire later than this is explained


@dataclass(frozen=True, slots=True)
class Source:
    """
    Where an answer comes from. ``archive``: host and path; None: Redis alone, whose log is short. Everything since
    ``complete_since_ms`` is in it (None: since the beginning). ``as_of``: the last log entry that it had.
    """

    archive: str | None
    complete_since_ms: int | None
    as_of: str | None
    problem: str = ""

    def __str__(self) -> str:
        since = "the beginning" if self.complete_since_ms is None else local_text(self.complete_since_ms, "UTC")
        if self.archive is not None:
            return f"from the archive {self.archive}, complete since {since}, up to log entry {self.as_of}"
        return f"from Redis alone, whose log goes back to {since}" + (f": {self.problem}" if self.problem else "")

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it."""
        since = iso(self.complete_since_ms)
        return {"archive": self.archive, "complete_since": since, "as_of": self.as_of, "problem": self.problem or None}


@dataclass(frozen=True, slots=True)
class Chronicle:
    """
    What is known of one schedule's past: ``changes`` in order, without the ``left_out`` entries behind the first one
    when there are many; and of late fires, by log entry, when the term began in which they fired (µs).
    """

    id: str
    source: Source
    changes: Sequence[Change]
    left_out: int = 0
    terms: dict[str, int] = field(default_factory=dict)

    @property
    def explains_absence(self) -> bool:
        """Whether a schedule with this past is one that Redis need not hold any more."""
        if not self.changes:
            return True
        teller = _Teller(self, "UTC")
        list(teller.lines())
        return not teller.is_there


@dataclass(frozen=True, slots=True)
class Story:
    """One schedule's story: a line per change (instant in ms, text), and where it stands now; local times in *tz*."""

    id: str
    tz: str
    lines: list[tuple[int, str]]
    now: str
    is_known: bool
    source: Source
    changes: Sequence[Change]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it: what people read, and the changes as they are."""
        return {
            "id": self.id,
            "known": self.is_known,
            "story": [{"at": iso(at_ms), "text": text} for at_ms, text in self.lines],
            "now": self.now,
            "changes": [change.shown() for change in self.changes],
            "source": self.source.to_dict(),
        }


def tell(chronicle: Chronicle, schedule: Schedule | None, now_ms: int, tz: str | None = None) -> Story:
    """
    The story of *chronicle*, with *schedule* as Redis holds it (None: it does not). Times of occurrences are
    local in *tz*, else in the schedule's own zone.
    """
    tz = tz or (schedule.tz if schedule else "UTC")
    teller = _Teller(chronicle, tz)
    lines = list(teller.lines())
    is_known = bool(chronicle.changes) or schedule is not None
    now = teller.now(schedule, now_ms) if is_known else f"never heard of it: {_nothing(chronicle)}"
    return Story(chronicle.id, tz, lines, now, is_known, chronicle.source, chronicle.changes)


def sentence(change: Change, tz: str) -> str:
    """What *change* says by itself, whatever was before it; times are local in *tz*."""
    return _WORDS[change.what](_Teller(None, tz), change)


def local_text(ms: int, tz: str, *, has_ms: bool = False) -> str:
    """
    ``2026-12-24 18:00:00+09:00``; with milliseconds if there are any, or *has_ms*. What a foreign hand wrote is
    brought into the range of time.
    """
    at = from_ms(min(max(ms, 0), LAST_MS))
    with suppress(OverflowError):  # the last hours of the year 9999, or the first of 1
        at = at.astimezone(zone(tz))
    return at.isoformat(sep=" ", timespec="milliseconds" if has_ms or ms % 1000 else "seconds")


def duration_text(ms: float) -> str:
    """``0.4 ms``, ``3.2 s``, ``12 min 5 s``, ``2 h 3 min``, ``4 d 1 h``."""
    if ms < 1000:
        return f"{ms:.1f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms / 1000)
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {name}" if rest else "")
    raise AssertionError("unreachable")


class _Teller:
    """Words for the changes of one schedule; without a *chronicle*, for single ones of any schedules."""

    def __init__(self, chronicle: Chronicle | None, tz: str) -> None:
        self._chronicle, self._tz = chronicle, tz
        self.is_there = False  # whether Redis holds it, by what was told so far
        self._is_recurring = False
        self._put_us: int | None = None
        self._resumed_us: int | None = None

    def lines(self) -> Iterator[tuple[int, str]]:
        """A line per change, and one for those that were left out."""
        assert self._chronicle is not None  # without one there is no order of changes
        changes, left_out = self._chronicle.changes, self._chronicle.left_out
        for change in changes:
            if left_out and change.entry != changes[0].entry:
                yield change.at_us // 1000, f"… {left_out:,} more changes lie before this …"
                left_out = 0
            yield change.at_us // 1000, _WORDS[change.what](self, change)
            self._note(change)

    def now(self, schedule: Schedule | None, now_ms: int) -> str:
        """Where it stands, by Redis."""
        if schedule is None:
            return f"it is not scheduled any more{_LOST if self.is_there else self._why_gone()}"
        note = f': "{schedule.note}"' if schedule.note else ""
        since = f" since {self._at(schedule.since_ms)}" if schedule.since_ms is not None else ""
        if schedule.state is ScheduleState.ACTIVE and schedule.next_ms is not None:
            ahead_ms = schedule.next_ms - now_ms
            when = f"in {duration_text(ahead_ms)}" if ahead_ms > 0 else f"overdue by {duration_text(-ahead_ms)}"
            waits = "" if ahead_ms > 0 else "; it waits for a daemon that leads: see zsched status"
            return f"active; next {self._at(schedule.next_ms)}, {when}{waits}"
        if schedule.state is ScheduleState.PAUSED:
            due = "" if schedule.next_ms is None else f"; it would be due {self._at(schedule.next_ms)}"
            return f"paused{since}{note}{due}; zsched resume {schedule.id} lets it go on"
        if schedule.state is ScheduleState.QUARANTINED:
            return f"quarantined{since}{note}; schedule it again, or cancel it"
        return f"ended{since}: its rule gives no more occurrences"

    def _why_gone(self) -> str:
        """What happened to it last; of one that went with its run, what became of that."""
        assert self._chronicle is not None  # it has a past
        changes = self._chronicle.changes
        ends = {change.run_id: change.why for change in changes if change.what is What.RUN_ENDED}
        last = next((change for change in reversed(changes) if change.what is not What.RUN_ENDED), changes[-1])
        why = _LAST.get(last.what, "")
        if last.what not in _PUSHES:
            return why
        if last.run_id not in ends:
            return f"{why}; that its run ended is not recorded yet"
        how = ends[last.run_id]
        return f"{why}, and its run {_RUN_ENDED.get(how, _RUN_GONE if how == 'gone' else how)}"

    def _note(self, change: Change) -> None:
        """What *change* means for those that follow."""
        what = change.what
        if what is What.PUT:
            self._put_us, self._is_recurring = change.at_us, change.run_id is None
        elif what is What.RESUMED:
            self._resumed_us = change.at_us
        elif what is What.FOUND:
            self._is_recurring = self._is_recurring or change.run_id is None
        elif what is What.RESTORED:
            self._is_recurring = change.run_id is None
        elif what in _ADVANCES and change.next_ms is not None:
            self._is_recurring = True
        if what in (What.RUN_ENDED, What.PUSHED_AGAIN) or (what is What.QUARANTINED and change.run_id):
            return  # of a run: the schedule is where it was
        if what in (What.CANCELLED, What.WITHDRAWN) or (what is What.ENQUEUED and not change.why):
            self.is_there = False  # what is enqueued takes the place of what waited
        elif what in (What.FIRED, What.ENQUEUED, What.SKIPPED) or (what is What.FOUND and change.why == "open"):
            self.is_there = self._is_recurring  # a one-shot goes with its run
        else:
            self.is_there = True

    # -- a change each ----------------------------------------------------------------------------

    def _put(self, change: Change) -> str:
        verb = "changed: now for" if self.is_there else "created for"
        if self._chronicle is None:
            verb = "put for"
        when = self._at(change.nominal_ms) if change.nominal_ms is not None else "no time: it has ended"
        paused = "; it stays paused" if change.why else ""
        return f"{verb} {when}{self._by(change)}{paused}"

    def _found(self, change: Change) -> str:
        when = "" if change.nominal_ms is None else f", due {self._at(change.nominal_ms)}"
        if change.why == "open":
            return f"found in Redis: run {change.run_id} was not over; what was before is not in this archive"
        place = _PLACES.get(change.why, change.why)
        return f"found in Redis ({place}{when}): what was before is not in this archive"

    def _paused(self, change: Change) -> str:
        return "paused" + (f': "{change.why}"' if change.why else "")

    def _resumed(self, change: Change) -> str:
        has_passed = change.nominal_ms is not None and change.nominal_ms * 1000 <= change.at_us
        return f"resumed; {'it was due' if has_passed else 'next'} {self._at(change.nominal_ms)}"

    def _fired(self, change: Change) -> str:
        late_ms, mark = max(change.late_ms or 0.0, 0.0), ""
        if change.why == "uncertain":
            mark = "; uncertain: a lost Redis may have pushed this run already"
        for_when = "" if change.nominal_ms is None else f" for {self._at(change.nominal_ms)}"
        reason = f": {self._why_late(change)}" if late_ms > LATE_MS and self._chronicle else ""
        return f"fired{for_when}, {duration_text(late_ms)} late{reason}; run {change.run_id}{mark}"

    def _why_late(self, change: Change) -> str:
        """It has to be there, not paused, and somebody has to lead; else it was held up behind others."""
        assert self._chronicle is not None  # a reason is looked for in what was before
        due_us = (change.nominal_ms or 0) * 1000
        put_us, resumed_us = self._put_us or 0, self._resumed_us or 0
        term_us = self._chronicle.terms.get(change.entry, 0)
        if term_us > max(due_us, put_us, resumed_us):
            since = "then" if max(put_us, resumed_us) <= due_us else self._at(max(put_us, resumed_us) // 1000)
            return f"no daemon led from {since} until {self._at(term_us // 1000)}"
        if resumed_us > max(due_us, put_us):
            return f"it was paused until {self._at(resumed_us // 1000)}"
        if put_us > due_us:
            return f"it was put only {self._at(put_us // 1000)}, when its time had passed"
        return "it was held up, by a hold or behind others that were due"

    def _enqueued(self, change: Change) -> str:
        what = "run now, on request" if change.why else "enqueued"
        return f"{what}{self._by(change)}; run {change.run_id}"

    def _skipped(self, change: Change) -> str:
        which = self._at(change.nominal_ms) if change.first_ms is None else self._range(change).rstrip(",")
        reason = _SKIPPED.get(change.why, change.why)
        return f"skipped {which}: {reason}"

    def _coalesced(self, change: Change) -> str:
        return f"left out {self._range(change)} in favour of {self._at(change.nominal_ms)}: all had passed by then"

    def _duplicate(self, change: Change) -> str:
        return f"not pushed again for {self._at(change.nominal_ms)}: run {change.run_id} was there already"

    def _cancelled(self, change: Change) -> str:
        due = "" if change.nominal_ms is None else f"; it was for {self._at(change.nominal_ms)}"
        return f"cancelled{f' ({change.why})' if change.why else ''}{due}"

    def _quarantined(self, change: Change) -> str:
        return f"quarantined: {change.why}"

    def _ended(self, change: Change) -> str:
        return "ended: its rule gives no more occurrences"

    def _run_ended(self, change: Change) -> str:
        if change.why == "gone":
            return f"RQ holds nothing of run {change.run_id} any more: what became of it, nobody recorded"
        return f"run {change.run_id} {_RUN_ENDED.get(change.why, change.why)}"

    def _restored(self, change: Change) -> str:
        when = "" if change.nominal_ms is None else f", due {self._at(change.nominal_ms)}"
        if change.why == "audit":
            return f"put back{when}: it was missing in Redis, and nobody had said why"
        return f"put back{when}: Redis had lost it"

    def _pushed_again(self, change: Change) -> str:
        doubt = "it may have run, or be run twice"
        return f"pushed again; run {change.run_id}; uncertain: Redis lost it before it was over, so {doubt}"

    def _withdrawn(self, change: Change) -> str:
        if change.why == "audit":
            return "taken out: RQ has its run already, so it does not wait any more"
        return "taken out again: Redis had gone back to a time before it fired or was cancelled"

    # -- parts of a line --------------------------------------------------------------------------

    def _range(self, change: Change) -> str:
        first, last = self._at(change.first_ms), self._at(change.last_ms)
        if change.count == 1:
            return f"the occurrence of {first}"
        return f"{change.count:,} occurrences, {first} to {last},"

    def _by(self, change: Change) -> str:
        return f", by {change.by}" if change.by else ""

    def _at(self, ms: int | None) -> str:
        return "an unknown time" if ms is None else local_text(ms, self._tz)


_WORDS: Final[dict[What, Callable[[_Teller, Change], str]]] = {
    What.PUT: _Teller._put,
    What.FOUND: _Teller._found,
    What.PAUSED: _Teller._paused,
    What.RESUMED: _Teller._resumed,
    What.FIRED: _Teller._fired,
    What.ENQUEUED: _Teller._enqueued,
    What.SKIPPED: _Teller._skipped,
    What.COALESCED: _Teller._coalesced,
    What.DUPLICATE: _Teller._duplicate,
    What.CANCELLED: _Teller._cancelled,
    What.QUARANTINED: _Teller._quarantined,
    What.ENDED: _Teller._ended,
    What.RUN_ENDED: _Teller._run_ended,
    What.RESTORED: _Teller._restored,
    What.PUSHED_AGAIN: _Teller._pushed_again,
    What.WITHDRAWN: _Teller._withdrawn,
}
_LAST: Final = {
    What.FIRED: ": it fired",
    What.FOUND: ": it had fired",
    What.ENQUEUED: ": it was pushed on request",
    What.PUSHED_AGAIN: ": it was pushed again",
    What.RUN_ENDED: ": it had fired",
    What.CANCELLED: ": it was cancelled",
    What.SKIPPED: ": its occurrence was skipped",
}
_PUSHES: Final = (What.FIRED, What.FOUND, What.ENQUEUED, What.PUSHED_AGAIN, What.RUN_ENDED)  # and it was gone
_RUN_GONE: Final = "is not in RQ any more: nobody recorded what became of it"
_RUN_ENDED: Final = {
    "finished": "succeeded",
    "failed": "failed",
    "stopped": "was stopped",
    "canceled": "was cancelled in RQ",
}
_LOST: Final = ": nothing here says why, so Redis lost it, or a foreign hand removed it"
_PLACES: Final = {"due": "active", "quarantine": "quarantined"}  # as people call them
_SKIPPED: Final = {"uncertain": "a lost Redis may have pushed it already", "paused": "it was paused"}
_ADVANCES: Final = (What.FIRED, What.SKIPPED, What.DUPLICATE)  # of a recurring one, with what comes next


def _nothing(chronicle: Chronicle) -> str:
    source = chronicle.source
    if source.complete_since_ms is None and source.archive is not None:
        return "no schedule of this id was ever put here"
    since = "" if source.complete_since_ms is None else f" since {local_text(source.complete_since_ms, 'UTC')}"
    return f"nothing is known of this id{since}; what was before is not in reach"
