"""
The story of one schedule in plain lines: what happened to it, when, why, and what comes next.

It is told from what an archive knows (``Chronicle``) and from what Redis holds at this moment; where they come
from is a part of the answer. What a change says by itself is in ``core.sentences``; here is what its past adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.core.changes import BACKFILL, RETRY_OF, Change, What
from zsched.core.lookback import run_that_ended
from zsched.core.model import Schedule, iso
from zsched.core.runs import Run
from zsched.core.sentences import local_text, sentence, standing, state_text, told_together

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


def tell(
    chronicle: Chronicle, schedule: Schedule | None, now_ms: int, tz: str | None = None, runs: Sequence[Run] = ()
) -> Story:
    """
    The story of *chronicle*, with *schedule* as Redis holds it (None: it does not), and those of its *runs* that were
    not known to be over as RQ has them, the newest first. Times are local in *tz*, else in the schedule's own zone.
    """
    tz = tz or (schedule.tz if schedule else "UTC")
    teller = _Teller(chronicle, tz)
    lines = list(teller.lines())
    is_known = bool(chronicle.changes) or schedule is not None
    now = teller.now(schedule, now_ms, runs) if is_known else f"never heard of it: {_nothing(chronicle)}"
    return Story(chronicle.id, tz, lines, now, is_known, chronicle.source, chronicle.changes)


class _Teller:
    """Tells the changes of one schedule in their order, and what that makes of it."""

    def __init__(self, chronicle: Chronicle, tz: str) -> None:
        self._chronicle, self._tz = chronicle, tz
        self.is_there = False  # whether Redis holds it, by what was told so far
        self._is_recurring = False
        self._put_us: int | None = None
        self._resumed_us: int | None = None
        self._replanned_us: int | None = None

    def lines(self) -> Iterator[tuple[int, str]]:
        """A line per change, and one for those that were left out."""
        changes, left_out = self._chronicle.changes, self._chronicle.left_out
        first = [change for change in changes if left_out and change.entry == changes[0].entry]
        for change in (*told_together(first), *told_together(changes[len(first) :])):
            if left_out and change.entry != changes[0].entry:
                yield change.at_us // 1000, f"… {left_out:,} more changes lie before this …"
                left_out = 0
            yield change.at_us // 1000, sentence(change, self._tz, self._context(change))
            self._note(change)

    def now(self, schedule: Schedule | None, now_ms: int, runs: Sequence[Run]) -> str:
        """Where it stands, by Redis; and its *runs* that are not known to be over, by RQ."""
        if schedule is None:
            return f"it is not scheduled any more{_LOST if self.is_there else self._why_gone(runs)}"
        return standing(schedule, now_ms, self._tz) + self._open(runs)

    def _open(self, runs: Sequence[Run]) -> str:
        """Of the run that was pushed last it is told what RQ does with it."""
        if not runs:
            return ""
        others = sum(not run.is_over for run in runs[1:])
        more = f" ({others} more of its runs {'is' if others == 1 else 'are'} not over)" if others else ""
        return f"; its run {runs[0].id} {state_text(runs[0], self._tz)}{more}"

    def _why_gone(self, runs: Sequence[Run]) -> str:
        """What happened to it last; of one that went with its run, what became of that."""
        changes = self._chronicle.changes
        ends = {change.run_id: run_that_ended(change) for change in changes if change.what is What.RUN_ENDED}
        last = next((change for change in reversed(changes) if change.what not in _OF_RUNS), changes[-1])
        why = _LAST.get(last.what, "")
        if last.what not in _PUSHES:
            return why
        known = ends | {run.id: run for run in runs}
        run = known.get(last.run_id)
        if run is None:
            return f"{why}; that its run ended is not recorded yet"
        return f"{why}, and its run {state_text(run, self._tz)}"

    def _note(self, change: Change) -> None:
        """What *change* means for those that follow."""
        what = change.what
        if what is What.PUT:
            self._put_us, self._is_recurring = change.at_us, change.run_id is None
        elif what is What.RESUMED:
            self._resumed_us = change.at_us
        elif what is What.REPLANNED:
            self._replanned_us, self._is_recurring = change.at_us, True
        elif what is What.FOUND:
            self._is_recurring = self._is_recurring or change.run_id is None
        elif what is What.RESTORED:
            self._is_recurring = change.run_id is None
        elif (what in _ADVANCES and change.next_ms is not None) or (what is What.ENQUEUED and change.why == BACKFILL):
            self._is_recurring = True
        is_retry = what is What.ENQUEUED and change.why.startswith(RETRY_OF)
        if is_retry or what in (*_OF_RUNS, What.PUSHED_AGAIN) or (what is What.QUARANTINED and change.run_id):
            return  # of a run: the schedule is where it was
        if what in (What.CANCELLED, What.WITHDRAWN) or (what is What.ENQUEUED and not change.why):
            self.is_there = False  # what is enqueued takes the place of what waited
        elif what in _OVER or (what is What.FOUND and change.why == "open"):
            self.is_there = self._is_recurring  # a one-shot goes with its run
        else:
            self.is_there = True

    def _context(self, change: Change) -> str:
        """What only its past says of *change*: whether a put changed what was there, why a fire was late."""
        if change.what is What.PUT:
            return "changed: now" if self.is_there else "created"
        is_late = change.what is What.FIRED and (change.late_ms or 0.0) > LATE_MS
        return self._why_late(change) if is_late else ""

    def _why_late(self, change: Change) -> str:
        """It has to be there, not paused, and somebody has to lead; else it was held up behind others."""
        due_us = (change.due_ms or 0) * 1000
        put_us, resumed_us = self._put_us or 0, self._resumed_us or 0
        replanned_us = self._replanned_us or 0
        if replanned_us > max(due_us, put_us, resumed_us):
            return f"its zone's new rules came only {self._at(replanned_us)}, when its time had passed"
        term_us = self._chronicle.terms.get(change.entry, 0)
        if term_us > max(due_us, put_us, resumed_us):
            since = "then" if max(put_us, resumed_us) <= due_us else self._at(max(put_us, resumed_us))
            return f"no daemon led from {since} until {self._at(term_us)}"
        if resumed_us > max(due_us, put_us):
            return f"it was paused until {self._at(resumed_us)}"
        if put_us > due_us:
            return f"it was put only {self._at(put_us)}, when its time had passed"
        return "it was held up, by a hold or behind others that were due"

    def _at(self, us: int) -> str:
        return local_text(us // 1000, self._tz)


_OVER: Final = (What.FIRED, What.ENQUEUED, What.SKIPPED, What.EXPIRED)  # and a one-shot with it
_OF_RUNS: Final = (What.RUN_ENDED, What.RUN_AGAIN, What.RELEASED)
_LAST: Final = {
    What.FIRED: ": it fired",
    What.FOUND: ": it had fired",
    What.ENQUEUED: ": it was pushed on request",
    What.PUSHED_AGAIN: ": it was pushed again",
    What.RUN_ENDED: ": it had fired",
    What.RUN_AGAIN: ": it had fired",
    What.RELEASED: ": it had fired",
    What.CANCELLED: ": it was cancelled",
    What.SKIPPED: ": its occurrence was skipped",
    What.EXPIRED: ": its occurrence was too late",
}
_PUSHES: Final = (What.FIRED, What.FOUND, What.ENQUEUED, What.PUSHED_AGAIN, *_OF_RUNS)  # and it was gone
_LOST: Final = ": nothing here says why, so Redis lost it, or a foreign hand removed it"
_ADVANCES: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE)  # of a recurring one, with what comes next


def _nothing(chronicle: Chronicle) -> str:
    source = chronicle.source
    if source.complete_since_ms is None and source.archive is not None:
        return "no schedule of this id was ever put here"
    since = "" if source.complete_since_ms is None else f" since {local_text(source.complete_since_ms, 'UTC')}"
    return f"nothing is known of this id{since}; what was before is not in reach"
