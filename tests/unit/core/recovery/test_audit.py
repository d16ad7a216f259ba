"""Missing occurrences: the occurrences of a rule, compared with the promised next time and its date."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.occurrences import policy
from zsched.core.occurrences.first_times import after_missed
from zsched.core.record import Place, Record
from zsched.core.recovery.audit import (
    GRACE_MS,
    Event,
    is_overdue,
    late,
    left_out,
    may_be_left_out,
    misplaced,
    missing_occurrence,
    unknown_schedule,
)
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build

LATER_MS = 4_000_000_000_000  # long past all that is promised here
RULES: dict[str, dict[str, Any]] = {
    "cron": {"kind": CRON, "expr": "0 9 * * *"},
    "cron in Berlin": {"kind": CRON, "expr": "0 9 * * *", "tz": "Europe/Berlin"},
    "in the hour that is skipped or twice": {"kind": CRON, "expr": "30 2 * * *", "tz": "Europe/Berlin"},
    "every hour, wildcard": {"kind": CRON, "expr": "0 * * * *", "tz": "Europe/Berlin"},
    "every": {"kind": EVERY, "expr": "3600000"},
    "rrule": {"kind": RRULE, "expr": "FREQ=DAILY;BYHOUR=2,9;BYMINUTE=30;BYSECOND=0", "tz": "Europe/Berlin"},
    "count": {"kind": EVERY, "expr": "3600000", "count": 3},
}


def ms(text: str, tz: str = "UTC", fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz), fold=fold).timestamp() * 1000)


BERLIN = "Europe/Berlin"
ANCHOR_MS = ms("2026-01-01T00:00")
# rule, told at, nominal, the occurrence that is missing
TABLE: dict[str, tuple[str, int, int, int | None]] = {
    "the next one": ("cron", ms("2026-03-01T09:00:00.2"), ms("2026-03-02T09:00"), None),
    "one too late": ("cron", ms("2026-03-01T09:00:00.2"), ms("2026-03-03T09:00"), ms("2026-03-02T09:00")),
    "a put or pause in between": ("cron", ms("2026-03-02T08:59:59.999"), ms("2026-03-02T09:00"), None),
    "told at the occurrence itself": ("cron", ms("2026-03-02T09:00"), ms("2026-03-03T09:00"), None),
    "resumed when it was overdue": ("cron", ms("2026-03-02T09:05"), ms("2026-03-02T09:00"), None),
    "promised by a rule in UTC that has no such time": (
        "cron", ms("2026-03-01T09:00"), ms("2026-03-02T10:00"), ms("2026-03-02T09:00")),
    "promised by other rules of the zone": (
        "cron in Berlin", ms("2026-03-01T09:00", BERLIN), ms("2026-03-02T10:00", BERLIN), None),
    "Berlin, one too late": (
        "cron in Berlin", ms("2026-03-28T09:00", BERLIN), ms("2026-03-30T09:00", BERLIN),
        ms("2026-03-29T09:00", BERLIN)),
    "over the gap": (
        "in the hour that is skipped or twice", ms("2026-03-28T02:30", BERLIN), ms("2026-03-29T03:00", BERLIN), None),
    "the gap's left out": (
        "in the hour that is skipped or twice", ms("2026-03-28T02:30", BERLIN), ms("2026-03-30T02:30", BERLIN),
        ms("2026-03-29T03:00", BERLIN)),
    "after the fold's first": (
        "in the hour that is skipped or twice", ms("2026-10-25T02:30", BERLIN), ms("2026-10-26T02:30", BERLIN), None),
    "a wildcard's second pass of the fold": (
        "every hour, wildcard", ms("2026-10-25T02:00", BERLIN), ms("2026-10-25T02:00", BERLIN, 1), None),
    "a wildcard's second pass left out": (
        "every hour, wildcard", ms("2026-10-25T02:00", BERLIN), ms("2026-10-25T03:00", BERLIN),
        ms("2026-10-25T02:00", BERLIN, 1)),
    "every": ("every", ANCHOR_MS + 3_600_123, ANCHOR_MS + 7_200_000, None),
    "every, one too late": ("every", ANCHOR_MS + 3_600_123, ANCHOR_MS + 10_800_000, ANCHOR_MS + 7_200_000),
    "rrule": ("rrule", ms("2026-10-25T02:30", BERLIN), ms("2026-10-25T09:30", BERLIN), None),
    "rrule, one too late": (
        "rrule", ms("2026-10-25T02:30", BERLIN), ms("2026-10-26T02:30", BERLIN), ms("2026-10-25T09:30", BERLIN)),
    "the last of count": ("count", ANCHOR_MS + 7_200_001, ANCHOR_MS + 10_800_000, None),
    "nothing left of count": ("count", ANCHOR_MS + 10_800_001, ANCHOR_MS + 14_400_000, None),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_an_occurrence_between_the_last_and_the_next_is_missing(case: str) -> None:
    rule, told_ms, nominal_ms, missing_ms = TABLE[case]
    trigger = build(TriggerSpec(**RULES[rule]), ANCHOR_MS)

    assert missing_ms == missing_occurrence(trigger, nominal_ms, told_ms, LATER_MS)


def test_an_occurrence_is_missing_only_after_its_time_plus_the_grace() -> None:
    trigger = build(TriggerSpec(**RULES["every"]), ANCHOR_MS)
    first_ms = ANCHOR_MS + 3_600_000
    given = trigger, first_ms + 3_600_000, ANCHOR_MS

    assert missing_occurrence(*given, first_ms + GRACE_MS) is None
    assert first_ms == missing_occurrence(*given, first_ms + GRACE_MS + 1)


@given(
    rule=st.sampled_from(list(RULES)),
    late_ms=st.lists(st.integers(0, 20 * 3_600_000), min_size=1, max_size=8),
    touched_ms=st.lists(st.integers(0, 3_600_000), max_size=4),
    first_ms=st.integers(ms("2026-03-27T00:00"), ms("2026-03-30T00:00"))
    | st.integers(ms("2026-10-24T00:00"), ms("2026-10-26T00:00")),
    skips=st.booleans(),
)
def test_a_schedule_that_the_engine_advanced_lacks_no_occurrence(
    rule: str, late_ms: list[int], touched_ms: list[int], first_ms: int, skips: bool
) -> None:
    spec = TriggerSpec(**RULES[rule])
    trigger = build(spec, first_ms)
    t_ms, nominal_ms = first_ms, trigger.next_after(first_ms)
    for delay_ms in late_ms:
        if nominal_ms is None:
            return
        for touch in touched_ms:  # a put of the same rule, run_now, pause: only the time of the last change moves
            assert missing_occurrence(trigger, nominal_ms, t_ms, LATER_MS) is None
            t_ms += touch
        assert missing_occurrence(trigger, nominal_ms, t_ms, LATER_MS) is None
        t_ms = max(t_ms, nominal_ms) + delay_ms
        if skips:
            _, bracket = after_missed(build(spec, first_ms), nominal_ms, t_ms)
            nominal_ms = None if bracket.next is None else int(bracket.next)
        else:
            nominal_ms = policy.plan(trigger, nominal_ms, t_ms).next_ms
            t_ms += 3  # the entry of the advance is later than what was planned on


HOURLY = TriggerSpec(EVERY, "3600000").to_text().encode()
JOB = [b"origin", b"default", b"data", b"secret"]
OWN = [b"trigger", HOURLY, b"anchor", b"%d" % ANCHOR_MS, b"lane", b"normal"]


def rule(nominal: int, last: str | None = None, own: list[bytes] = OWN, place: str = "due") -> Record:
    due_ms = ANCHOR_MS + nominal * 3_600_000
    return Record("r", "", Place(place), "normal", due_ms, JOB, own, due_ms, last, t_us=ANCHOR_MS * 1000)


def test_a_rule_with_a_missing_occurrence_is_set_back_to_that_occurrence() -> None:
    known = rule(2)

    missing_ms = may_be_left_out(known, ANCHOR_MS, LATER_MS)
    assert missing_ms == ANCHOR_MS + 3_600_000
    alarm = left_out(known, missing_ms)

    assert (Event.SKIPPED, "the occurrence of 2026-01-01T01:00:00.000Z") == (alarm.event, alarm.expected)
    assert ("due", missing_ms, known.t_us) == (alarm.row.place, alarm.row.due_ms, alarm.row.t_us)
    assert missing_ms == alarm.row.nominal_ms


@pytest.mark.parametrize(
    "known",
    [
        rule(1),
        rule(2, last=f"r-{ANCHOR_MS + 3_600_000}"),  # fired early: its record is there
        rule(2, own=[OWN[0], b"broken", *OWN[2:]]),
        rule(2, own=[]),
        rule(2, place="paused"),
        Record("a", "5", Place.DUE, "normal", LATER_MS, JOB),
    ],
)
def test_a_complete_or_unreadable_schedule_raises_no_alarm(known: Record) -> None:
    assert may_be_left_out(known, ANCHOR_MS, LATER_MS) is None


def test_an_occurrence_that_somebody_skipped_is_not_missing() -> None:
    known = rule(2)
    known.state = f"failures=1,skip={ANCHOR_MS + 3_600_000}"

    assert may_be_left_out(known, ANCHOR_MS, LATER_MS) is None


def test_alarms_show_no_arguments() -> None:
    known = rule(1)
    there = Record("r", "", Place.DUE, "low", 5, [b"origin", b"mail", b"data", b"other"], OWN, 5)

    alarm = misplaced(known, there)

    assert (Event.DIFFERENT, "normal lane, due 2026-01-01T01:00:00.000Z") == (alarm.event, alarm.expected)
    shown = "low lane; due 1970-01-01T00:00:00.005Z; nominal 1970-01-01T00:00:00.005Z; other data, origin"
    assert shown == alarm.found


DUE_MS = rule(1).due_ms
ONCE = Record("a", str(DUE_MS), Place.DUE, "normal", DUE_MS, JOB, t_us=5)
QUARANTINED = Record("a", str(DUE_MS), Place.QUARANTINE, "normal", DUE_MS, JOB, note="5 why", t_us=5)


@pytest.mark.parametrize(
    ("known", "changes", "found"),
    [
        (rule(1), {"place": "paused"}, "paused"),
        (rule(1), {"place": "paused", "note": "5 why"}, "paused"),
        (rule(1), {"due_ms": 5}, "due 1970-01-01T00:00:00.005Z"),
        (rule(1), {"nominal_ms": 5}, "nominal 1970-01-01T00:00:00.005Z"),
        (rule(1), {"last": "r-7"}, "last run r-7"),
        (rule(1), {"run": "5", "last": "r-7"}, "a one-shot"),
        (ONCE, {"run": ""}, "recurring"),
        (rule(1), {"job": []}, "its template is gone"),
        (ONCE, {"job": []}, "its job is gone"),
        (ONCE, {"job": [b"origin", b"mail", b"data", b"secret"]}, "other origin"),
        (rule(1, place="paused"), {"note": "5 why"}, "another note"),
        (QUARANTINED, {"lane": "low"}, "something else"),
    ],
)
def test_an_alarm_names_the_difference(known: Record, changes: dict[str, Any], found: str) -> None:
    alarm = misplaced(known, replace(known, **changes))

    event = Event.MISSING if found.endswith("is gone") else Event.DIFFERENT
    assert (event, found) == (alarm.event, alarm.found)


@pytest.mark.parametrize(
    ("known", "there"),
    [
        *((known, known) for known in (rule(1), ONCE, QUARANTINED, rule(1, place="paused"))),
        (replace(QUARANTINED, job=[]), replace(QUARANTINED, job=[])),  # the archive does not have it either
        (replace(QUARANTINED, due_ms=None), replace(QUARANTINED, due_ms=None, job=[])),
    ],
)
def test_a_schedule_that_agrees_with_the_log_raises_no_alarm(known: Record, there: Record) -> None:
    assert misplaced(known, there) is None


@pytest.mark.parametrize(
    ("there", "is_released"),
    [
        (replace(QUARANTINED, job=[]), False),
        (replace(QUARANTINED, job=[b"origin", b"x", *JOB[2:]]), False),
        (QUARANTINED, True),
    ],
    ids=["lost", "changed", "its cause is over"],
)
def test_a_schedule_goes_back_from_quarantine_with_the_content_of_the_log(there: Record, is_released: bool) -> None:
    alarm = misplaced(QUARANTINED, there, is_released=is_released)

    assert (Event.RELEASED, "quarantine: why") == (alarm.event, alarm.found)
    assert ("due", DUE_MS, JOB) == (alarm.row.place, alarm.row.due_ms, alarm.row.job)


@pytest.mark.parametrize(
    ("there", "event", "found"),
    [
        (None, Event.MISSING, "nothing"),
        (replace(ONCE, places=["normal", "paused"]), Event.SCATTERED, "in normal and paused"),
    ],
)
def test_a_missing_or_duplicated_schedule_is_restored(there: Record | None, event: Event, found: str) -> None:
    alarm = misplaced(ONCE, there)

    assert (event, "normal lane, due 2026-01-01T01:00:00.000Z", found) == (alarm.event, alarm.expected, alarm.found)
    assert ("a", "due", DUE_MS) == (alarm.row.id, alarm.row.place, alarm.row.due_ms)


def test_a_rule_that_is_in_no_place_is_missing() -> None:
    alarm = misplaced(rule(1), replace(rule(1), place=Place.ENDED, due_ms=None))

    assert (Event.MISSING, "ended; due None") == (alarm.event, alarm.found)


@pytest.mark.parametrize(
    ("known", "found"),
    [(replace(ONCE, due_ms=5), "nothing; by the log it is not due when its run is"), (QUARANTINED, "nothing")],
)
def test_a_missing_quarantined_schedule_or_one_with_another_due_time_is_not_restored(known: Record, found: str) -> None:
    alarm = misplaced(known, None)

    assert (Event.MISSING, None, found) == (alarm.event, alarm.row, alarm.found)


def test_an_id_that_the_log_never_had_is_reported_with_its_places() -> None:
    alarm = unknown_schedule(replace(ONCE, places=["low", "paused"]))

    assert (Event.UNKNOWN, "nothing", "in low and paused", None) == (
        alarm.event, alarm.expected, alarm.found, alarm.row
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "now_ms", "expected"),
    [("normal", 60_006, True), ("normal", 60_005, False), ("normal:mail", 60_006, False)],
)
def test_a_schedule_is_overdue_after_the_grace_unless_it_is_throttled(place: str, now_ms: int, expected: bool) -> None:
    here = Record("a", "5", Place.DUE, "normal", 5, [], places=[place])

    assert expected == is_overdue(here, now_ms)


def test_the_alarm_of_overdue_schedules_names_the_oldest() -> None:
    alarm = late([replace(ONCE, id=id, due_ms=due_ms) for id, due_ms in [("b", 7000), ("a", 6000), ("c", 8000)]])

    assert (Event.OVERDUE, "a", "fired 1970-01-01T00:00:06.000Z", "waiting, with 2 others") == (
        alarm.event, alarm.id, alarm.expected, alarm.found
    )  # fmt: skip
