"""The difference in times that a change makes, before it is made."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import schedules
from zsched.core.model import After, At, Definition, Schedule, iso
from zsched.core.occurrences.difference import TimesDifference, difference
from zsched.core.options.choices import ScheduleState
from zsched.core.options.define import define_trigger
from zsched.core.triggers.spec import Calendars, TriggerSpec
from zsched.core.triggers.trigger import build

NOW_MS = 1_796_004_000_000  # Mon 30 Nov 2026, 02:00 UTC
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SEOUL, BERLIN = {"tz": "Asia/Seoul"}, {"tz": "Europe/Berlin"}


def spec_of(**rule: Any) -> TriggerSpec:
    return define_trigger(rule)


def held(spec: TriggerSpec, **options: Any) -> Schedule:
    next_ms = build(spec, NOW_MS - HOUR_MS).next_after(NOW_MS)
    times = {"next_ms": next_ms, "nominal_ms": next_ms, "anchor_ms": NOW_MS - HOUR_MS}
    return schedules.schedule("a", trigger=spec, tz=spec.tz, **times, **options)


def wanted(when: Any, **options: Any) -> Definition:
    return Definition("a", when, "app.x", tz=getattr(when, "tz", "UTC"), **options)


DAILY = spec_of(cron="0 9 * * *", **SEOUL)


def test_a_new_rule_takes_its_old_times_away_and_adds_its_own() -> None:
    found = difference(held(DAILY), wanted(spec_of(cron="0 9 * * 1-5", **BERLIN)), NOW_MS, Calendars)

    assert "− Tue 1 Dec 09:00+09:00 … + Mon 30 Nov 09:00+01:00 …; 7 → 5 a week; first change in 6h" == found.text
    assert [NOW_MS + 22 * HOUR_MS + n * DAY_MS for n in range(5)] == list(found.gone)
    assert [iso(NOW_MS + 6 * HOUR_MS)] == found.to_dict()["come"][:1]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, wanted(DAILY), "+ Tue 1 Dec 09:00+09:00 …; 0 → 7 a week; first change in 22h"),
        (held(DAILY), wanted(DAILY), "the times stay"),
        (held(DAILY), wanted(replace(DAILY, expr="00 9 * * *")), "the times stay"),
        (
            held(DAILY), wanted(replace(DAILY, expr="0 9 * * 1-5")),
            "− Sat 5 Dec 09:00+09:00 …; 7 → 5 a week; first change in 4d 22h",
        ),
        (
            held(DAILY), wanted(replace(DAILY, count=3)),
            "− Fri 4 Dec 09:00+09:00 …; 7 → 3 a week; first change in 3d 22h",
        ),
        (held(DAILY), wanted(DAILY, enabled=False), "− Tue 1 Dec 09:00+09:00 …; 7 → 0 a week; first change in 22h"),
        (
            held(DAILY, state=ScheduleState.PAUSED), wanted(DAILY, enabled=True),
            "+ Tue 1 Dec 09:00+09:00 …; 0 → 7 a week; first change in 22h",
        ),
        (
            held(DAILY, state=ScheduleState.PAUSED), wanted(replace(DAILY, expr="0 9 * * 1-5")),
            "− Sat 5 Dec 09:00+09:00 …; 7 → 5 a week; first change in 4d 22h",
        ),
        (held(spec_of(every=3600)), wanted(spec_of(every=3600)), "the times stay"),
        (
            held(spec_of(every=7200)), wanted(spec_of(every=3600)),  # counted from the put
            "+ Mon 30 Nov 04:00+00:00 …; 84 → 167 a week; first change in 2h",
        ),
        (
            schedules.schedule("a", next_ms=NOW_MS + HOUR_MS), wanted(At(NOW_MS + DAY_MS)),
            "− Mon 30 Nov 03:00+00:00 + Tue 1 Dec 02:00+00:00; 1 → 1 a week; first change in 1h",
        ),
        (None, wanted(After(90_500)), "+ Mon 30 Nov 02:01:30.500+00:00; 0 → 1 a week; first change in 1m 30s"),
    ],
    ids=[
        "created", "no change", "another text", "fewer days", "a count", "paused", "resumed", "changed while paused",
        "the same interval", "another interval", "a one-shot", "a delay",
    ],
)  # fmt: skip
def test_the_text_of_a_difference_names_its_first_times(before: Schedule | None, after: Definition, text: str) -> None:
    assert text == difference(before, after, NOW_MS, Calendars).text


def test_a_dense_rule_is_compared_within_bounds() -> None:
    found = difference(held(spec_of(every=1)), wanted(spec_of(every=0.001)), NOW_MS, Calendars)

    assert (604_799, 604_799_999) == found.week
    assert isinstance(found, TimesDifference)
