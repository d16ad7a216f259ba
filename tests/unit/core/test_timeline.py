"""The timeline: outcomes and expected occurrences, counted by spans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from zsched.core.changes import Change, What
from zsched.core.choices import ScheduleState
from zsched.core.model import Schedule
from zsched.core.options import define_trigger
from zsched.core.timeline import MOST_COUNTED, Spans, Timeline
from zsched.errors import InvalidSchedule

MINUTE_MS = 60_000
BEGIN_MS = 1_800_000_000_000


def timeline(minutes: int = 10) -> Timeline:
    return Timeline(Spans.of(BEGIN_MS, BEGIN_MS + minutes * MINUTE_MS, MINUTE_MS), BEGIN_MS)


def schedule(**rule: object) -> Schedule:
    state, anchor_ms = rule.pop("state", ScheduleState.ACTIVE), rule.pop("anchor_ms", BEGIN_MS)
    spec = define_trigger(rule)  # type: ignore[arg-type]  # options of a rule
    return Schedule(
        id="a", state=state, kind="every", func="f", queue="q", priority=None, next_ms=BEGIN_MS, trigger=spec,
        anchor_ms=anchor_ms, nominal_ms=BEGIN_MS,
    )  # type: ignore[arg-type]  # fmt: skip


def expected(found: Timeline) -> list[int]:
    return [count["expected"] for count in found.counts]


def test_an_outcome_counts_in_the_span_of_its_time_with_its_reason() -> None:
    found = timeline()
    found.add_outcome(Change("a", What.FIRED, (BEGIN_MS + 1) * 1000, "1-1", "a-1"))
    found.add_outcome(Change("a", What.SKIPPED, (BEGIN_MS + MINUTE_MS) * 1000, "1-2", count=3, why="overlap"))
    found.add_outcome(Change("a", What.FIRED, (BEGIN_MS - 1) * 1000, "1-3", "a-0"))
    found.add_outcome(Change("a", What.FIRED, (BEGIN_MS + 10 * MINUTE_MS) * 1000, "1-4", "a-2"))

    told = found.to_dict()

    assert [1, 3] == [found.counts[0]["fired"], found.counts[1]["skipped"]]
    assert 2 == len(told["buckets"])
    assert {"skipped": {"overlap": 3}} == told["reasons"]


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        ([{"every": 60}], [0] + [1] * 9),
        ([{"every": 120}], [0, 0] + [1, 0] * 4),
        ([{"every": 1}], [59] + [60] * 9),
        ([{"cron": "*/5 * * * *", "tz": "UTC"}], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        ([{"every": 60, "state": ScheduleState.PAUSED}], [0] * 10),
        # each by its own anchor
        ([{"every": 300, "anchor_ms": BEGIN_MS - n * MINUTE_MS} for n in (4, 4, 2)], [0, 2, 0, 1, 0, 0, 2, 0, 1, 0]),
    ],
    ids=["every minute", "every two", "every second", "cron", "paused", "different anchors"],
)
def test_later_occurrences_of_rules_are_counted_without_their_next_ones(
    rules: list[dict[str, object]], counts: list[int]
) -> None:
    found = timeline()
    found.add_later([schedule(**rule) for rule in rules])

    assert counts == expected(found)


def test_calendar_rules_beyond_the_limit_of_steps_are_left_out_with_their_schedules() -> None:
    found, number = timeline(1440), MOST_COUNTED // 1439 + 1
    ends = [datetime(2100, 1, day, tzinfo=UTC) + timedelta(hours=hour) for day in range(1, 31) for hour in range(3)]
    found.add_later([schedule(cron="* * * * *", ends=end) for end in ends for _ in range(2)])

    assert 2 * (len(ends) - number) == found.left_out
    assert [2 * number] * 1439 == expected(found)[1:]


def test_equal_rules_and_intervals_are_all_counted() -> None:
    found = timeline(1440)
    found.add_later([schedule(cron="* * * * *")] * MOST_COUNTED + [schedule(every=1)] * 3)

    assert 0 == found.left_out
    assert [MOST_COUNTED + 180] * 1439 == expected(found)[1:]


@pytest.mark.parametrize(("end_ms", "step_ms", "option"), [(0, 1, "to"), (1_441_000, 1000, "bucket")])
def test_an_empty_timeline_and_too_many_spans_are_refused(end_ms: int, step_ms: int, option: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        Spans.of(0, end_ms, step_ms)
    assert option == refused.value.field
