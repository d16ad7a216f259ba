"""
Apply a file of schedules to Redis.

    compare   every entry with Redis: a step each (created, updated, unchanged), and all errors
    calendars put first, as schedules name them
    put       the steps that change something, each only if its schedule has not changed since the comparison
    remove    schedules and calendars that the file owns and no longer contains, if that is demanded

Nothing is written before everything was compared. The decision that a step changes something is the same as in the put
script (``client.file_sync``). So a dry run, which ends after the comparison, agrees with a real run. A schedule that
another writer changes in between is compared again, and never overwritten unseen.

Not guaranteed: the changes do not happen at once. Between two steps others see some of them. When the connection is
lost in the middle, the schedules put so far stay. Applying the same file again continues from there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from zsched.client import Client
from zsched.client.file_sync import FileSync
from zsched.client.timeline import usual_durations_ms
from zsched.core.clock import to_ms
from zsched.core.model import Definition, Schedule, Scheduled, json_of
from zsched.core.occurrences.difference import TimesDifference, difference, foreseen
from zsched.core.occurrences.future import Future
from zsched.core.occurrences.simulation import Simulation
from zsched.core.options.choices import ScheduleState
from zsched.core.pages import OnProgress
from zsched.core.triggers.calendar_definition import SORT, Calendar
from zsched.core.triggers.spec import Calendars, TriggerSpec
from zsched.core.triggers.trigger import check, with_calendars
from zsched.core.wording import some
from zsched.errors import InvalidSchedule, RedisRefused, RedisUnavailable, ZschedError
from zsched.files.reading import Complaint, FileEntry, ScheduleFile, file_refusal, header_of
from zsched.storage.comparing import OptionChange, ScheduleWithOptions, option_changes
from zsched.storage.refusals import contended

_RECOMPARED: Final = 5  # attempts for a schedule that other writers change meanwhile
_MILLISECOND: Final = timedelta(milliseconds=1)
CREATED: Final = "created"
UPDATED: Final = "updated"
UNCHANGED: Final = "unchanged"
REMOVED: Final = "removed"
STALE: Final = "stale"  # the file owns it, but lacks it


@dataclass(frozen=True, slots=True)
class Step:
    """
    The plan for one entry. ``definition`` is put if ``writes``. ``held``: the schedule in Redis at the comparison.
    """

    entry: FileEntry
    outcome: str
    changes: tuple[OptionChange, ...]
    definition: Definition
    held: ScheduleWithOptions | None
    writes: bool
    calendars: Callable[[], Calendars]
    next_ms: int | None = None  # set after the put

    def times(self, now_ms: int) -> TimesDifference:
        """Return what its put at *now_ms* does to the times. Raises TriggerError."""
        return difference(None if self.held is None else self.held.schedule, self.definition, now_ms, self.calendars)

    def foreseen(self, now_ms: int) -> Schedule:
        """Return the schedule that its put at *now_ms* makes. Raises TriggerError."""
        return foreseen(None if self.held is None else self.held.schedule, self.definition, now_ms, self.calendars)

    def to_dict(self, dry_ms: int | None = None) -> dict[str, Any]:
        """Return the step for JSON, by ``json_of``; *dry_ms*: with the difference in times by a put at that time."""
        given = {"id": self.entry.id, "line": self.entry.line, "changes": [one._asdict() for one in self.changes]}
        shown = json_of(self, "id", "line", "outcome", "changes", "next_at", **given)
        return shown if dry_ms is None or not self.writes else shown | {"times": self.times(dry_ms).to_dict()}


class CalendarStep(NamedTuple):
    """The plan for a calendar: one of the words above, and the parts that differ."""

    name: str
    outcome: str
    changes: tuple[OptionChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the step for JSON."""
        return {**self._asdict(), "changes": [one._asdict() for one in self.changes]}


@dataclass(slots=True)
class Applied:
    """Result of applying a file, or of a dry run. ``stale``: ids that the file owns but lacks, and were not removed."""

    steps: list[Step] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    errors: list[tuple[str, ZschedError]] = field(default_factory=list)
    calendars: list[CalendarStep] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """Count the steps with this outcome."""
        return sum(step.outcome == outcome for step in self.steps)


class Application:
    """One file to apply through *client*. *takes_over*: schedules of other owners become the file's."""

    def __init__(self, client: Client, file: ScheduleFile, *, takes_over: bool = False) -> None:
        self._client, self._sync = client, FileSync(client, file.calendars)
        self._file, self._takes_over = file, takes_over

    def compare(self) -> list[Step]:
        """
        Return a step for each entry, in the order of the file. Nothing is written.

        Raises:
            InvalidFile: some entries cannot be applied: another owner's, a one-shot's id, or no occurrence is left.
            InvalidSchedule: the namespace uses another serializer.
        """
        now_ms = self._sync.now_ms()
        held = {one.schedule.id: one for one in self._sync.held(entry.definition.id for entry in self._file.entries)}
        steps, complaints, calendars = list[Step](), list[Complaint](), self._client._reader.calendars()
        for name in self._file.calendars.keys() & calendars.keys():
            try:
                self._refuse_others("name", name, calendars[name].owner)
            except InvalidSchedule as error:
                place = self._file.lines.of("calendars", name)
                complaints.append(Complaint(place, header_of(name, "calendars"), str(error)))
        for entry in self._file.entries:
            try:
                steps.append(self._step(entry, held.pop(entry.id, None), now_ms))
            except ZschedError as error:
                complaints.append(Complaint(entry.line, header_of(entry.id), str(error)))
        if complaints:
            raise file_refusal(self._file.name, complaints)
        return steps

    def simulate(
        self, length: timedelta, workers: Mapping[str, int], durations: Mapping[str, timedelta], on_progress: OnProgress
    ) -> tuple[Simulation, Counter[str]]:
        """
        Return the simulation of all entries within *length*, with *workers* by queue, and the ``left_out`` of their
        ``Future``. Runs last as long as lately, or as *durations* say. *on_progress*: of ``Simulation.run``. Raises as
        ``compare``.
        """
        now_ms = self._sync.now_ms()
        schedules = [step.foreseen(now_ms) for step in self.compare()]
        given_ms = {func: took // _MILLISECOND for func, took in durations.items()}
        simulation = Simulation(workers, usual_durations_ms(self._client._answers, schedules) | given_ms, now_ms)
        future = Future(schedules, now_ms, now_ms, now_ms + length // _MILLISECOND)
        simulation.run(future.occurrences(), future.end_ms, on_progress)
        return simulation, future.left_out

    def stale(self) -> list[str]:
        """Return the ids of recurring schedules that the file owns but does not contain, sorted."""
        said = {entry.id for entry in self._file.entries}
        return [one.id for one in self._sync.recurring() if one.owner == self._file.owner and one.id not in said]

    def foretell(self, *, prune: bool) -> Applied:
        """Return the result of a dry run; with *prune* stale schedules are removed. Raises as ``compare``."""
        steps, stale = self.compare(), self.stale()
        calendars = list(self._calendar_steps(prune))
        return Applied(steps, stale if prune else [], [] if prune else stale, calendars=calendars)

    def carry_out(self, preview: Applied, on_progress: Callable[[int], None]) -> Applied:
        """
        Do the steps of *preview*, then its removals unless a step failed. *on_progress* is called with the number done.

        Raises:
            RedisUnavailable: in the middle; the message says how far it came.
        """
        applied, done, results = Applied(stale=list(preview.stale)), 0, dict[int, Step | ZschedError]()
        if self._file.calendars:
            self._client._store.named_texts.put(SORT, {name: one.text for name, one in self._file.calendars.items()})
        try:
            for number, result in self._results(preview.steps):
                results[number] = result
                done += 1
                on_progress(done)
            for number, result in sorted(results.items()):
                if isinstance(result, Step):
                    applied.steps.append(result)
                else:
                    applied.errors.append((preview.steps[number].entry.id, result))
            for id in preview.removed:
                if applied.errors:
                    applied.stale.append(id)
                elif self._is_removed(id):
                    applied.removed.append(id)
                done += 1
                on_progress(done)
            for step in preview.calendars:
                is_kept = step.outcome == REMOVED and (applied.errors or not self._client.delete_calendar(step.name))
                applied.calendars.append(step._replace(outcome=STALE) if is_kept else step)
        except InvalidSchedule as error:  # another owner's schedules name a calendar
            applied.errors.append((f"calendar {error.value}", error))
        except RedisUnavailable as error:
            total = len(preview.steps) + len(preview.removed)
            done_before = f"{done:,} of {total:,} schedules were done, and the same command continues from there"
            raise error.but(f"{error.problem}; {done_before}") from error
        return applied

    def _calendar_steps(self, prune: bool) -> Iterator[CalendarStep]:
        held, wanted = self._client._reader.calendars(), self._file.calendars
        for name, calendar in wanted.items():
            was = held.get(name)
            outcome = CREATED if was is None else UNCHANGED if was.text == calendar.text else UPDATED
            yield CalendarStep(name, outcome, () if was is None else tuple(_calendar_changes(was, calendar)))
        for name in sorted(held.keys() - wanted.keys()):
            if held[name].owner == self._file.owner:
                yield CalendarStep(name, REMOVED if prune else STALE)

    # -- how ----------------------------------------------------------------------------------------

    def _step(self, entry: FileEntry, held: ScheduleWithOptions | None, now_ms: int) -> Step:
        """Plan *entry*, where Redis holds *held*. Raises InvalidSchedule."""
        if held is not None:
            if held.schedule.record.run:
                remedy = "cancel that one first, or give another id"
                raise InvalidSchedule("id", entry.id, "a one-shot of this id exists", remedy)
            self._refuse_others("id", held.schedule.id, held.schedule.owner)
        definition, wanted = self._sync.wanted(entry.definition, held)
        writes = held is None or not held.is_same_put(wanted)
        if writes and isinstance(definition.when, TriggerSpec):
            # ends may have passed; an unchanged schedule is not checked for that
            check(with_calendars(definition.when, self._sync.calendars), now_ms)
        found = () if held is None else tuple(option_changes(held, wanted))
        if held is not None and _changes_enabled(definition, held.schedule.state, writes):
            found += (OptionChange("enabled", str(not definition.enabled).lower(), str(definition.enabled).lower()),)
            writes = True
        outcome = CREATED if held is None else UPDATED if writes else UNCHANGED
        return Step(entry, outcome, found, definition, held, writes, self._sync.calendars)

    def _refuse_others(self, field: str, name: str, owner: str | None) -> None:
        """Refuse to change what has another *owner*. Raises InvalidSchedule."""
        if owner != self._file.owner and not self._takes_over:
            manager = "nobody" if owner is None else repr(owner)
            problem = f"it exists and is owned by {manager}, not by {self._file.owner!r}"
            raise InvalidSchedule(field, name, problem, f"--take-over makes it this file's, or give another {field}")

    def _results(self, steps: Sequence[Step]) -> Iterator[tuple[int, Step | ZschedError]]:
        """Do *steps*. Yield each step's number, and the done step or its error. An error does not stop the others."""
        together = [n for n, step in enumerate(steps) if step.writes and not step.definition.durable]
        left = dict.fromkeys(range(len(steps)))
        with suppress(RedisRefused, InvalidSchedule):  # a call with many was refused; then each is put alone
            for place, scheduled in self._sync.put_many((steps[n].definition, steps[n].held) for n in together):
                number = together[place]
                del left[number]
                yield number, self._tried(steps[number], scheduled)
        yield from ((number, self._tried(steps[number], None)) for number in left)

    def _tried(self, step: Step, scheduled: Scheduled | ZschedError | None) -> Step | ZschedError:
        """Return the result of ``_done``, or its error, or that of the put. Raises RedisUnavailable."""
        try:
            return scheduled if isinstance(scheduled, ZschedError) else self._done(step, scheduled)
        except RedisUnavailable:
            raise
        except ZschedError as error:
            return error

    def _done(self, step: Step, scheduled: Scheduled | None) -> Step:
        """
        Do *step* and return it. *scheduled*: the result of its put, if that is done. If the schedule has changed since
        the comparison, it is compared again.
        """
        for _ in range(_RECOMPARED):
            if scheduled is None and not step.writes:
                return replace(step, next_ms=None if step.held is None else step.held.schedule.next_ms)
            scheduled = scheduled or self._sync.put(step.definition, step.held)
            if scheduled is not None:
                return replace(step, next_ms=None if scheduled.next_at is None else to_ms(scheduled.next_at))
            step = self._step(step.entry, next(self._sync.held([step.entry.id]), None), self._sync.now_ms())
        raise contended(step.entry.id, "apply again")

    def _is_removed(self, id: str) -> bool:
        """Cancel *id*, if it is still the file's."""
        is_own = any(held.schedule.owner == self._file.owner for held in self._sync.held([id]))
        return is_own and self._client.cancel(id) == "cancelled"


def _calendar_changes(old: Calendar, new: Calendar) -> Iterator[OptionChange]:
    """Yield the parts in which two calendars differ, each with the texts that only one of them has."""
    before, after = old.to_dict(), new.to_dict() | {"owner": new.owner}
    for part, was in before.items():
        sides = (was, after[part]), (after[part], was)
        gone, come = (some([one for one in a if one not in b]) if isinstance(a, list) else a for a, b in sides)
        if was != after[part]:
            yield OptionChange(part, gone or None, come or None)


def _changes_enabled(definition: Definition, state: ScheduleState, writes: bool) -> bool:
    """Return True if the put of *definition* pauses or resumes a schedule in *state*. An ended one cannot be paused."""
    may_change = definition.enabled is not None and (state is not ScheduleState.ENDED or writes)
    return may_change and definition.enabled == (state is ScheduleState.PAUSED)
