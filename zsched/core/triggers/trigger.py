"""
The triggers' interface to the rest of zsched: the list of kinds, and rules bounded by start, end and count.

``build`` makes a trigger from a ``TriggerSpec``; ``check`` is called when a schedule is put. Triggers have no state.
``count`` is computed: it counts all occurrences from the start, run or not. So a trigger gives the same answers in
every process and after any gap.

To add a kind, write its module beside ``every``, ``cron`` and ``rrule``, and name its instance in ``KINDS`` and the
type of its option in ``KindOptions``. Calls, command line, files, messages and listings follow from that.

Jitter delays the due time of an occurrence after its nominal time, so that schedules of one rule do not fire at once.
The delay depends on id and nominal time only: it is the same in every process and after any restart, and spread evenly
over ``[0, jitter]``. For a one-shot it depends on the id only: if ``at`` moves by an hour, its due time does, too.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypedDict

from zsched.core.options.arguments import LONGEST_S, check_text
from zsched.core.triggers.calendars import Calendars
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.exclusions import Closed, Exclusions, canonical, exclusions_of, is_name
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Fold, Gap, OnExcluded, Rule, TriggerKind, TriggerSpec, stepwise
from zsched.core.triggers.zones import FLOOR_S, HORIZON_S
from zsched.core.wording import alternatives
from zsched.errors import InvalidSchedule, TriggerError

KINDS: Final[tuple[TriggerKind, ...]] = (EVERY, CRON, RRULE)


class KindOptions(TypedDict, total=False):
    """The options of the kinds, with the types that a caller gives: for editors and type checkers."""

    every: float | str | timedelta | None
    cron: str | None
    rrule: str | None


RULES: Final = tuple(kind.name for kind in KINDS)
GIVE_A_RULE: Final = f"give {alternatives(RULES)}"  # a remedy: "give every, cron or rrule"

_MOST_CLOSED: Final = 5000  # of excluded times, one after another: more than thirteen years of nights
_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> TriggerKind:
    """Return the kind called *name*. Raises ValueError if there is none."""
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is not a kind of trigger; known are {', '.join(RULES)}")
    return kind


def read_spec(text: str) -> TriggerSpec:
    """Return the rule with the ``to_text`` *text*. Raises ValueError, KeyError or TypeError for any other text."""
    fields = json.loads(text)
    fields["kind"] = kind_named(fields["kind"])
    if "gap" in fields:
        fields["gap"] = Gap(fields["gap"])
    if "fold" in fields:
        fields["fold"] = Fold(fields["fold"])
    if "exclude" in fields:
        fields["exclude"] = canonical("exclude", fields["exclude"])
    if "on_excluded" in fields:
        fields["on_excluded"] = OnExcluded(fields["on_excluded"])
    spec = TriggerSpec(**fields)
    check_text("tz", spec.tz)
    if not isinstance(spec.expr, str):
        raise TypeError("the rule is not text")
    _demand_bounds(spec)
    return spec


def with_calendars(spec: TriggerSpec, read: Callable[[], Calendars]) -> TriggerSpec:
    """Return *spec* with the calendars that *read* returns, if it names one."""
    return replace(spec, calendars=read()) if any(map(is_name, spec.exclude)) else spec


def with_skipped(spec: TriggerSpec, skipped: tuple[int, ...]) -> TriggerSpec:
    """Return *spec* without the occurrences *skipped*, in order."""
    return replace(spec, skipped=skipped) if skipped else spec


@lru_cache(maxsize=50_000)  # rules: some 500 bytes each, their text included (measured)
def spec_of(stored: bytes) -> TriggerSpec:
    """Return the rule of the text *stored* in Redis; each text is parsed once. Raises as ``read_spec``."""
    return read_spec(stored.decode())


# -- triggers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trigger:
    """
    The occurrences of one rule: a strictly ascending sequence of epoch milliseconds.

    They are the first *count* occurrences of *rule* in (after_ms, ends_ms]. None for ``ends_ms`` or ``count``: no
    bound. ``spec`` is the value that it was built from.
    """

    spec: TriggerSpec
    rule: Rule
    after_ms: int
    ends_ms: int | None
    count: int | None

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found = self.rule.next_after(max(after_ms, self.after_ms))
        if found is None or (self.ends_ms is not None and found > self.ends_ms):
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, found) > self.count:
            return None
        return found

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        if until_ms <= self.after_ms:
            return None
        if self.count is not None and self.rule.count_between(self.after_ms, until_ms) > self.count:
            until_ms = nth_after(self.rule, self.after_ms, self.count, until_ms)
        found = self.rule.last_until(until_ms)
        return found if found is not None and found > self.after_ms else None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost does not grow with their number."""
        after_ms = max(after_ms, self.after_ms)
        until_ms = until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
        number = self.rule.count_between(after_ms, until_ms)
        if self.count is None or not number:
            return number
        return min(number, max(self.count - self.rule.count_between(self.after_ms, after_ms), 0))

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        last_ms = self.last_until(until_ms)
        return () if last_ms is None else self.rule.between(max(after_ms, self.after_ms), last_ms)

    def has(self, at_ms: int) -> bool:
        """Return True if *at_ms* is an occurrence."""
        return self.count_between(at_ms - 1, at_ms) > 0


class NeverOpen(TriggerError):
    """All times of a rule are excluded."""


@dataclass(frozen=True, slots=True)
class OpenTrigger(Trigger):
    """
    The occurrences of a trigger that are at no excluded time. With ``moves``, one at an excluded time happens when that
    ends; those that move to one instant are one occurrence. ``count`` and the bounds are of the occurrences before.
    """

    closed: Exclusions
    moves: bool

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        at_ms = after_ms
        if self.moves and (closed := self.closed.at(after_ms)) is not None:
            at_ms = closed.start_ms - 1  # earlier ones of this time happen at its end
        for _ in range(_MOST_CLOSED):
            found = Trigger.next_after(self, at_ms)
            closed = None if found is None else self.closed.at(found)
            if closed is None:
                return found
            if self.moves:
                return closed.end_ms
            at_ms = closed.end_ms - 1
        raise NeverOpen("all its next occurrences, as far as one looks, are at excluded times")

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        at_ms = until_ms
        while (found := Trigger.last_until(self, at_ms)) is not None:
            closed = self.closed.at(found)
            if closed is None:
                return found
            if self.moves and closed.end_ms <= until_ms:
                return closed.end_ms
            at_ms = closed.start_ms - 1
        return None

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]. The cost grows with the excluded times between them."""
        count = Trigger.count_between(self, after_ms, until_ms)
        for one in self.closed.between(after_ms + 1, until_ms + 1) if count else ():
            first_ms, last_ms = max(one.start_ms - 1, after_ms), min(one.end_ms - 1, until_ms)
            count -= Trigger.count_between(self, first_ms, last_ms)
        if self.moves:
            count += sum(after_ms < self._moved_to(one) <= until_ms for one in self.closed.between(after_ms, until_ms))
        return count

    def _moved_to(self, closed: Closed) -> int:
        """Return the end of *closed* if occurrences move there, and none of the rule is there anyway; else -1."""
        end_ms = closed.end_ms
        is_there = Trigger.count_between(self, end_ms - 1, end_ms)
        return end_ms if not is_there and Trigger.count_between(self, closed.start_ms - 1, end_ms - 1) else -1

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return stepwise(self, after_ms, until_ms)

    def newest_excluded(self, until_ms: int) -> tuple[int, str] | None:
        """Return the newest occurrence until *until_ms* if it is excluded, and why; else None."""
        at_ms = Trigger.last_until(self, until_ms)
        closed = None if at_ms is None or at_ms <= (self.last_until(until_ms) or 0) else self.closed.at(at_ms)
        return None if at_ms is None or closed is None else (at_ms, closed.why)

    def excluded(self, after_ms: int, until_ms: int | None) -> Iterator[tuple[int, int, int, str]]:
        """
        Yield the excluded occurrences in (after_ms, until_ms) by excluded time: first, last, number, why. None: up to
        the last one, if no other occurrence follows *after_ms*.
        """
        times = self._rest(after_ms) if until_ms is None else self.closed.between(after_ms + 1, until_ms)
        for closed in times:
            start_ms = max(closed.start_ms - 1, after_ms)
            end_ms = (closed.end_ms if until_ms is None else min(closed.end_ms, until_ms)) - 1
            if number := Trigger.count_between(self, start_ms, end_ms):
                first_ms, last_ms = Trigger.next_after(self, start_ms), Trigger.last_until(self, end_ms)
                assert first_ms is not None
                assert last_ms is not None
                yield first_ms, last_ms, number, closed.why

    def _rest(self, after_ms: int) -> Iterator[Closed]:
        """Yield the excluded times that follow *after_ms* with the last occurrences in them."""
        while (found := Trigger.next_after(self, after_ms)) is not None and (
            closed := self.closed.at(found)
        ) is not None:
            yield closed
            after_ms = closed.end_ms - 1


class Extended(NamedTuple):
    """The occurrences of *rule* within its bounds, and the *added* ones: ascending, each once."""

    rule: Trigger
    added: tuple[int, ...]

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found, added = self.rule.next_after(after_ms), self.added[bisect_right(self.added, after_ms) :][:1]
        return min((*added, *(() if found is None else (found,))), default=None)

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        found, added = self.rule.last_until(until_ms), self.added[: bisect_right(self.added, until_ms)][-1:]
        return max((*added, *(() if found is None else (found,))), default=None)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]."""
        added = self.added[bisect_right(self.added, after_ms) : bisect_right(self.added, until_ms)]
        return self.rule.count_between(after_ms, until_ms) + sum(
            not self.rule.count_between(ms - 1, ms) for ms in added
        )

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return stepwise(self, after_ms, until_ms)


@dataclass(frozen=True, slots=True)
class SkippingTrigger(Trigger):
    """The occurrences of the trigger ``rest`` without those in ``spec.skipped``."""

    rest: Trigger

    def next_after(self, after_ms: int) -> int | None:
        """Return the first occurrence strictly later than *after_ms*; None if there are no more."""
        found = self.rest.next_after(after_ms)
        while found is not None and found in self.spec.skipped:
            found = self.rest.next_after(found)
        return found

    def last_until(self, until_ms: int) -> int | None:
        """Return the last occurrence not later than *until_ms*; None if there is none yet."""
        found = self.rest.last_until(until_ms)
        while found is not None and found in self.spec.skipped:
            found = self.rest.last_until(found - 1)
        return found

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """Count the occurrences in (after_ms, until_ms]."""
        skipped = sum(self.rest.has(at_ms) for at_ms in self.spec.skipped if after_ms < at_ms <= until_ms)
        return self.rest.count_between(after_ms, until_ms) - skipped

    def between(self, after_ms: int, until_ms: int) -> Iterable[int]:
        """Yield the occurrences in (after_ms, until_ms]."""
        return (at_ms for at_ms in self.rest.between(after_ms, until_ms) if at_ms not in self.spec.skipped)


def unskipped(trigger: Trigger) -> Trigger:
    """Return the trigger of the same rule with the occurrences that somebody skips by hand."""
    return trigger.rest if isinstance(trigger, SkippingTrigger) else trigger


def nth_after(rule: Rule, after_ms: int, number: int, until_ms: int) -> int:
    """
    Return occurrence *number* of *rule* after *after_ms*, counted from 1; found by bisection.

    If there are fewer occurrences up to *until_ms*, return *until_ms*.
    """
    instants = range(after_ms + 1, until_ms)
    place = bisect_left(instants, number, key=lambda at_ms: rule.count_between(after_ms, at_ms))
    return min(after_ms + 1 + place, until_ms)


def build(spec: TriggerSpec, anchor_ms: int) -> Trigger:
    """
    Return the trigger of *spec* for a schedule with a rule created at *anchor_ms*.

    Cheap: values that depend only on expression and zone are computed once and shared by all schedules.
    Occurrences are later than the anchor, or not earlier than ``spec.starts_ms`` if that is given.

    Raises:
        InvalidSchedule: the zone is unknown on this machine.
        TriggerError: ``spec.expr`` is not a text from ``spec.kind.parse``.
    """
    after_ms, count = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1, spec.count
    rule: Rule
    try:
        rule, ends_ms = spec.kind.rule(spec, anchor_ms), spec.kind.until_ms(spec.expr)
        removed, added = spec.kind.singles(spec, anchor_ms)
    except InvalidSchedule:
        raise
    except ValueError as exc:
        raise TriggerError(f"the stored {spec.kind.name} {spec.expr[:80]!r} cannot be read: {exc}") from exc
    if removed is not None:  # count and the rule's own end are of the rule without them
        rule = Extended(OpenTrigger(spec, rule, after_ms, ends_ms, count, removed, moves=False), added)
        ends_ms = count = None
    if spec.ends_ms is not None:
        ends_ms = spec.ends_ms if ends_ms is None else min(ends_ms, spec.ends_ms)
    bounded = spec, rule, after_ms, ends_ms, count
    made = Trigger(*bounded)
    if spec.exclude:
        closed = exclusions_of(spec.exclude, spec.tz, spec.calendars)
        made = OpenTrigger(*bounded, closed, spec.on_excluded is OnExcluded.NEXT_OPEN)
    return SkippingTrigger(*bounded, made) if spec.skipped else made


def check(spec: TriggerSpec, anchor_ms: int) -> None:
    """
    Make sure that a schedule of this rule, created at *anchor_ms*, fires at least once.

    Raises:
        InvalidSchedule: it would never fire, with the reason; or a bound is invalid.
    """
    _demand_bounds(spec)
    if spec.starts_ms is not None and spec.ends_ms is not None and spec.ends_ms < spec.starts_ms:
        raise InvalidSchedule("ends", _shown(spec.ends_ms), "earlier than starts", "swap them, or leave one out")
    try:
        trigger = build(spec, anchor_ms)
    except TriggerError:
        spec.kind.parse(spec.expr)  # its error has the details
        raise
    lower_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    with suppress(NeverOpen):
        if trigger.next_after(lower_ms) is not None:
            return
    if spec.exclude and build(replace(spec, exclude=()), anchor_ms).next_after(lower_ms) is not None:
        raise InvalidSchedule("exclude", list(spec.exclude), "excludes all times of the rule", "leave some out")
    if spec.kind.rule(spec, anchor_ms).next_after(lower_ms) is None:
        raise InvalidSchedule(spec.kind.name, spec.expr, f"never fires: {spec.kind.cause}", "change it")
    if spec.ends_ms is None:
        problem = "never fires: UNTIL is before its first time, or EXDATE has all times"
        raise InvalidSchedule(spec.kind.name, spec.expr, problem, "change it")
    problem = "the schedule never fires: its first time would be later"
    raise InvalidSchedule("ends", _shown(spec.ends_ms), problem, "move ends=, or leave it out")


def _demand_bounds(spec: TriggerSpec) -> None:
    """Check the numbers of a rule. Raises InvalidSchedule."""
    if spec.count is not None and (type(spec.count) is not int or spec.count < 1):
        raise InvalidSchedule("count", spec.count, "not a positive number", "give 1 or more, or leave it out")
    for name, value in (("starts", spec.starts_ms), ("ends", spec.ends_ms)):
        if value is not None and not (type(value) is int and FLOOR_S * 1000 <= value < HORIZON_S * 1000):
            raise InvalidSchedule(name, value, "outside the years 1 to 9999", "give an instant within them")
    if type(spec.jitter_ms) is not int or not 0 <= spec.jitter_ms <= LONGEST_S * 1000:
        raise InvalidSchedule("jitter", spec.jitter_ms, "not a delay in milliseconds", "leave it out")


def _shown(ms: int) -> str:
    """Return an instant for an error."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


# -- jitter ---------------------------------------------------------------------------------------


def due_of(trigger: Trigger, id: str, nominal_ms: int) -> int:
    """
    Return the due time of the occurrence *nominal_ms* of schedule *id*: within its jitter, before the next occurrence.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    return nominal_ms + lag_of(id, nominal_ms, max_jitter_of(trigger, nominal_ms))


def max_jitter_of(trigger: Trigger, nominal_ms: int) -> int:
    """
    Return the largest delay of the occurrence *nominal_ms*: the rule's jitter, or less if the next one comes before,
    skipped or not: so a skip changes no other due time.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    most_ms = trigger.spec.jitter_ms
    next_ms = unskipped(trigger).next_after(nominal_ms) if most_ms else None
    return most_ms if next_ms is None else min(most_ms, next_ms - nominal_ms - 1)


def lag_of(id: str, nominal_ms: int, max_jitter_ms: int) -> int:
    """Return the delay of the occurrence *nominal_ms* of schedule *id*, at most *max_jitter_ms*."""
    return delay_of(f"{id} {nominal_ms}", max_jitter_ms) if max_jitter_ms else 0


def delay_of(id: str, most_ms: int) -> int:
    """Return the delay of one-shot *id* with jitter *most_ms*: from 0 to *most_ms*, it depends on *id* only."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "big") % (most_ms + 1)
