"""
Planning by a clock that may be wrong: a first time, and while which server times it holds.

A put or resume of a recurring schedule sends what it planned by the client's clock together with the
window in which that plan is right. The script takes it only if the server's TIME is inside, else it
answers its time and the caller plans once more from that: one round trip normally, the server's clock
always.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import Final, assert_never

from zsched.core.clock import LAST_MS, from_ms
from zsched.core.policy import Range, latest_due
from zsched.core.triggers import Anchor, Fold, Gap, Trigger, TriggerSpec, build, due_of, resolve_local, zone

_JUST_MS: Final = 5000  # so much before TIME an anchor may lie: longer than a reply takes, shorter than clocks go wrong


@dataclass(frozen=True, slots=True)
class Bracket:
    """
    ``next`` is the next occurrence, in ms as decimal text, or ``+<ms>`` from the server's TIME; it holds
    while ``from_ms`` <= TIME < ``until_ms``. None: there is no occurrence any more. It is due ``jitter_ms`` later.
    ``anchor_ms``: the rule's anchor; None: the server's TIME.
    """

    next: str | None
    from_ms: int
    until_ms: int
    jitter_ms: int = 0
    anchor_ms: int | None = None


def first(spec: TriggerSpec, now_ms: int, id: str = "") -> Bracket:
    """
    The first occurrence of schedule *id*, created at about *now_ms*.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    endless = replace(spec, ends_ms=None, count=None)
    if spec.starts_ms is not None:
        return _next(spec, now_ms, id, build(endless, now_ms).last_until(now_ms) or 0)
    anchor = spec.kind.anchor
    if anchor is Anchor.NOTHING:
        return _next(spec, now_ms, id, build(endless, 0).last_until(now_ms) or 0)
    if anchor is Anchor.DAY:  # with midnight the first occurrence changes too
        midnight_ms, end_ms = _day(spec.tz, now_ms)
        today = build(replace(endless, starts_ms=midnight_ms), now_ms)
        return _next(spec, now_ms, id, max(today.last_until(now_ms) or 0, midnight_ms), end_ms)
    if anchor is Anchor.INSTANT:
        return _from_now(spec, endless, now_ms, id)
    assert_never(anchor)


def after_missed(
    spec: TriggerSpec, anchor_ms: int, nominal_ms: int, now_ms: int, id: str = ""
) -> tuple[Range, Bracket]:
    """Return the occurrences from *nominal_ms* until about *now_ms*, and the next plan. Raises TriggerError."""
    trigger = build(spec, anchor_ms)
    last_ms = latest_due(trigger, nominal_ms, now_ms, id)
    next_ms = trigger.next_after(last_ms)
    passed = Range(nominal_ms, last_ms, 1 + trigger.count_between(nominal_ms, last_ms))
    until_ms = LAST_MS if next_ms is None else due_of(trigger, id, next_ms)
    return passed, _of(trigger, id, next_ms, due_of(trigger, id, last_ms), until_ms)


def _next(spec: TriggerSpec, now_ms: int, id: str, from_ms: int, until_ms: int = LAST_MS) -> Bracket:
    """The first occurrence after *now_ms*, which holds from *from_ms* until it comes, at most until *until_ms*."""
    trigger = build(spec, now_ms)
    next_ms = trigger.next_after(now_ms)
    return _of(trigger, id, next_ms, from_ms, until_ms if next_ms is None else min(until_ms, next_ms))


def _from_now(spec: TriggerSpec, endless: TriggerSpec, now_ms: int, id: str) -> Bracket:
    """The first occurrence of a rule that is counted from TIME itself, so it is always as far away."""
    first_ms = build(endless, now_ms).next_after(now_ms)
    if first_ms is None:
        return Bracket(None, 0, LAST_MS)
    away_ms = first_ms - now_ms
    if spec.jitter_ms:  # which depends on the time that comes, so TIME has to be known here: it has just been reached
        bracket = _next(spec, now_ms, id, now_ms)
        return replace(bracket, until_ms=now_ms + min(away_ms, _JUST_MS), anchor_ms=now_ms)
    until_ms = LAST_MS if spec.ends_ms is None else spec.ends_ms - away_ms + 1
    return Bracket(f"+{away_ms}" if now_ms < until_ms else None, 0, until_ms)


def _of(trigger: Trigger, id: str, next_ms: int | None, from_ms: int, until_ms: int) -> Bracket:
    if next_ms is None:
        return Bracket(None, from_ms, until_ms)
    return Bracket(str(next_ms), from_ms, until_ms, due_of(trigger, id, next_ms) - next_ms)


def _day(tz: str, now_ms: int) -> tuple[int, int]:
    """Start and end of the local day of *now_ms*."""
    place = zone(tz)
    today = from_ms(now_ms).astimezone(place).date()
    days = [datetime.combine(today + timedelta(days=n), time()) for n in (0, 1)]
    start_ms, end_ms = (resolve_local(day, place, Gap.FIRST_VALID, Fold.FIRST)[0] for day in days)
    return start_ms, end_ms
