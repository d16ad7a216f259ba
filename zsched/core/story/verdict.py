"""
The verdict of a story: did it run, what is its state, and what can be done. ``zsched why`` prints it first.

A verdict has a word, so that the answer is seen at once; a text with the facts; and a remedy, which may be that nothing
has to be done. It is about the newest thing: a schedule that is out of its lane, else the run that was pushed last,
else its next time.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any, Final, Self

from zsched.core.model import MEND, Schedule, iso
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.attempts import remedy_of
from zsched.core.runs.job import DEFAULT_TIMEOUT_S
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import local_text, state_text
from zsched.core.triggers.layers import OpenTrigger, excluding
from zsched.core.triggers.trigger import build
from zsched.core.wording import duration_text, rough_duration
from zsched.errors import InvalidSchedule, TriggerError


class Word(StrEnum):
    """The answer in a word. ``is_bad``: something did not run that should have."""

    SCHEDULED = "SCHEDULED"  # its time has not come
    OVERDUE = "OVERDUE", True  # its time has come, and nobody fired it
    HELD_BACK = "HELD BACK", True  # the same, by the limit of its queue
    QUEUED = "QUEUED"  # its run is in its queue
    NOT_RUN = "NOT RUN", True  # the same, and no worker takes it
    RUNNING = "RUNNING"
    RAN = "RAN"
    LATE = "LATE", True  # it missed its deadline, and nothing else is wrong
    FAILED = "FAILED", True
    LOST = "LOST", True
    EXPIRED = "EXPIRED", True
    REFUSED = "REFUSED", True  # a guarded worker did not run it
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"  # its occurrence was not pushed
    EXCLUDED = "EXCLUDED"  # its occurrence was at a time that the schedule excludes
    PAUSED = "PAUSED"
    QUARANTINED = "QUARANTINED", True
    UNREADABLE = "UNREADABLE", True  # another program broke an option of it
    ENDED = "ENDED"
    PUSHED = "PUSHED"  # its run was pushed, and more is not known yet
    MISSING = "MISSING", True  # Redis should have it
    UNKNOWN = "UNKNOWN"  # no schedule or run of this id is known

    def __new__(cls, word: str, is_bad: bool = False) -> Self:
        """Make the member whose value is *word*."""
        member = str.__new__(cls, word)
        member._value_, member.is_bad = word, is_bad
        return member

    is_bad: bool


class Stalled(Enum):
    """The reason why no worker takes a run from its queue, {}; the remedy, and the words of its command."""

    UNHEARD = "no RQ worker is registered for queue {}", "start one", "rq", "worker"
    SUSPENDED = "RQ's workers are suspended", "resume them", "rq", "resume"


NOTHING: Final = "nothing to do"


@dataclass(frozen=True, slots=True)
class StoryVerdict:
    """
    The answer: a word, the facts, and what to do. ``command``: words of a command that ends the remedy. ``has_gap``: it
    ran, and occurrences before it were left out. ``acts``: the command, for the console, after the remedy has it.
    """

    word: Word
    text: str
    remedy: str
    command: tuple[str, ...] = ()
    has_gap: bool = False
    acts: tuple[tuple[str, ...], ...] = ()

    @property
    def is_good(self) -> bool:
        """True if it ran, and so did the occurrences before it."""
        return self.word is Word.RAN and not self.has_gap

    def after(self, text: str) -> Self:
        """Return it with *text* behind its own."""
        return replace(self, text=f"{self.text}; {text}")

    def with_deadline(self, text: str) -> Self:
        """Return it with *text*, which says that a deadline was missed, before its own."""
        word = self.word if self.word.is_bad else Word.LATE
        return replace(self, word=word, text=f"{text}; {self.text}")

    def completed(self, written: Callable[[Sequence[str]], str]) -> Self:
        """Return it with its command, *written* for a shell, at the end of the remedy."""
        if not self.command:
            return self
        return replace(self, remedy=f"{self.remedy}: {written(self.command)}", command=(), acts=(self.command,))

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"word": self.word.value, "text": self.text, "remedy": self.remedy}


LEADERLESS: Final = StoryVerdict(Word.OVERDUE, "no daemon is leading", "see what is wrong", ("zsched", "status"))


def on_schedule(schedule: Schedule, now_ms: int, tz: str, hindrance: StoryVerdict = LEADERLESS) -> StoryVerdict:
    """
    Return the verdict on *schedule* by its state alone; times are local in *tz*. *hindrance*: on a due schedule, with
    the reason why it does not fire.
    """
    if schedule.unreadable:
        return StoryVerdict(Word.UNREADABLE, schedule.damage, MEND, ("zsched", "cancel", schedule.id))
    since = "" if schedule.since_ms is None else f"since {local_text(schedule.since_ms, tz)}"
    since += "" if schedule.resumes_ms is None else f" until {local_text(schedule.resumes_ms, tz)}"
    by = f"by {schedule.paused_by}" if schedule.paused_by else ""
    since = " ".join(filter(None, (since, by))) + (f': "{schedule.note}"' if schedule.note else "")
    if schedule.state is ScheduleState.PAUSED:
        text = "; ".join(filter(None, (since, _due_when_paused(schedule, now_ms, tz))))
        return StoryVerdict(
            Word.PAUSED, text or "it fires when it is resumed", "resume it", ("zsched", "resume", schedule.id)
        )
    if schedule.state is ScheduleState.QUARANTINED:
        remedy = "schedule it again, or cancel it, or release it if the cause is gone"
        return StoryVerdict(Word.QUARANTINED, since, remedy, ("zsched", "release", schedule.id))
    if schedule.state is ScheduleState.ENDED or schedule.next_ms is None:
        return StoryVerdict(Word.ENDED, f"{since}: its rule gives no more occurrences".lstrip(": "), NOTHING)
    at, ahead_ms = local_text(schedule.next_ms, tz), schedule.next_ms - now_ms
    if ahead_ms > 0:
        return StoryVerdict(Word.SCHEDULED, f"next {at}, in {rough_duration(ahead_ms)}", f"{NOTHING}: it fires then")
    return replace(hindrance, text=f"due {at}, {rough_duration(-ahead_ms)} ago; {hindrance.text}")


def on_excluded(schedule: Schedule, now_ms: int, tz: str) -> StoryVerdict | None:
    """Return the verdict on the newest occurrence of *schedule* until *now_ms* by its rule, if that is excluded."""
    with suppress(TriggerError, InvalidSchedule):  # a broken rule, or a calendar that Redis lacks
        layer = schedule.trigger and excluding(build(schedule.trigger, schedule.anchor_ms or 0))
        if isinstance(layer, OpenTrigger) and (found := layer.newest_excluded(now_ms)) is not None:
            at_ms, why = found
            text = f"{local_text(at_ms, tz)} was excluded: {why}"
            return StoryVerdict(Word.EXCLUDED, text, f"{NOTHING}: it fires at its next time")
    return None


def _due_when_paused(schedule: Schedule, now_ms: int, tz: str) -> str:
    if schedule.next_ms is None:
        return ""
    at, late_ms = local_text(schedule.next_ms, tz), now_ms - schedule.next_ms
    return f"it would be due {at}" if late_ms < 0 else f"it was due {at}, {rough_duration(late_ms)} ago, and waits"


def on_run(run: Run, tz: str, stalled: Stalled | None = None, *, is_there: bool = False) -> StoryVerdict:
    """
    Return the verdict on *run*; *stalled*: the reason why no worker takes it from its queue, if one is known.
    *is_there*: its schedule is still there.
    """
    text = f"run {run.id} {state_text(run, tz)}"
    if run.status is RunStatus.QUEUED and stalled is not None:
        why, remedy, *command = stalled.value
        name = (run.queue,) if stalled is Stalled.UNHEARD else ()
        return StoryVerdict(Word.NOT_RUN, f"{text}; {why.format(run.queue)}", remedy, (*command, *name))
    word, remedy, *command = _OF_RUNS[run.status]
    object = run.queue if run.status is RunStatus.QUEUED else run.id
    if not object:
        remedy, command = _WHILE_UNKNOWN, []
    if run.is_timed_out and run.timeout_s:
        chosen = "RQ's default" if run.timeout_s == DEFAULT_TIMEOUT_S else "its timeout"
        limit, more = f"{run.timeout_s} s is {chosen}, also of a retry", duration_text(4000 * run.timeout_s)
        if not is_there:
            return StoryVerdict(Word.FAILED, text, f"{limit}; schedule it again with more: --timeout {more}")
        longer = "zsched", "set", run.schedule_id, "--timeout", more
        return StoryVerdict(Word.FAILED, text, f"{limit}; give its next runs more", longer)
    if run.status is RunStatus.FAILED and (deploy := remedy_of(run.error)):
        remedy = f"{deploy}; then run it again"
    return StoryVerdict(word, text, remedy.format(run.id), (*command, object) if command else ())


def on_change(change: Change, text: str, *, is_there: bool) -> StoryVerdict:
    """Return the verdict *text* on what *change* did to a schedule or to an occurrence of it, without a run."""
    word, remedy = _OF_CHANGES.get(change.what, (Word.ENDED, NOTHING))
    if change.what is What.SKIPPED:
        remedy = _OF_SKIPPED.get(change.why, _WANTED)
    if not remedy.endswith(_WANTED):
        return StoryVerdict(word, text, remedy)
    if not is_there:
        return StoryVerdict(word, text, f"{remedy}, schedule it again")
    return StoryVerdict(word, text, f"{remedy}, run it now", ("zsched", "run", change.id))


def with_gap(verdict: StoryVerdict, gap: Sequence[Change], text: str) -> StoryVerdict:
    """Return *verdict* on the last run of a schedule; occurrences before or after it were left out: *gap*, *text*."""
    first = [ms for one in gap if (ms := one.nominal_ms if one.first_ms is None else one.first_ms) is not None]
    last = [ms for one in gap if (ms := one.nominal_ms if one.last_ms is None else one.last_ms) is not None]
    verdict = replace(verdict.after(text), has_gap=True)
    if not first or not last:
        return verdict
    command = ("zsched", "backfill", gap[0].id, "--from", str(iso(min(first))), "--to", str(iso(max(last) + 1)))
    return replace(verdict, remedy=f"{NOTHING}, if that is enough; the others run, too, by", command=command)


_RETRY: Final = ("run it again", "zsched", "retry")
_MORE_WORKERS: Final = f"{NOTHING}: its turn comes; if that takes too long, start another worker"
_REPAIR: Final = "zsched show {} has the traceback; repair the cause, then run it again"
_SIGNED: Final = "if you made it, see docs/how-to/sign-jobs.md; else find out who can write RQ's keys"
# The word; the remedy, with {} for the run's id; and the words of its command, which ends with that id; of a queued run
# with its queue.
_OF_RUNS: Final[dict[RunStatus, tuple[Word, str, *tuple[str, ...]]]] = {
    RunStatus.QUEUED: (Word.QUEUED, _MORE_WORKERS, "rq", "worker"),
    RunStatus.RUNNING: (Word.RUNNING, f"{NOTHING}, unless it hangs; then stop it", "zsched", "cancel-run"),
    RunStatus.SUCCEEDED: (Word.RAN, NOTHING),
    RunStatus.FAILED: (Word.FAILED, _REPAIR, "zsched", "retry"),
    RunStatus.CANCELLED: (Word.CANCELLED, "if it is still wanted, run it again", "zsched", "retry"),
    RunStatus.LOST: (Word.LOST, *_RETRY),
    RunStatus.EXPIRED: (Word.EXPIRED, *_RETRY),
    RunStatus.REFUSED: (Word.REFUSED, _SIGNED),
}
_WHILE_UNKNOWN: Final = f"{NOTHING}: its turn comes; zsched status names queues without workers"
_WANTED: Final = "if it is still wanted"  # its remedy goes on
_OF_CHANGES: Final = {
    What.CANCELLED: (Word.CANCELLED, _WANTED),
    What.SKIPPED: (Word.SKIPPED, _WANTED),
    What.COALESCED: (Word.SKIPPED, f"{NOTHING}: a later one fired instead"),
    What.EXCLUDED: (Word.EXCLUDED, f"{NOTHING}: it fires at its next time"),
    What.EXPIRED: (Word.EXPIRED, _WANTED),
    What.QUARANTINED: (Word.QUARANTINED, _WANTED),
    What.UNKNOWN: (Word.UNKNOWN, "upgrade this zsched: a newer one decided it"),
}
_OF_SKIPPED: Final = {
    Outcome.BY_HAND.reason: f"{NOTHING}: somebody wanted it",
    Outcome.UNCERTAIN.reason: f"find out whether it ran; if it did not, and {_WANTED}",
    Outcome.RULE_CHANGED.reason: f"{NOTHING}: the new rule counts",
}
