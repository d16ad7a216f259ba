"""The future of a rule, for a preview."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.builders.schedules import schedule
from zsched.core.clock import to_ms
from zsched.core.occurrences.planning import nominal_time, occurrences
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, due_of

NEW_YORK = ZoneInfo("America/New_York")


def _local(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=NEW_YORK)  # type: ignore[arg-type, misc]


def test_occurrences_are_strictly_later_and_aware_in_the_rules_zone() -> None:
    spec = TriggerSpec(CRON, "30 2 * * *", "America/New_York")

    found = occurrences(spec, 0, to_ms(_local(2026, 3, 7, 2, 30)), 2)

    assert [_local(2026, 3, 8, 3), _local(2026, 3, 9, 2, 30)] == found
    assert [timedelta(hours=-4)] * 2 == [at.utcoffset() for at in found]


def test_a_preview_shows_both_passes_of_a_fold_with_their_offsets() -> None:
    spec = TriggerSpec(CRON, "*/30 * * * *", "America/New_York")

    found = occurrences(spec, 0, to_ms(_local(2026, 11, 1, 0, 30)), 5)

    assert ["01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500", "02:00-0500"] == [f"{at:%H:%M%z}" for at in found]


def test_a_preview_of_an_exhausted_rule_has_fewer_occurrences() -> None:
    spec = TriggerSpec(EVERY, "1000", count=3)
    start_ms = to_ms(datetime(2026, 1, 1, tzinfo=UTC))

    assert 3 == len(occurrences(spec, start_ms, start_ms, 10))
    assert 1 == len(occurrences(spec, start_ms, start_ms + 2000, 10))
    assert [] == occurrences(spec, start_ms, start_ms + 3000, 10)


HOURLY = TriggerSpec(CRON, "0 * * * *", jitter_ms=3_000_000)
MIDNIGHT = to_ms(datetime(2026, 1, 1, tzinfo=UTC))
HOURS = [MIDNIGHT + n * 3_600_000 for n in range(6)]


def _dues(id: str) -> list[int]:
    return [due_of(build(HOURLY, 0), id, at_ms) for at_ms in HOURS]


def test_a_preview_with_jitter_lists_due_times() -> None:
    found = [to_ms(at) for at in occurrences(HOURLY, 0, HOURS[0] - 1, 6, "a")]

    assert _dues("a") == found
    assert found != [to_ms(at) for at in occurrences(HOURLY, 0, HOURS[0] - 1, 6, "b")]
    assert HOURS == [nominal_time(schedule(trigger=HOURLY, anchor_ms=0), due_ms) for due_ms in found]
    assert HOURS[1] == nominal_time(schedule(trigger=replace(HOURLY, jitter_ms=0), anchor_ms=0), HOURS[1])


FIRST_DUE, SECOND_DUE, *_ = _dues("a")


@pytest.mark.parametrize(
    ("start_ms", "next_ms", "expected"),
    [
        (HOURS[0], 0, FIRST_DUE),  # past its nominal time, and not yet due
        (FIRST_DUE - 1, 0, FIRST_DUE),
        (FIRST_DUE, 0, SECOND_DUE),
        (HOURS[0], HOURS[0], FIRST_DUE),
        (HOURS[0], HOURS[1], SECOND_DUE),  # the first of the schedule
    ],
)
def test_a_preview_begins_with_the_first_due_time_of_the_schedule(start_ms: int, next_ms: int, expected: int) -> None:
    assert HOURS[0] < FIRST_DUE < HOURS[1]
    assert [expected] == [to_ms(at) for at in occurrences(HOURLY, 0, start_ms, 1, "a", next_ms)]
