"""
The story of one schedule in plain lines: the verdict first, then what happened to it, when and why.

Its sources are an archive's history (``Chronicle``) and the present contents of Redis; the answer names them.
``core.story.verdict`` has the words of the verdict, ``core.story.sentences`` the sentence of each change,
``core.occurrences.lateness`` the reasons of lateness. This module adds the other context from the history.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zsched.core.model import Schedule, iso, json_of
from zsched.core.occurrences.changes import BACKFILL, Change, is_push, run_that_ended
from zsched.core.occurrences.lateness import Lateness
from zsched.core.occurrences.outcomes import LEFT_OUT, OF_RUNS, RAN, RESTORED_RUNS, Outcome, What
from zsched.core.runs.run import Run, RunStatus
from zsched.core.runs.run_id import RunId
from zsched.core.story.sentences import CHANGED, CREATED, attempt_lines, in_order, local_text, sentence, told_together
from zsched.core.story.source import Source
from zsched.core.story.verdict import (
    LEADERLESS,
    NOTHING,
    Stalled,
    StoryVerdict,
    Word,
    on_change,
    on_excluded,
    on_run,
    on_schedule,
    with_gap,
)
from zsched.core.wording import plural, rough_duration


@dataclass(frozen=True, slots=True)
class Chronicle:
    """
    The known history of one schedule: ``changes`` in order. If there are many, ``left_out`` entries after the first are
    missing.
    """

    id: str
    source: Source
    changes: Sequence[Change]
    left_out: int = 0

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
    The story of one schedule or, by its id, of one run: the verdict, and a line per change (instant in ms, text). Local
    times are in *tz*. ``created_by`` and ``changed_by``: who put the schedule first and last, as the log says.
    ``name``: the schedule's, if Redis has it.
    """

    id: str
    tz: str
    verdict: StoryVerdict
    lines: list[tuple[int, str]]
    is_known: bool
    source: Source
    changes: Sequence[Change]
    created_by: str | None = None
    changed_by: str | None = None
    name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the story for JSON: the text for people, and the unchanged changes."""
        lines = [{"at": iso(at_ms), "text": text} for at_ms, text in self.lines]
        changes = [change.shown() for change in self.changes]
        names = "id", "name", "known", "verdict", "created_by", "changed_by", "story", "changes", "source"
        return json_of(self, *names, known=self.is_known, story=lines, changes=changes)


def tell(
    chronicle: Chronicle,
    schedule: Schedule | None,
    now_ms: int,
    tz: str | None = None,
    runs: Sequence[Run] = (),
    stalled: Mapping[str, Stalled] = {},
    hindrance: StoryVerdict = LEADERLESS,
    run_id: str = "",
) -> Story:
    """
    Return the story of *chronicle*, or of run *run_id* in it.

    *schedule*: as in Redis (None: not there). *runs*: its runs without a known end, as RQ has them, the newest first;
    or that run, if known. *stalled*: their queues without a worker. *hindrance*: why it does not fire, if it is due.
    Times are local in *tz*, by default in the schedule's own zone at that time.
    """
    teller, changes = _Teller(chronicle, tz, stalled, hindrance, schedule), chronicle.changes
    own = of_run(run_id, changes) if run_id else changes
    lines = in_order(teller.lines(own if run_id else None), attempt_lines(own, runs, teller.tz))
    is_known = bool(own) or (schedule is not None and not run_id)
    if run_id:
        verdict = teller.verdict_of_run(run_id, own, schedule, now_ms, runs)
    else:
        verdict = teller.verdict(schedule, now_ms, runs) if is_known else _unknown(chronicle)
    newest_ms = max((one.nominal_ms or 0 for one in own if one.is_firing), default=0)
    missed = [one for one in own if one.what is What.DEADLINE_MISSED and (one.nominal_ms or 0) >= newest_ms]
    if missed:  # the deadline of the newest occurrence
        verdict = verdict.with_deadline(sentence(missed[-1], teller.tz))
    name = schedule.name if schedule else None
    id, source = run_id or chronicle.id, chronicle.source
    return Story(id, teller.tz, verdict, lines, is_known, source, own, *teller.authors, name)


def of_run(run_id: str, changes: Iterable[Change]) -> list[Change]:
    """Return the schedule's *changes* that name run *run_id* or concern its occurrence."""
    parts = RunId.parse(run_id)
    nominal_ms = None if parts is None or parts.rerun else parts.nominal_ms
    return [one for one in changes if run_id in (one.run_id, *one.why.split()) or _concerns(one, nominal_ms)]


def _concerns(change: Change, nominal_ms: int | None) -> bool:
    """Return True if *change* has no run, and concerns the occurrence of *nominal_ms*."""
    if nominal_ms is None or change.run_id is not None:
        return False
    first_ms, last_ms = change.first_ms, change.last_ms
    is_among = first_ms is not None and last_ms is not None and first_ms <= nominal_ms <= last_ms
    return is_among or change.nominal_ms == nominal_ms


class _Teller:
    """Writes the story of one schedule, change by change, and its resulting state."""

    def __init__(
        self,
        chronicle: Chronicle,
        tz: str | None,
        stalled: Mapping[str, Stalled] = {},
        hindrance: StoryVerdict = LEADERLESS,
        schedule: Schedule | None = None,
    ) -> None:
        self._chronicle, self._stalled, self._hindrance = chronicle, stalled, hindrance
        self.tz = tz or (schedule.tz if schedule else "UTC")
        moves = [] if tz else [(change.at_us, one) for change in chronicle.changes for one in change.changed]
        self._zones = [(at_us, one[4:].partition(" ")[0]) for at_us, one in moves if one.startswith("tz: ")]
        self.is_there = False  # True if Redis has it, by the changes so far
        self.authors: tuple[str | None, str | None] = (None, None)  # of its first and last put in this life
        self._is_recurring = False
        self._asked_for = dict[int | None, str]()  # of occurrences that are skipped by hand: who and why
        self._lateness = Lateness(chronicle.source.whole_since_us, self.tz)

    def _sentence(self, change: Change) -> str:
        """Return the sentence on *change*, in the zone that the schedule had then."""
        was = next((zone for until_us, zone in self._zones if change.at_us < until_us), self.tz)
        return sentence(change, "UTC" if was == "-" else was, self._context(change))

    def lines(self, own: Sequence[Change] | None = None) -> Iterator[tuple[int, str]]:
        """
        Yield a line per change, and one for left out changes; or a line for each of *own*, some of the changes. The
        context comes from all changes.
        """
        changes, left_out = self._chronicle.changes, self._chronicle.left_out if own is None else 0
        first = [change for change in changes if left_out and change.entry == changes[0].entry]
        for change in changes if own is not None else (*told_together(first), *told_together(changes[len(first) :])):
            if left_out and change.entry != changes[0].entry:
                yield change.at_us // 1000, f"… {left_out:,} more changes lie before this …"
                left_out = 0
            if own is None or change in own:
                yield change.at_us // 1000, self._sentence(change)
            self._note(change)

    def verdict(self, schedule: Schedule | None, now_ms: int, runs: Sequence[Run]) -> StoryVerdict:
        """Return the verdict by Redis, by the open *runs* in RQ (the newest first), and by the changes."""
        if schedule is None:
            return self._gone(runs)
        self.is_there = True
        state = on_schedule(schedule, now_ms, self.tz, self._hindrance)
        if state.word is not Word.SCHEDULED:
            return state.after(f"its {self._open(runs)}") if runs else state
        if not runs and (excluded := on_excluded(schedule, now_ms, self.tz)) is not None:
            return excluded.after(state.text)
        newest = self._of_run(runs[0]) if runs else None
        if newest is None or not newest.word.is_bad:
            newest = self._left_out(now_ms, runs) or newest or self._last_end()
        return state if newest is None else newest.after(self._others(runs) + state.text)

    def verdict_of_run(
        self, run_id: str, own: Sequence[Change], schedule: Schedule | None, now_ms: int, runs: Sequence[Run]
    ) -> StoryVerdict:
        """Return the verdict on a run by RQ, or by *own*, the changes that concern it."""
        id, self.is_there = self._chronicle.id, schedule is not None
        if not own:
            some = f"the newest {len(self._chronicle.changes):,} changes" if self._chronicle.left_out else "the changes"
            text = f"{some} of schedule {id} do not name run {run_id}"
            return StoryVerdict(Word.UNKNOWN, text, "see the schedule's story", ("zsched", "why", id))
        if runs:
            return self._of_run(runs[0]).after(f"it is of schedule {id}")
        own = [one for one in own if one.what is not What.DEADLINE_MISSED] or own
        if schedule is not None and own[-1].what in _WAITS:
            state = on_schedule(schedule, now_ms, self.tz, self._hindrance)
            return state.after(f"run {run_id} of schedule {id} was not pushed")
        again = " again" if any(map(is_push, own)) else ""
        verdict = on_change(own[-1], self._sentence(own[-1]), is_there=self.is_there)
        return verdict.after(f"run {run_id} of schedule {id} was not pushed{again}")

    def _of_run(self, run: Run) -> StoryVerdict:
        return on_run(run, self.tz, self._stalled.get(run.queue), is_there=self.is_there)

    def _open(self, runs: Sequence[Run]) -> str:
        """Return the state in RQ of the run that was pushed last, and the number of others."""
        return f"{self._of_run(runs[0]).text}{f' ({self._others(runs)[:-2]})' if len(runs) > 1 else ''}"

    @staticmethod
    def _others(runs: Sequence[Run]) -> str:
        """Return ``2 more of its runs are not over; ``, or ""."""
        others = sum(not run.is_over for run in runs[1:])
        return f"{others} more of its runs {'is' if others == 1 else 'are'} not over; " if others else ""

    def _left_out(self, now_ms: int, runs: Sequence[Run]) -> StoryVerdict | None:
        """Return the verdict on the newest occurrence if it was not pushed."""
        newest = _newest(self._chronicle)
        if newest is None or newest.what in _HAS_RUN:
            return None
        verdict = on_change(newest, self._sentence(newest), is_there=True)
        if (id := in_the_way(self._chronicle)) is None:
            return verdict
        open = [run for run in runs if not run.is_over]
        if (run := next((run for run in open if run.id == id), None)) is None:
            return replace(verdict, remedy=f"{NOTHING}: that run is over", command=())
        if run.status is RunStatus.QUEUED:  # with overlap="queue" it waits for a run before it
            run = next((one for one in open if one.status is RunStatus.RUNNING), run)
        known = self._of_run(run)
        for_long = "" if run.since_ms is None else f", for {rough_duration(max(now_ms - run.since_ms, 0))} now"
        return replace(verdict.after(f"{known.text}{for_long}"), remedy=known.remedy, command=known.command)

    def _last_end(self) -> StoryVerdict | None:
        """Return the verdict on the run that ended last."""
        changes = self._chronicle.changes
        last = next((change for change in reversed(changes) if change.what is What.RUN_ENDED), None)
        if last is None:
            return None
        verdict, gap = self._of_run(run_that_ended(last)), self._gap()
        if verdict.word is not Word.RAN or not gap:
            return verdict
        text, count = self._sentence(gap[-1]), sum(max(one.count, 1) for one in gap)
        return with_gap(verdict, gap, text if len(gap) == 1 else f"{plural(count, 'occurrence')} left out; {text}")

    def _gap(self) -> list[Change]:
        """Return the occurrences left out since the last firing, or in its favour, but not on request."""
        changes = self._chronicle.changes
        newest = next((n for n in reversed(range(len(changes))) if changes[n].what is What.FIRED), -1)
        favoured = [one for one in changes if newest >= 0 and one.entry == changes[newest].entry]
        left_out = (one for one in [*favoured, *changes[newest + 1 :]] if one.what in LEFT_OUT)
        return [one for one in left_out if one.why not in _WANTED]

    def _gone(self, runs: Sequence[Run]) -> StoryVerdict:
        """Return the verdict on a schedule that Redis does not have: by its last change, or by its last run."""
        if self.is_there:
            return StoryVerdict(
                Word.MISSING, f"Redis does not have it{_LOST}", "look for a cause", ("zsched", "doctor")
            )
        changes = self._chronicle.changes
        ends = {change.run_id: run_that_ended(change) for change in changes if change.what is What.RUN_ENDED}
        last = next((change for change in reversed(changes) if change.what not in OF_RUNS), changes[-1])
        if last.what not in _HAS_RUN:
            verdict = on_change(last, self._sentence(last), is_there=False)
            return verdict.after(f"its {self._open(runs)}") if runs else verdict
        if (run := (ends | {run.id: run for run in runs}).get(last.run_id)) is None:
            text = f"run {last.run_id} was pushed; its end is not recorded yet"
            return StoryVerdict(Word.PUSHED, text, "ask again in a moment", ("zsched", "why", self._chronicle.id))
        return self._of_run(run)

    def _note(self, change: Change) -> None:
        """Add *change* to the context of the following changes."""
        what = change.what
        self._lateness.note(change)
        if what is What.PUT:
            self._is_recurring = change.run_id is None
            self.authors = (self.authors[0] if self.is_there else change.by), change.by
        elif what is What.FOUND:
            self._is_recurring = self._is_recurring or change.run_id is None
        elif what is What.RESTORED:
            self._is_recurring = change.run_id is None
        elif what is What.SKIP_ASKED:
            note = f': "{change.why}"' if change.why else ""
            self._asked_for[change.nominal_ms] = f"asked by {change.by}{note}"
        elif (what in _ADVANCES and change.next_ms is not None) or (what is What.ENQUEUED and change.why == BACKFILL):
            self._is_recurring = True
        is_broken_run = what is What.QUARANTINED and change.run_id
        if is_broken_run or change.is_of_over_run or what in (*OF_RUNS, What.RETRIED, *RESTORED_RUNS):
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
        if change.what is What.SKIPPED and change.why == Outcome.BY_HAND.reason:
            return self._asked_for.get(change.first_ms, "")
        return self._lateness.reason(change)

    def _suppressed(self, change: Change) -> str:
        """Return why an existing run had not been pushed, or "" unless the source knows all pushes since its time."""
        source, nominal_us = self._chronicle.source, (change.nominal_ms or 0) * 1000
        is_complete = source.is_untrimmed or source.archive is not None or source.complete_since_ms is not None
        known = (one.run_id for one in self._chronicle.changes if is_push(one))
        if not is_complete or self._chronicle.left_out or source.whole_since_us > nominal_us or change.run_id in known:
            return ""
        return f"another program had made a job of run {change.run_id}, which was never pushed"


_SKIPS: Final = (What.SKIP_ASKED, What.SKIP_TAKEN_BACK)
_WAITS: Final = (What.PUT, What.FOUND, What.RESUMED, What.PAUSED, *_SKIPS, What.REPLANNED, What.RESTORED)
_OVER: Final = (What.FIRED, What.ENQUEUED, What.SKIPPED, What.EXPIRED)  # a one-shot ends with them
_HAS_RUN: Final = (RAN | OF_RUNS) - {What.DEADLINE_MISSED}
_OCCURRED: Final = _HAS_RUN | {What.SKIPPED, What.EXPIRED, What.UNKNOWN}
# Reasons to leave an occurrence out that somebody wanted.
_WANTED: Final = (Outcome.PAUSED.reason, Outcome.BY_HAND.reason, Outcome.RULE_CHANGED.reason)
_LOST: Final = ": no reason is recorded, so Redis lost it, or another writer removed it"
# Of a recurring schedule, with its next time.
_ADVANCES: Final = (What.FIRED, What.SKIPPED, What.EXPIRED, What.DUPLICATE, What.REPLANNED, What.UNKNOWN)


def _newest(chronicle: Chronicle) -> Change | None:
    """Return the change that says what became of the newest occurrence."""
    return next((change for change in reversed(chronicle.changes) if change.what in _OCCURRED), None)


def in_the_way(chronicle: Chronicle) -> str | None:
    """Return the run for which the newest occurrence was skipped (overlap); None: it was not."""
    newest = _newest(chronicle)
    words = newest.why.split() if newest is not None and newest.what is What.SKIPPED else ()
    return next((word for word in words if RunId.parse(word) is not None), None)


def _unknown(chronicle: Chronicle) -> StoryVerdict:
    source, remedy = chronicle.source, ("check its id, the namespace (-n) and the Redis (-u)", ("zsched", "ls"))
    if source.complete_since_ms is None and source.archive is not None:
        return StoryVerdict(Word.UNKNOWN, f"no schedule {chronicle.id} was ever put into {source.place}", *remedy)
    since = "" if source.complete_since_ms is None else f" since {local_text(source.complete_since_ms, 'UTC')}"
    text = f"nothing is known of a schedule {chronicle.id} in {source.place}{since}"
    return StoryVerdict(Word.UNKNOWN, f"{text}; earlier history is not available", *remedy)
