"""
The first time of a recurring schedule, planned by a clock that may be wrong.

A put or resume of a recurring schedule sends its plan by the client's clock, with the window in which that plan is
right: a ``Bracket``. The script accepts it only if the server's TIME is in the window. Otherwise it returns its TIME,
and the caller plans again from that. So one round trip is normally enough, and the server's clock always decides.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple

from zsched.core.clock import LAST_MS, Clock, from_ms
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.policy import Passed, excluded, latest_due
from zsched.core.triggers.layers import NeverOpen, Trigger
from zsched.core.triggers.spec import NO_CALENDARS, Anchor, Calendars, Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import build, check, due_of, lag_of, max_jitter_of, with_calendars
from zsched.core.triggers.zones import has_zone, resolve_local, zone
from zsched.errors import InvalidSchedule

REPLANS: Final = 5  # plans that are outdated on arrival, before a call gives up
_FRESH_MS: Final = 10_000  # for which a plan by calendars is used for others: they may change
_JUST_MS: Final = 5000  # most that an anchor may be before TIME: longer than a reply takes, shorter than clock errors


class Bracket(NamedTuple):
    """
    A plan, and the window of TIME in which it is right: ``from_ms`` <= TIME < ``until_ms``.

    ``next``: the next occurrence, in ms as decimal text, or ``+<ms>`` from the server's TIME; None: there are no more
    occurrences. It is due ``jitter_ms`` later. ``anchor_ms``: the rule's anchor; None: the server's TIME.
    """

    next: str | None
    from_ms: int
    until_ms: int
    jitter_ms: int = 0
    anchor_ms: int | None = None


_KEPT: Final = Bracket("0", 0, 0)  # for a stored rule: its time stays, or the script answers AGAIN


class PlannedRule:
    """
    A rule with its text, which many schedules may share, in several threads. ``planned``: the last plan, the same for
    all of them but for their jitter; and the ms that this may take. ``is_stored``: Redis has the rule, and its times.
    """

    __slots__ = ("is_stored", "planned", "spec", "text")

    def __init__(self, spec: TriggerSpec) -> None:
        self.spec, self.text, self.is_stored = spec, spec.to_text(), False
        self.planned: tuple[Bracket, int] | None = None


class FirstTimes:
    """
    Plans the first times of rules, by *clock*, and by the server's clock once that is known: so a client with a wrong
    clock is refused once, and not for every schedule. *server_now_ms* reads the server's clock, *calendars* those that
    rules may name.
    """

    def __init__(
        self, clock: Clock, server_now_ms: Callable[[], int], calendars: Callable[[], Calendars] = lambda: NO_CALENDARS
    ) -> None:
        self._clock, self._server_now_ms, self._calendars = clock, server_now_ms, calendars
        self._ahead_ms = 0  # by which the server's clock is ahead of ours

    def tell(self, server_ms: int) -> None:
        """Note the server's time."""
        self._ahead_ms = server_ms - self._clock.now_ms()

    def plan(self, rule: PlannedRule, id: str) -> Bracket:
        """
        Return the plan of the first time of schedule *id*.

        Raises:
            InvalidSchedule: the rule never fires, or no occurrence is left. TriggerError. RedisUnavailable.
        """
        spec, planned = rule.spec, rule.planned
        if rule.is_stored or not has_zone(spec.tz):  # if a stored rule is not as it was, the script answers AGAIN
            rule.is_stored = False
            return _KEPT
        now_ms = self._clock.now_ms() + self._ahead_ms
        if planned is None or not planned[0].from_ms <= now_ms < planned[0].until_ms:
            spec = with_calendars(spec, self._calendars)
            plan = self._planned(spec, now_ms, id)
            if spec.calendars is not NO_CALENDARS:
                plan = plan._replace(until_ms=min(plan.until_ms, now_ms + _FRESH_MS))
            if plan.anchor_ms is not None:  # a rule that is counted from here, by this id
                return plan
            max_jitter_ms = max_jitter_of(build(spec, now_ms), int(plan.next or 0)) if spec.jitter_ms else 0
            planned = rule.planned = plan, max_jitter_ms
        plan, max_jitter_ms = planned
        return plan._replace(jitter_ms=lag_of(id, int(plan.next or 0), max_jitter_ms)) if max_jitter_ms else plan

    def _planned(self, spec: TriggerSpec, now_ms: int, id: str) -> Bracket:
        try:
            plan = first(spec, now_ms, id)
        except NeverOpen:
            check(spec, now_ms)
            raise
        if plan.next is None:  # by our clock, or forever: the server's clock decides
            check(replace(spec, ends_ms=None), now_ms)  # a schedule that never fires is refused without Redis
            now_ms = self._server_now_ms()
            self.tell(now_ms)
            check(spec, now_ms)
            plan = first(spec, now_ms, id)
        if plan.next is None:
            raise InvalidSchedule("ends", spec.ends_ms, "no occurrence is left before it", "move it")
        return plan


def first(spec: TriggerSpec, now_ms: int, id: str = "") -> Bracket:
    """
    Return the first occurrence of schedule *id*, created at about *now_ms*.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    endless = replace(spec, ends_ms=None, count=None)
    anchor = spec.kind.anchor if spec.starts_ms is None else Anchor.NOTHING
    if anchor is Anchor.NOTHING:
        return _next(spec, now_ms, id, build(endless, 0).last_until(now_ms) or 0)
    if anchor is Anchor.DAY:  # midnight changes the first occurrence, too
        midnight_ms, end_ms = _day(spec.tz, now_ms)
        today = build(replace(endless, starts_ms=midnight_ms), now_ms)
        return _next(spec, now_ms, id, max(today.last_until(now_ms) or 0, midnight_ms), end_ms)
    return _from_now(spec, endless, now_ms, id)


def after_missed(trigger: Trigger, nominal_ms: int, now_ms: int, id: str = "") -> tuple[tuple[Passed, ...], Bracket]:
    """
    Return the occurrences from *nominal_ms* until about *now_ms*, which passed in a pause, with excluded ones until the
    next; and the next plan. Raises TriggerError.
    """
    last_ms = latest_due(trigger, nominal_ms, now_ms, id)
    next_ms = trigger.next_after(last_ms)
    missed = Passed(Outcome.PAUSED.word, nominal_ms, last_ms, 1 + trigger.count_between(nominal_ms, last_ms))
    passed = missed, *excluded(trigger, nominal_ms, next_ms)
    until_ms = LAST_MS if next_ms is None else due_of(trigger, id, next_ms)
    return passed, _of(trigger, id, next_ms, due_of(trigger, id, last_ms), until_ms)


def _next(spec: TriggerSpec, now_ms: int, id: str, from_ms: int, until_ms: int = LAST_MS) -> Bracket:
    """Return the first occurrence after *now_ms*, valid from *from_ms* until it is due, at most until *until_ms*."""
    trigger = build(spec, now_ms)
    next_ms = trigger.next_after(now_ms)
    return _of(trigger, id, next_ms, from_ms, until_ms if next_ms is None else min(until_ms, next_ms))


def _from_now(spec: TriggerSpec, endless: TriggerSpec, now_ms: int, id: str) -> Bracket:
    """Return the first occurrence of a rule with TIME as its anchor: its distance from TIME is always the same."""
    if (first_ms := build(endless, now_ms).next_after(now_ms)) is None:
        return Bracket(None, 0, LAST_MS)
    away_ms = first_ms - now_ms
    if spec.jitter_ms or spec.exclude or spec.skipped:  # of the occurrence's time, so the bracket has to be narrow
        bracket = _next(spec, now_ms, id, now_ms)
        return bracket._replace(until_ms=now_ms + min(away_ms, _JUST_MS), anchor_ms=now_ms)
    until_ms = LAST_MS if spec.ends_ms is None else spec.ends_ms - away_ms + 1
    return Bracket(f"+{away_ms}" if now_ms < until_ms else None, 0, until_ms)


def _of(trigger: Trigger, id: str, next_ms: int | None, from_ms: int, until_ms: int) -> Bracket:
    if next_ms is None:
        return Bracket(None, from_ms, until_ms)
    return Bracket(str(next_ms), from_ms, until_ms, due_of(trigger, id, next_ms) - next_ms)


def _day(tz: str, now_ms: int) -> tuple[int, int]:
    """Return start and end of the local day of *now_ms*."""
    place = zone(tz)
    today = from_ms(now_ms).astimezone(place).date()
    days = [datetime.combine(today + timedelta(days=n), time()) for n in (0, 1)]
    start_ms, end_ms = (resolve_local(day, place, Gap.FIRST_VALID, Fold.FIRST)[0] for day in days)
    return start_ms, end_ms
