"""Labels and distributions of a meter, and the metrics of a scrape after a read of Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from zsched.core.choices import Priority
from zsched.core.clock import ManualClock
from zsched.health.facts import DaemonHealth
from zsched.metrics.collector import DaemonCollector, Lookout, Sight
from zsched.metrics.meter import OTHER, DaemonMeter, Distribution, LogTally, Names
from zsched.storage.overview import Overview


@pytest.mark.parametrize(
    ("most", "names", "labels"),
    [
        (2, ["a", "b", "c", "a"], ["a", "b", OTHER, "a"]),
        (1, ["other", "unknown", "a"], ["other", "unknown", "a"]),  # which use up no label
        (9, ["\ud800", "x" * 1000], ["\\ud800", "x" * 200]),
    ],
)
def test_the_first_names_are_labels_and_later_ones_become_other(most: int, names: list[str], labels: list[str]) -> None:
    found = Names(most)

    assert labels == [found.of(name) for name in names]


BOUNDS = (0.1, 1, 10)


def test_a_value_is_in_the_first_bucket_that_it_does_not_exceed() -> None:
    distribution = Distribution(BOUNDS)

    for value in (0.05, 0.1, 0.11, 10, 11):
        distribution.note(value)

    assert [("0.1", 2), ("1.0", 3), ("10.0", 4), ("+Inf", 5)] == distribution.buckets()
    assert 21.26 == pytest.approx(distribution.total)


@given(some.lists(some.one_of(some.floats(-1, 20), some.sampled_from(BOUNDS))))
def test_many_values_at_once_count_like_single_values(values: list[float]) -> None:
    one_by_one, at_once = Distribution(BOUNDS), Distribution(BOUNDS)

    for value in values:
        one_by_one.note(value)
    at_once.note_all(list(values))

    assert one_by_one.buckets() == at_once.buckets()
    assert one_by_one.total == pytest.approx(at_once.total)


NOW_MS = 1_800_000_000_000
NONE = dict.fromkeys(Priority, 0)
NOBODY = Overview(
    now_ms=NOW_MS, waiting=NONE, overdue=NONE, oldest_due_ms=None, recurring=0, paused=0, quarantined=0, leader=None,
    lease_ms=None, led_since_ms=None, epoch=7, log_length=0, log_last=None, hold_ms=0, archives=[], held_back=[],
)  # fmt: skip


class Seen(Lookout):
    """A lookout with a given *overview*."""

    def __init__(self, overview: Overview) -> None:
        self._sight = Sight(overview)

    def look(self) -> Sight:
        return self._sight


def scraped(**changes: Any) -> dict[str, dict[str, float]]:
    """Return the values by name and by label, of a standby that sees NOBODY with *changes*."""
    meter = DaemonMeter(LogTally("", Names()), DaemonHealth(ManualClock()))
    found: dict[str, dict[str, float]] = {}
    for family in DaemonCollector(meter, Seen(replace(NOBODY, **changes)), Names(), {}).collect():
        for sample in family.samples:
            found.setdefault(sample.name, {})[" ".join(sample.labels.values())] = sample.value
    return found


@pytest.mark.parametrize(("leader", "expected"), [(None, 0), ("another", 1)])
def test_a_standby_reports_whether_there_is_a_leader(leader: str | None, expected: int) -> None:
    told = scraped(leader=leader)

    assert {"": expected} == told["zsched_led"]
    assert {"": 0} == told["zsched_leader"]


def test_an_overdue_schedule_counts_as_waiting() -> None:
    told = scraped(waiting=NONE | {Priority.LOW: 5, Priority.HIGH: 1}, overdue=NONE | {Priority.LOW: 2})

    assert {"high": 1, "normal": 0, "low": 5} == told["zsched_waiting"]
    assert {"high": 0, "normal": 0, "low": 2} == told["zsched_overdue"]
    assert 6 == told["zsched_schedules"]["waiting"]


def test_the_age_of_the_oldest_due_run_is_never_negative() -> None:
    told = [scraped(oldest_due_ms=due_ms) for due_ms in (NOW_MS - 1500, NOW_MS + 1)]

    assert [1.5, 0] == [page["zsched_oldest_due_age_seconds"][""] for page in told]


def test_a_daemon_reports_the_number_of_its_failing_threads_and_chores() -> None:
    health = DaemonHealth(ManualClock())
    health.failing |= {"thread waker": "'a bug'", "chore auditor": "'a bug'"}
    meter = DaemonMeter(LogTally("", Names()), health)

    families = DaemonCollector(meter, Seen(NOBODY), Names(), {}).collect()

    assert [2] == [sample.value for family in families for sample in family.samples if sample.name == "zsched_failing"]
