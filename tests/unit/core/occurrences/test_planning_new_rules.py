"""The move of a waiting occurrence when its zone's rules change: two zones play one zone's old and new rules."""

from dataclasses import replace
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.occurrences import policy
from zsched.core.occurrences.planning import Move, move_of, moved
from zsched.core.record import Place, Record
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.layers import Trigger
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Gap, TriggerSpec
from zsched.core.triggers.trigger import build, due_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BERLIN, SUMMER, WINTER = "Europe/Berlin", "Etc/GMT-2", "Etc/GMT-1"  # with and without daylight saving time
DAILY = TriggerSpec(CRON, "0 9 * * *", tz=BERLIN)


def ms(text: str, tz: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp() * 1000)


ANCHOR_MS = ms("2026-01-01T00:00")


def by(tz: str, spec: TriggerSpec = DAILY, anchor_ms: int = ANCHOR_MS, **more: Any) -> Trigger:
    """Return *spec* in a zone with the rules of *tz*."""
    return build(replace(spec, tz=tz, **more), anchor_ms)


# rules now, rule, waiting, fired, where it goes (None: it stays)
TABLE: dict[str, tuple[str, dict[str, Any], int, int | None, int | None]] = {
    "unchanged": (BERLIN, {}, ms("2026-07-02T09:00", BERLIN), ms("2026-07-01T09:00", BERLIN), None),
    "winter time is given up: an hour earlier": (
        SUMMER, {}, ms("2026-12-02T09:00", WINTER), ms("2026-12-01T09:00", WINTER), ms("2026-12-02T09:00", SUMMER)),
    "summer time is given up: an hour later, and what fired is not repeated": (
        WINTER, {}, ms("2026-07-02T09:00", SUMMER), ms("2026-07-01T09:00", SUMMER), ms("2026-07-02T09:00", WINTER)),
    "nothing fired yet": (WINTER, {}, ms("2026-07-02T09:00", SUMMER), None, ms("2026-07-02T09:00", WINTER)),
    "what fired is long ago": (
        WINTER, {}, ms("2026-07-02T09:00", SUMMER), ms("2026-03-01T09:00", WINTER), ms("2026-07-02T09:00", WINTER)),
    "not to what fired, when the rule has two times so near": (
        SUMMER, {"expr": "0 9,10 * * *"}, ms("2026-12-02T10:00", WINTER) - HOUR_MS // 2, ms("2026-12-02T09:00", WINTER),
        ms("2026-12-03T09:00", SUMMER)),
    "of two as near, the later": (
        "Asia/Kolkata", {"expr": "0 * * * *"}, ms("2026-07-02T09:00"), ms("2026-07-02T08:00"), ms("2026-07-02T09:30")),
    "every hour, moved by a whole hour": (
        SUMMER, {"expr": "0 * * * *"}, ms("2026-12-02T09:00"), ms("2026-12-02T08:00"), None),
    "a day that the new rules skip": (
        BERLIN, {"expr": "30 2 * * *", "gap": Gap.SKIP}, ms("2026-03-29T02:30", WINTER), ms("2026-03-28T02:30", WINTER),
        ms("2026-03-30T02:30", BERLIN)),
    "and not to the day before, though nothing fired": (
        BERLIN, {"expr": "30 2 * * *", "gap": Gap.SKIP}, ms("2026-03-29T02:30", WINTER), None,
        ms("2026-03-30T02:30", BERLIN)),
    "a time in a gap of the new rules": (
        BERLIN, {"expr": "30 2 * * *"}, ms("2026-03-29T02:30", WINTER), None, ms("2026-03-29T01:00")),
    "the first of a fold of the new rules": (
        BERLIN, {"expr": "30 2 * * *"}, ms("2026-10-25T02:30", WINTER), None, ms("2026-10-25T00:30")),
    "the date line": (
        "Etc/GMT-14", {}, ms("2026-12-30T09:00", "Etc/GMT+10"), ms("2026-12-29T09:00", "Etc/GMT+10"), None),
    "once a month, in the past by now": (
        SUMMER, {"expr": "0 9 1 * *"}, ms("2026-12-01T09:00", WINTER), ms("2026-11-01T09:00", WINTER),
        ms("2026-12-01T09:00", SUMMER)),
    "the last of count": (
        SUMMER, {"count": 3}, ms("2026-01-03T09:00", WINTER), ms("2026-01-02T09:00", WINTER),
        ms("2026-01-03T09:00", SUMMER)),
    "the last before ends, an hour later: what was promised stays": (
        WINTER, {"ends_ms": ms("2026-07-02T09:30", SUMMER)}, ms("2026-07-02T09:00", SUMMER),
        ms("2026-07-01T09:00", SUMMER), None),
    "the last before ends, an hour earlier": (
        SUMMER, {"ends_ms": ms("2026-12-02T09:30", WINTER)}, ms("2026-12-02T09:00", WINTER),
        ms("2026-12-01T09:00", WINTER), ms("2026-12-02T09:00", SUMMER)),
    "nothing before starts": (
        SUMMER, {"starts_ms": ms("2026-12-02T08:30", WINTER)}, ms("2026-12-02T09:00", WINTER), None,
        ms("2026-12-03T09:00", SUMMER)),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_a_waiting_occurrence_moves_once_to_its_time_by_the_new_rules(case: str) -> None:
    tz, rule, nominal_ms, fired_ms, expected_ms = TABLE[case]
    trigger = by(tz, **rule)

    assert expected_ms == moved(trigger, nominal_ms, fired_ms)
    if expected_ms is not None:
        assert moved(trigger, expected_ms, fired_ms) is None, "not a second time"


CHANGES = {
    "summer time given up": (BERLIN, WINTER),
    "winter time given up": (BERLIN, SUMMER),
    "summer time introduced": (WINTER, BERLIN),
    "an hour east": ("Etc/GMT-3", "Etc/GMT-4"),
    "three hours west": ("Etc/GMT-3", "Etc/GMT"),
    "half an hour": ("Asia/Seoul", "Australia/Darwin"),
    "other dates of summer time": ("America/New_York", "America/Asuncion"),
    "other hours of its beginning": (BERLIN, "Europe/Athens"),
}
RULES = {
    "daily": TriggerSpec(CRON, "30 {} * * *"),
    "working days": TriggerSpec(CRON, "30 {} * * 1-5"),
    "monthly": TriggerSpec(CRON, "30 {} 1 * *"),
    "weekly, by rrule": TriggerSpec(RRULE, "FREQ=WEEKLY;BYDAY=TU,SU;BYHOUR={};BYMINUTE=30;BYSECOND=0"),
}


def dates(trigger: Trigger, tz: str, first_ms: int, last_ms: int) -> list[date]:
    """Return the local dates that *trigger* has from *first_ms* to *last_ms*."""
    found, at_ms = [], trigger.next_after(first_ms - 1)
    while at_ms is not None and at_ms <= last_ms:
        found.append(local(at_ms, tz))
        at_ms = trigger.next_after(at_ms)
    return found


def local(at_ms: int, tz: str) -> date:
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(tz)).date()


@given(
    change=st.sampled_from(sorted(CHANGES)),
    rule=st.sampled_from(sorted(RULES)),
    hour=st.integers(4, 19),  # so that no change of the clock brings an occurrence to another date
    known_ms=st.integers(ms("2026-01-10T00:00"), ms("2026-12-20T00:00")),
    is_skipped=st.booleans(),
    is_again=st.booleans(),
)
def test_every_local_date_has_its_occurrence_once_and_in_order(
    change: str, rule: str, hour: int, known_ms: int, is_skipped: bool, is_again: bool
) -> None:
    old, new = CHANGES[change]
    spec = replace(RULES[rule], expr=RULES[rule].expr.format(hour))
    before, after = by(old, spec), by(new, spec)
    times = [before.next_after(ANCHOR_MS)]
    while times[-1] <= known_ms:  # the new rules come to be known
        times.append(policy.plan(before, times[-1], times[-1]).next_ms)
    waiting_ms = times.pop()
    told = [local(at_ms, old) for at_ms in times]
    fired_ms = times[-1] if times and not is_skipped else None  # what was skipped is not known

    new_ms = moved(after, waiting_ms, fired_ms) or waiting_ms
    if is_again:  # another term begins again
        new_ms = moved(after, new_ms, fired_ms) or new_ms
    for _ in range(40):
        times.append(new_ms)
        told.append(local(new_ms, new))
        new_ms = policy.plan(after, new_ms, new_ms).next_ms or 0

    assert sorted(set(times)) == times
    assert dates(by("UTC", spec), "UTC", ANCHOR_MS + DAY_MS, ms(f"{told[-1]}T23:59")) == [
        each for each in told if each > date(2026, 1, 1)
    ]


@given(
    change=st.sampled_from(sorted(CHANGES)),
    expr=st.sampled_from(["*/5 * * * *", "0 * * * *", "0,30 9-17 * * *", "15 */2 * * *", "0 9,10 * * *"]),
    known_ms=st.integers(ms("2026-01-10T00:00"), ms("2026-12-20T00:00")),
)
def test_a_dense_rule_fires_every_instant_once_and_waits_at_most_as_long_as_by_either_rules(
    change: str, expr: str, known_ms: int
) -> None:
    old, new = CHANGES[change]
    before, after = by(old, DAILY, expr=expr), by(new, DAILY, expr=expr)
    fired_ms, waiting_ms = before.last_until(known_ms), before.next_after(known_ms)

    new_ms = moved(after, waiting_ms, fired_ms) or waiting_ms

    assert fired_ms < new_ms
    assert after.last_until(new_ms) == new_ms
    following_ms = after.next_after(max(fired_ms, waiting_ms))
    assert new_ms <= following_ms


IN_WINTER = replace(DAILY, tz=WINTER)
WAITING_MS, NOW_AT_MS = ms("2026-07-02T09:00", SUMMER), ms("2026-07-02T09:00", WINTER)


def held(spec: TriggerSpec = IN_WINTER, **more: Any) -> Record:
    own = {"trigger": spec.to_text(), "anchor": str(ANCHOR_MS), "version": "3-7"} | more.pop("own", {})
    texts = [text.encode() for pair in own.items() for text in pair]
    fired = f"r-{ms('2026-07-01T09:00', SUMMER)}"
    return replace(Record("r", "", Place.DUE, "normal", WAITING_MS, (), texts, WAITING_MS, fired), **more)


@pytest.mark.parametrize("place", ["due", "paused"])
def test_a_waiting_schedule_is_moved_with_its_due_time(place: str) -> None:
    assert Move(held(place=place), NOW_AT_MS, NOW_AT_MS) == move_of(held(place=place))


def test_a_moved_occurrence_has_the_jitter_of_its_new_time() -> None:
    spec = replace(DAILY, tz=WINTER, jitter_ms=HOUR_MS)
    known = held(spec, due_ms=WAITING_MS + 5)

    move = move_of(known)

    due_ms = due_of(build(spec, ANCHOR_MS), "r", NOW_AT_MS)
    assert Move(known, NOW_AT_MS, due_ms) == move
    assert NOW_AT_MS != due_ms


MANUAL = [f"r-{NOW_AT_MS - 1}-nshop", f"r-{WAITING_MS + 5 * DAY_MS}-r1", "somebody's", None]


@pytest.mark.parametrize(
    ("known", "expected_ms"),
    [
        *((held(last=last), NOW_AT_MS) for last in MANUAL),
        (held(replace(DAILY, tz="Etc/GMT-3"), last=f"r-{WAITING_MS - 60_000}-r1"), WAITING_MS - HOUR_MS),
    ],
)
def test_a_last_run_by_hand_or_of_another_writer_does_not_stop_or_skip_a_move(known: Record, expected_ms: int) -> None:
    move = move_of(known)

    assert expected_ms == move.nominal_ms


@pytest.mark.parametrize(
    "stays",
    [
        held(place="quarantine"),
        held(place="ended", due_ms=None, nominal_ms=None),
        held(replace(DAILY, tz="UTC"), nominal_ms=WAITING_MS + 1),
        held(TriggerSpec(EVERY, "86400000", tz=WINTER), nominal_ms=WAITING_MS + 1),
        Record("a", "5", "due", "normal", 5, ()),
    ],
)
def test_schedules_without_a_waiting_occurrence_of_the_zone_are_not_moved(stays: Record) -> None:
    assert move_of(stays) is None


@pytest.mark.parametrize("own", [{"trigger": "none"}, {"trigger": "{}"}, {"anchor": "soon"}])
def test_a_broken_stored_rule_raises(own: dict[str, str]) -> None:
    with pytest.raises((ValueError, KeyError)):
        move_of(held(own=own))
