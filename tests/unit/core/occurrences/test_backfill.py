"""Occurrences, counted: of a backfill, with the executed ones among them; and by the spans of a timeline."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders import schedules
from zsched.core.clock import to_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.backfill import Backfill, Filled, past_of, ran_at
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import MOST_COUNTED, RowsBy, Timeline
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState
from zsched.core.options.define import define_trigger
from zsched.core.story.source import Source
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.errors import InvalidSchedule

HOUR_MS = 3_600_000
MIDNIGHT_MS = to_ms(datetime(2026, 3, 1, tzinfo=UTC))
HOURLY = TriggerSpec(CRON, "0 * * * *")
EVERY_HOUR = TriggerSpec(EVERY, str(HOUR_MS))
DAILY = TriggerSpec(RRULE, "FREQ=DAILY;BYHOUR=9", tz="Asia/Seoul")


def schedule(trigger: TriggerSpec = HOURLY, anchor_ms: int = MIDNIGHT_MS, nominal_ms: int | None = None) -> Schedule:
    times = {"next_ms": nominal_ms, "nominal_ms": nominal_ms, "anchor_ms": anchor_ms}
    return schedules.schedule("r", trigger=trigger, tz=trigger.tz, **times)


def hours(*numbers: float) -> list[int]:
    return [MIDNIGHT_MS + int(number * HOUR_MS) for number in numbers]


def times(given: Schedule, start: float, end: float) -> list[int]:
    [start_ms, end_ms] = hours(start, end)
    stretch, _ = past_of(given, start_ms, end_ms)
    found = list(stretch.times())
    assert stretch.size == len(found)
    return found


@pytest.mark.parametrize(
    ("trigger", "start", "end", "expected"),
    [
        (HOURLY, 1, 4, hours(1, 2, 3)),
        (HOURLY, -2, 2, hours(-2, -1, 0, 1)),
        (EVERY_HOUR, -2, 2, hours(1)),
        (replace(HOURLY, starts_ms=MIDNIGHT_MS), -2, 2, hours(0, 1)),
        (replace(HOURLY, count=1), -2, 2, hours(1)),
        (DAILY, 1, 49, hours(24, 48)),
    ],
    ids=["with its start, not its end", "before its creation", "every", "starts", "count", "in its zone"],
)
def test_a_rule_has_its_occurrences_of_a_stretch_but_none_before_its_anchor(
    trigger: TriggerSpec, start: float, end: float, expected: list[int]
) -> None:
    assert expected == times(schedule(trigger), start, end)


def test_an_occurrence_in_the_last_millisecond_of_a_stretch_is_counted() -> None:
    stretch, _ = past_of(schedule(replace(EVERY_HOUR, expr="1")), MIDNIGHT_MS + 1, MIDNIGHT_MS + 4)

    assert [MIDNIGHT_MS + n for n in (1, 2, 3)] == list(stretch.times())
    assert 3 == stretch.size


@pytest.mark.parametrize(("start", "times", "pending"), [(1, hours(1, 2), 3), (4, [], 2)])
def test_occurrences_that_the_schedule_will_fire_are_not_backfilled(
    start: float, times: list[int], pending: int
) -> None:
    [pending_ms] = hours(3)

    stretch, left = past_of(schedule(nominal_ms=pending_ms), *hours(start, 6))

    assert (times, len(times), pending) == (list(stretch.times()), stretch.size, left)


@pytest.mark.parametrize("number", [1, 2, 1000, 8760])
def test_the_nth_occurrence_is_found_without_stepping(number: int) -> None:
    stretch, _ = past_of(schedule(), *hours(0, 8760))

    assert hours(number - 1) == [stretch.nth(number)]


def test_ten_million_occurrences_are_counted_at_once() -> None:
    every_second = schedule(TriggerSpec(EVERY, "1000"), MIDNIGHT_MS - 1000)

    stretch, _ = past_of(every_second, MIDNIGHT_MS, MIDNIGHT_MS + 10_000_000_000)

    assert (10_000_000, MIDNIGHT_MS + 99_999_000) == (stretch.size, stretch.nth(100_000))


def change(what: What, **more: Any) -> Change:
    return Change("r", what, 5, "1-1", **more)


RUN = f"r-{MIDNIGHT_MS}"
RAN = {
    "fired": change(What.FIRED, run_id=RUN, nominal_ms=MIDNIGHT_MS),
    "waits for its predecessor": change(What.FIRED, run_id=RUN, why="waits for r-5"),
    "backfilled": change(What.ENQUEUED, run_id=f"{RUN}-nshop", why="backfill"),
    "backfilled once more": change(What.ENQUEUED, run_id=f"{RUN}-r7", why="backfill"),
    "retried": change(What.RETRIED, run_id=f"{RUN}-r7", why=RUN),
    "enqueued": change(What.ENQUEUED, run_id=RUN),
    "a one-shot that ran on request": change(What.ENQUEUED, run_id=RUN, why="run now"),
    "found open": change(What.FOUND, run_id=RUN, why="open"),
    "held by RQ after a loss": change(What.HELD, run_id=RUN, why="uncertain"),
    "pushed again after a loss": change(What.PUSHED_AGAIN, run_id=RUN, why="uncertain"),
    "was there already": change(What.DUPLICATE, run_id=RUN),
    "skipped, as it may have run": change(What.SKIPPED, nominal_ms=MIDNIGHT_MS, why="uncertain"),
}
DID_NOT = {
    "an extra run on request": change(What.ENQUEUED, run_id=f"{RUN}-r1", why="run now"),
    "overlap": change(What.SKIPPED, nominal_ms=MIDNIGHT_MS, why="overlap: r-5 was still open"),
    "paused": change(What.SKIPPED, first_ms=MIDNIGHT_MS, last_ms=MIDNIGHT_MS, why="paused"),
    "coalesced": change(What.COALESCED, first_ms=MIDNIGHT_MS, last_ms=MIDNIGHT_MS, nominal_ms=MIDNIGHT_MS),
    "expired": change(What.EXPIRED, nominal_ms=MIDNIGHT_MS),
    "waits": change(What.FOUND, run_id=RUN, nominal_ms=MIDNIGHT_MS, why="due"),
    "put": change(What.PUT, run_id=RUN, nominal_ms=MIDNIGHT_MS),
    "another writer's": change(What.FIRED, run_id="r"),
}


@pytest.mark.parametrize("told", RAN.values(), ids=RAN)
def test_a_pushed_occurrence_counts_as_run(told: Change) -> None:
    assert MIDNIGHT_MS == ran_at(told)


@pytest.mark.parametrize("told", DID_NOT.values(), ids=DID_NOT)
def test_an_occurrence_that_was_not_pushed_does_not_count_as_run(told: Change) -> None:
    assert ran_at(told) is None


def test_a_backfill_can_be_converted_to_json() -> None:
    source = Source("host:/a.db", None, "1-9")
    done = Backfill("r", "UTC", *hours(0, 2), (Filled(MIDNIGHT_MS, RUN), Filled(*hours(1), None)), 3, 4, source, True)

    assert [RUN] == done.run_ids
    assert {
        "schedule_id": "r",
        "start": "2026-03-01T00:00:00.000Z",
        "end": "2026-03-01T02:00:00.000Z",
        "dry_run": True,
        "runs": [
            {"run_id": RUN, "nominal_at": "2026-03-01T00:00:00.000Z"},
            {"run_id": None, "nominal_at": "2026-03-01T01:00:00.000Z"},
        ],
        "ran": 3,
        "pending": 4,
        "source": source.to_dict(),
    } == done.to_dict()


MINUTE_MS = 60_000
BEGIN_MS = 1_800_000_000_000


def timeline(minutes: int = 10) -> Timeline:
    return Timeline(Spans.of(BEGIN_MS, BEGIN_MS + minutes * MINUTE_MS, MINUTE_MS), BEGIN_MS)


def scheduled(**rule: object) -> Schedule:
    state, anchor_ms = rule.pop("state", ScheduleState.ACTIVE), rule.pop("anchor_ms", BEGIN_MS)
    id = rule.pop("id", "a")
    spec = define_trigger(rule)  # type: ignore[arg-type]  # options of a rule
    times = {"next_ms": BEGIN_MS, "nominal_ms": BEGIN_MS, "anchor_ms": anchor_ms}
    return schedules.schedule(id=id, state=state, trigger=spec, **times)


def expected(found: Timeline) -> list[int]:
    return [count["expected"] for count in found.counts]


def test_counts_of_the_past_are_words_and_reasons_by_span_and_row() -> None:
    found = timeline()
    row = ("a", False, [(1, "skipped missed", 3), (2, "late", 1)])
    found.add_past([(0, "fired", 2), (1, "skipped missed", 3), (1, "skipped overlap", 1), (2, "late", 1)], [row])

    told = found.to_dict()

    assert [{"fired": 2}, {"skipped": 4}, {"fired": 1, "late": 1}] == found.counts[:3]
    assert 3 == len(told["buckets"])
    assert {("skipped", "missed", 3), ("skipped", "overlap", 1)} == {tuple(each.values()) for each in told["reasons"]}
    assert ["a"] == [each["name"] for each in told["rows"]]
    assert [{"skipped": 3}, {"fired": 1, "late": 1}] == [
        {word: number for word, number in each.items() if word != "at"} for each in told["rows"][0]["buckets"]
    ]


def test_rows_of_schedules_with_a_past_have_their_future_and_others_fill_the_rest() -> None:
    found = timeline()
    found.add_past([], [("a", False, [(0, "failed", 1)]), ("app.task", True, [(0, "fired", 9)])])
    coming = [scheduled(id=id, every=60) for id in "abcd"]

    found.add_coming(coming, RowsBy.SCHEDULE, 3, False)

    assert ["a", "app.task", "b"] == [row.name for row in found.rows]
    assert [10, 0, 10] == [row.number("expected") for row in found.rows]
    assert [4 * 9, 2] == [sum(expected(found)), found.more_rows]


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
def test_occurrences_of_rules_are_counted_without_the_next(rules: list[dict[str, object]], counts: list[int]) -> None:
    found = timeline()
    found.add_coming([scheduled(**rule) for rule in rules], None, 0, False)

    assert counts == expected(found)


def test_calendar_rules_beyond_the_limit_of_steps_are_left_out_with_their_schedules() -> None:
    found, number = timeline(1440), MOST_COUNTED // 1439 + 1
    ends = [datetime(2100, 1, day, tzinfo=UTC) + timedelta(hours=hour) for day in range(1, 31) for hour in range(3)]
    found.add_coming([scheduled(cron="* * * * *", ends=end) for end in ends for _ in range(2)], None, 0, False)

    assert 2 * (len(ends) - number) == found.left_out
    assert [2 * number] * 1439 == expected(found)[1:]


def test_equal_rules_and_intervals_are_all_counted() -> None:
    found = timeline(1440)
    found.add_coming([scheduled(cron="* * * * *")] * MOST_COUNTED + [scheduled(every=1)] * 3, None, 0, False)

    assert 0 == found.left_out
    assert [MOST_COUNTED + 180] * 1439 == expected(found)[1:]


@pytest.mark.parametrize(("end_ms", "step_ms", "option"), [(0, 1, "to"), (1_441_000, 1000, "bucket")])
def test_an_empty_timeline_and_too_many_spans_are_refused(end_ms: int, step_ms: int, option: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        Spans.of(0, end_ms, step_ms, most=1440)
    assert option == refused.value.field
