"""
The future: the occurrences to come of many schedules, in order or counted by spans of time. Pure.

The next occurrence of a schedule is stored with it, and the later ones follow from its rule. Schedules with equal rules
and equal next times share one walk: its times are computed once, and only the jitter of each schedule differs. So the
cost grows with the number of different rules.

``Future.occurrences`` are exact. Overdue ones fire now, by ``policy.plan``. ``Future.counts`` never expands a rule that
has more occurrences than there are spans, but asks it for its number in each span. With jitter each occurrence is
expanded, up to a number of them. Beyond it nominal times are counted, and ``SpanCounts.moved_ms`` says how far jitter
may move one.

Not known: what will be skipped for overlap, wait for a limit of its queue, or fire later for want of a daemon.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple, Self

from zsched.core.clock import LAST_MS
from zsched.core.model import Schedule, iso, json_of, seconds
from zsched.core.occurrences.policy import plan
from zsched.core.options.choices import ScheduleState
from zsched.core.pages import OnProgress, unnoticed
from zsched.core.triggers.layers import Trigger, nth_after, unskipped
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, lag_of, max_jitter_of
from zsched.errors import InvalidSchedule, TriggerError

MOST_SPANS: Final = 10_000  # a year by hour has 8,784
_EXPANDED: Final = 32  # occurrences a span, up to which walking them is quicker than counting (measured)
_MOST_DELAYED: Final = 1_000_000  # occurrences with jitter that are expanded to be counted: 2 s (measured)
_REPORTED: Final = 100  # rules between two reports of progress


class Spans(NamedTuple):
    """*number* spans of *step_ms* from *start_ms* on."""

    start_ms: int
    step_ms: int
    number: int

    @classmethod
    def of(cls, start_ms: int, end_ms: int, step_ms: int, most: int = MOST_SPANS) -> Self:
        """Return the spans of [start_ms, end_ms). Raises InvalidSchedule: none, or more than *most*."""
        number = -(-(end_ms - start_ms) // step_ms)
        if number < 1:
            raise InvalidSchedule("to", iso(end_ms), "not after from", "give a later end")
        if number > most:
            least = seconds(-(-(end_ms - start_ms) // most))
            problem = f"{number:,} spans between from and to"
            raise InvalidSchedule("bucket", seconds(step_ms), problem, f"give {least} seconds or more")
        return cls(start_ms, step_ms, number)

    @property
    def bounds(self) -> list[int]:
        """The beginnings of the spans, and the end of the last one."""
        return [self.start_ms + number * self.step_ms for number in range(self.number + 1)]

    def place(self, at_ms: int) -> int | None:
        """Return the number of the span with *at_ms*; None: it is in none."""
        place = (at_ms - self.start_ms) // self.step_ms
        return place if 0 <= place < self.number else None


class Walk(NamedTuple):
    """The occurrences of *trigger* with nominal times in (after_ms, until_ms]."""

    trigger: Trigger
    after_ms: int
    until_ms: int

    @classmethod
    def until_due(cls, trigger: Trigger, after_ms: int, start_ms: int, end_ms: int) -> Self:
        """
        Return those after *after_ms* that can be due in [start_ms, end_ms). Jitter ends before the next occurrence, so
        only the first one may be nominally before *start_ms*.
        """
        before_ms = trigger.last_until(start_ms - 1) if trigger.spec.jitter_ms else None
        first_ms = start_ms if before_ms is None else before_ms
        return cls(trigger, max(after_ms, first_ms - 1), end_ms - 1)

    @property
    def size(self) -> int:
        """Count them; the cost does not grow with their number."""
        return self.trigger.count_between(self.after_ms, self.until_ms)

    def times(self) -> Iterable[int]:
        """Return their nominal times, in order."""
        return self.trigger.between(self.after_ms, self.until_ms)

    def nth(self, number: int) -> int:
        """Return the nominal time of occurrence *number*, which counts from 1."""
        return nth_after(self.trigger, self.after_ms, number, self.until_ms)

    def delays(self) -> Iterator[tuple[int, int]]:
        """Yield their nominal times, each with its largest delay by jitter (``trigger.max_jitter_of``)."""
        trigger, most_ms, skipped = self.trigger, self.trigger.spec.jitter_ms, self.trigger.spec.skipped
        for at_ms, next_ms in pairwise(chain(unskipped(trigger).between(self.after_ms, self.until_ms), [None])):
            if at_ms is not None and at_ms not in skipped:
                yield at_ms, max_jitter_of(trigger, at_ms) if next_ms is None else min(most_ms, next_ms - at_ms - 1)

    def dues(self, id: str) -> Iterator[tuple[int, int]]:
        """Yield their nominal times and due times, by the jitter of schedule *id*."""
        return ((at_ms, at_ms + lag_of(id, at_ms, most_ms)) for at_ms, most_ms in self.delays())

    def by_span(self, spans: Spans) -> Iterable[tuple[int, int]]:
        """Yield numbers of spans, and of nominal times in them. A span may come repeatedly."""
        start_ms, bounds = max(self.after_ms, spans.start_ms - 1), spans.bounds
        instants = self.trigger.between(start_ms, self.until_ms)
        if self.trigger.count_between(start_ms, self.until_ms) <= _EXPANDED * spans.number:
            return Counter((at_ms - spans.start_ms) // spans.step_ms for at_ms in instants).items()
        if isinstance(instants, range):
            most = len(instants)
            passed = [min(max(-((instants.start - at_ms) // instants.step), 0), most) for at_ms in bounds]
            return enumerate(after - before for before, after in pairwise(passed))
        count, until_ms = self.trigger.count_between, self.until_ms
        spaces = ((max(a - 1, start_ms), min(b - 1, until_ms)) for a, b in pairwise(bounds))
        return ((place, count(a, b)) for place, (a, b) in enumerate(spaces) if a < b)


def coming(trigger: Trigger, id: str, first_ms: int, start_ms: int) -> Iterator[tuple[int, int]]:
    """
    Yield the nominal and due times of the occurrences of schedule *id* from *first_ms* on that are due after
    *start_ms*.
    """
    walk = Walk.until_due(trigger, first_ms - 1, start_ms + 1, LAST_MS + 1)
    return ((at_ms, due_ms) for at_ms, due_ms in walk.dues(id) if due_ms > start_ms)


class Expected(NamedTuple):
    """An occurrence to come: it fires at ``due_ms``."""

    due_ms: int
    id: str
    nominal_ms: int
    schedule: Schedule

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return json_of(self, "due_at", "nominal_at", "id") | json_of(self.schedule, "queue", "func")


class SpanCounts:
    """
    Numbers of occurrences: ``rows`` by key, each by span. ``moved_ms``: so far jitter may move some of them; 0: all are
    exact. Of ``left_out`` schedules only the next occurrence is counted.
    """

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.rows: dict[str, list[int]] = {}
        self.moved_ms = self.left_out = 0

    def add(self, key: str, place: int, number: int = 1) -> None:
        """Count *number* more in the span with the number *place*."""
        if (row := self.rows.get(key)) is None:
            row = self.rows[key] = [0] * self.spans.number
        row[place] += number

    def totals(self) -> list[int]:
        """Return the numbers of all keys together, by span."""
        return [sum(each) for each in zip(*self.rows.values(), strict=True)] or [0] * self.spans.number


class _SharedRule(NamedTuple):
    """Schedules with equal rules that continue after the same occurrence, and the walk of all of them."""

    walk: Walk
    members: list[Schedule]

    def occurrences(self, start_ms: int, end_ms: int) -> Iterator[Expected]:
        """Yield the occurrences that are due in [start_ms, end_ms), in order."""
        members = sorted(self.members, key=lambda one: one.id)
        for at_ms, most_ms in self.walk.delays():
            found = [Expected(at_ms + lag_of(one.id, at_ms, most_ms), one.id, at_ms, one) for one in members]
            yield from (one for one in (sorted(found) if most_ms else found) if start_ms <= one.due_ms < end_ms)


class Future:
    """
    The occurrences of *schedules* that are due in [start_ms, end_ms), as known at *now_ms*.

    ``left_out`` counts schedules without a future: by state, and *unreadable* if the rule cannot be evaluated here.
    """

    def __init__(self, schedules: Iterable[Schedule], now_ms: int, start_ms: int, end_ms: int) -> None:
        self.start_ms, self.end_ms = start_ms, min(end_ms, LAST_MS + 1)
        self.left_out: Counter[str] = Counter()
        self._next: list[Expected] = []
        self._rules: dict[tuple[TriggerSpec, object, int, int], _SharedRule] = {}
        for one in schedules:
            if one.state is not ScheduleState.ACTIVE or one.next_ms is None:
                self.left_out[one.state.value] += 1
            elif one.kind == "once":
                self._add_next(one, one.next_ms, one.next_ms, now_ms)
            else:
                self._add_rule(one, one.next_ms, now_ms)

    def occurrences(self) -> Iterator[Expected]:
        """Yield them by due time and id, as they are computed."""
        rules = (rule.occurrences(self.start_ms, self.end_ms) for rule in self._rules.values())
        return heapq.merge(sorted(self._next), *rules)

    def counts(
        self,
        spans: Spans,
        key: Callable[[Schedule], str] = lambda one: "",
        *,
        has_next: bool = True,
        most_steps: int | None = None,
        on_progress: OnProgress = unnoticed,
    ) -> SpanCounts:
        """
        Count them by *key* and by *spans*; without the next one of each schedule unless *has_next*. *most_steps*: of
        the calendar; later rules are left out. *on_progress* gets the numbers of done rules, and of all.
        """
        found, steps, left = SpanCounts(spans), 0, _MOST_DELAYED
        for one in self._next if has_next else ():
            if (place := spans.place(one.due_ms)) is not None:
                found.add(key(one.schedule), place)
        for done, rule in enumerate(self._rules.values()):
            if done % _REPORTED == 0:
                on_progress(done, len(self._rules))
            walk, spec = rule.walk, rule.walk.trigger.spec
            delayed = walk.size * len(rule.members) if spec.jitter_ms else 0
            is_calendar = spec.kind.is_of_zone
            if most_steps is not None and is_calendar and steps >= most_steps:
                found.left_out += len(rule.members)
            elif 0 < delayed <= left:
                left -= delayed
                _count_each(found, walk, rule.members, key)
            else:
                found.moved_ms = max(found.moved_ms, spec.jitter_ms if delayed else 0)
                steps += is_calendar * _count_together(found, walk, Counter(map(key, rule.members)))
        on_progress(len(self._rules), len(self._rules))
        return found

    def _add_next(self, one: Schedule, nominal_ms: int, due_ms: int, now_ms: int) -> None:
        """Add the next occurrence of *one*, due at *due_ms*: now, if it is overdue, unless it has expired."""
        is_expired = one.expires_ms is not None and now_ms > due_ms + one.expires_ms
        at_ms = max(due_ms, now_ms)
        if self.start_ms <= at_ms < self.end_ms and not is_expired:
            self._next.append(Expected(at_ms, one.id, nominal_ms, one))

    def _add_rule(self, one: Schedule, due_ms: int | None, now_ms: int) -> None:
        spec, nominal_ms = one.trigger, one.nominal_ms
        if spec is None or nominal_ms is None:
            self.left_out["unreadable"] += 1
            return
        anchor_ms = one.anchor_ms or 0
        try:
            trigger = build(spec, anchor_ms)
            while nominal_ms is not None and due_ms is not None and due_ms <= now_ms:
                planned = plan(trigger, nominal_ms, now_ms, one.policy, one.id)
                if planned.fire_ms is not None and planned.due_ms is not None:
                    self._add_next(one, planned.fire_ms, planned.due_ms, now_ms)
                nominal_ms, due_ms = planned.next_ms, planned.next_due_ms
        except (InvalidSchedule, TriggerError):
            self.left_out["unreadable"] += 1
            return
        if nominal_ms is not None and due_ms is not None and due_ms < self.end_ms:
            self._add_next(one, nominal_ms, due_ms, now_ms)
            key = spec, spec.skipped, anchor_ms if spec.is_anchored else 0, nominal_ms
            if key not in self._rules:
                self._rules[key] = _SharedRule(Walk.until_due(trigger, nominal_ms, self.start_ms, self.end_ms), [])
            self._rules[key].members.append(one)


def _count_each(found: SpanCounts, walk: Walk, members: list[Schedule], key: Callable[[Schedule], str]) -> None:
    """Count the occurrences of *members* one by one, each with its delay."""
    keys = [(one.id, key(one)) for one in members]
    for at_ms, most_ms in walk.delays():
        for id, name in keys:
            if (place := found.spans.place(at_ms + lag_of(id, at_ms, most_ms))) is not None:
                found.add(name, place)


def _count_together(found: SpanCounts, walk: Walk, members: Counter[str]) -> int:
    """Count the nominal times of schedules, whose numbers are *members* by key. Return the number of steps."""
    steps = list(walk.by_span(found.spans))
    for name, number in members.items():
        for place, count in steps:
            found.add(name, place, count * number)
    return len(steps)
