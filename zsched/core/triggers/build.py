"""From a ``TriggerSpec`` to a ``Trigger``: which rule, from when, until when; and the check at schedule time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from zsched.core.triggers.bounded import BoundedTrigger, Rule, Trigger
from zsched.core.triggers.cron import cron_rule, parse_cron
from zsched.core.triggers.every import Every
from zsched.core.triggers.projection import Projection
from zsched.core.triggers.recurrence import recurrence
from zsched.core.triggers.rrule import parse_rrule, rrule_parts
from zsched.core.triggers.spec import Fold, Gap, TriggerKind, TriggerSpec
from zsched.core.triggers.zones import DAY_S, FLOOR_S, HORIZON_S, offset_s, zone
from zsched.errors import InvalidSchedule, TriggerError

_CAUSES: Final = {
    TriggerKind.EVERY: "the interval ends after year 9999",
    TriggerKind.CRON: "no date matches the expression (30 February?)",
    TriggerKind.RRULE: "no date matches the rule (BY parts that exclude each other?)",
}


def build(spec: TriggerSpec, anchor_ms: int) -> Trigger:
    """
    The trigger of *spec* for a schedule whose rule was created at *anchor_ms*.

    Cheap: what depends on expression and zone only is parsed once and shared by all schedules.
    Occurrences are later than the anchor, or not earlier than ``spec.starts_ms`` if that is given.

    Raises:
        InvalidSchedule: the zone is unknown on this machine.
        TriggerError: ``spec.expr`` is not what the parse functions return.
    """
    after_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    rule, ends_ms = _rule(spec, anchor_ms)
    if spec.ends_ms is not None:
        ends_ms = spec.ends_ms if ends_ms is None else min(ends_ms, spec.ends_ms)
    return BoundedTrigger(spec, rule, after_ms, ends_ms, spec.count)


def check(spec: TriggerSpec, anchor_ms: int) -> None:
    """
    Make sure that a schedule of this rule, created at *anchor_ms*, fires at least once.

    Raises:
        InvalidSchedule: it never would, and why; or a bound makes no sense.
    """
    if spec.count is not None and (isinstance(spec.count, bool) or spec.count < 1):
        raise InvalidSchedule("count", spec.count, "not a positive number", "give 1 or more, or leave it out")
    if spec.starts_ms is not None and spec.ends_ms is not None and spec.ends_ms < spec.starts_ms:
        raise InvalidSchedule("ends", _shown(spec.ends_ms), "earlier than starts", "swap them, or leave one out")
    for name, value in (("starts", spec.starts_ms), ("ends", spec.ends_ms)):
        if value is not None and not FLOOR_S * 1000 <= value < HORIZON_S * 1000:
            raise InvalidSchedule(name, value, "outside the years 1 to 9999", "give an instant within them")
    if spec.kind is TriggerKind.CRON:
        parse_cron(spec.expr)
    elif spec.kind is TriggerKind.RRULE:
        parse_rrule(spec.expr)
    trigger = build(spec, anchor_ms)
    lower_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    if trigger.next_after(lower_ms) is not None:
        return
    if _rule(spec, anchor_ms)[0].next_after(lower_ms) is None:
        raise InvalidSchedule(spec.kind.value, spec.expr, f"never fires: {_CAUSES[spec.kind]}", "change it")
    if spec.ends_ms is None:
        raise InvalidSchedule(spec.kind.value, spec.expr, "never fires: UNTIL is before its first time", "move it")
    problem = "the schedule never fires: its first time would be later"
    raise InvalidSchedule("ends", _shown(spec.ends_ms), problem, "move ends=, or leave it out")


def _rule(spec: TriggerSpec, anchor_ms: int) -> tuple[Rule, int | None]:
    """The rule without bounds, and the end that is part of it."""
    start_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms
    try:
        if spec.kind is TriggerKind.EVERY:
            return Every(int(spec.expr), start_ms), None
        tz = zone(spec.tz)
        if spec.kind is TriggerKind.CRON:
            cron = cron_rule(spec.expr)
            gap, fold = (Gap.SKIP, Fold.BOTH) if cron.wildcard else (spec.gap, spec.fold)
            return Projection(cron, tz, gap, fold), None
        parts = rrule_parts(spec.expr)
    except InvalidSchedule:
        raise
    except ValueError as exc:
        raise TriggerError(f"the stored {spec.kind.value} {spec.expr[:80]!r} cannot be read: {exc}") from exc
    rule = recurrence(parts, _start_wall_s(spec, anchor_ms, tz))
    return Projection(rule, tz, spec.gap, spec.fold), parts.until_ms


def _start_wall_s(spec: TriggerSpec, anchor_ms: int, tz: ZoneInfo) -> int:
    """DTSTART: the first whole second from ``starts_ms``, or midnight of the anchor's day, on the clock in *tz*."""
    if spec.starts_ms is not None:
        start_s = -(-spec.starts_ms // 1000)
        return start_s + offset_s(tz, start_s)
    wall_s = anchor_ms // 1000 + offset_s(tz, anchor_ms // 1000)
    return wall_s - wall_s % DAY_S


def _shown(ms: int) -> str:
    """An instant as an error repeats it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
