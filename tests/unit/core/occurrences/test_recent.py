"""Counts of the last minutes from the log's newest entries: quick, and equal to reading every change."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.builders import entries
from tests.builders.entries import end_fields, row_fields
from tests.unit.core.log.test_log import SAID, T_US
from zsched.core.entry import Entry
from zsched.core.known import Known
from zsched.core.log.kinds import parse
from zsched.core.model import iso
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import FAILURES, HAPPENED, Ahead, LogCounter, Rebuilt, RecentActivity, Stretch
from zsched.core.runs.run import Run, RunStatus

SUFFIX = "-nshop"
NOW_MS = T_US // 1000 + 1
MINUTE_MS = 60_000


def entry(ago_ms: int, kind: str, *rows: Any, **fields: str) -> Entry:
    """Return an entry of *ago_ms* before NOW_MS; its seq does not matter here."""
    return entries.entry(7, kind, *rows, t_us=(NOW_MS - ago_ms) * 1000, **fields)


def fire(ago_ms: int, *runs: str) -> Entry:
    return entry(ago_ms, "fire", runs=" ".join(runs))


def end(ago_ms: int, *runs: Run) -> Entry:
    return entry(ago_ms, "end", *end_fields(*runs))


def recent(*entries: Entry, is_all: bool = True, **how: Any) -> RecentActivity:
    """Return the counts of *entries*, which are given the newest first."""
    counter = LogCounter(SUFFIX, **how)
    counter.is_all = any(not counter.add(each, NOW_MS) for each in entries) or is_all
    return counter.summary(NOW_MS)


def happened(stretch: Stretch) -> dict[What, int]:
    return {what: count for what, count in stretch.happened.items() if count}


@pytest.mark.parametrize("name", SAID)
def test_an_entry_counts_once_for_every_change_in_it(name: str) -> None:
    one, _ = SAID[name]
    expected = Counter[What]()
    for change in parse(one, SUFFIX).outcomes():
        if change.what in HAPPENED:
            expected[change.what] += change.count
    lates = [change.late_ms for change in parse(one, SUFFIX).outcomes() if change.what is What.FIRED]

    stretch = recent(one).stretches[0]

    assert expected == happened(stretch)
    assert max((late for late in lates if late is not None), default=None) == stretch.late_ms


def test_ends_of_runs_are_counted_by_status() -> None:
    ends = [Run(f"a-{n}", status) for n, status in enumerate([RunStatus.SUCCEEDED] * 3 + [RunStatus.CANCELLED])]

    stretch = recent(end(5, *ends)).stretches[0]

    assert {RunStatus.SUCCEEDED: 3, RunStatus.CANCELLED: 1} == stretch.ended
    assert {} == happened(stretch)


def test_every_period_counts_the_entries_within_it_and_those_from_before_a_clock_was_set_back() -> None:
    seconds = [-3600, 0, 59, 60, 299, 300, 1799, 1800]

    found = recent(*(fire(1000 * ago, "a-5") for ago in seconds))

    assert [(60_000, 3), (300_000, 5), (1_800_000, 7)] == [
        (stretch.span_ms, stretch.happened[What.FIRED]) for stretch in found.stretches
    ]
    assert not found.is_cut


def test_entries_older_than_the_longest_period_are_not_needed() -> None:
    counter = LogCounter()

    assert [True, True, False] == [counter.add(fire(minutes * MINUTE_MS, "a-5"), NOW_MS) for minutes in (0, 29, 30)]


def test_counts_of_two_readings_are_those_of_one() -> None:
    alike = [Run("a-1", RunStatus.FAILED, error="no"), Run("a-2", RunStatus.FAILED, error="no")]
    newer = [fire(10, "c-5"), end(20, alike[1]), fire(30_000, "d-5")]
    older = [fire(30_500, "b-5"), end(40_000, alike[0]), merged(70_000), fire(80_000, "a-5")]
    first, second = LogCounter(SUFFIX), LogCounter(SUFFIX)

    for each in older:
        first.add(each, NOW_MS - 15_000)
    for each in newer:
        second.add(each, NOW_MS)
    second.append(first)
    second.is_all = True

    assert recent(*newer, *older) == second.summary(NOW_MS)


def test_entries_that_grew_too_old_are_not_counted_later() -> None:
    counter = LogCounter(SUFFIX)
    counter.add(fire(1000, "b-5"), NOW_MS)
    counter.add(fire(20 * MINUTE_MS, "a-5"), NOW_MS)

    counter.is_all = True
    told = [counter.summary(NOW_MS + minutes * MINUTE_MS) for minutes in (0, 5, 11, 40)]

    fired = [[stretch.happened[What.FIRED] for stretch in one.stretches] for one in told]
    assert [[1, 1, 2], [0, 0, 2], [0, 0, 1], [0, 0, 0]] == fired


def test_the_last_period_is_shorter_if_reading_had_to_stop() -> None:
    found = recent(fire(5000, "a-5"), fire(90_000, "b-5"), is_all=False)

    assert [(60_000, 1), (90_000, 2)] == [(one.span_ms, one.happened[What.FIRED]) for one in found.stretches]
    assert found.is_cut
    assert 2 / 90 == found.stretches[-1].per_second(What.FIRED)


def test_an_empty_or_a_young_complete_log_covers_every_period() -> None:
    empty, young = recent(), recent(fire(5000, "a-5"))

    for found in (empty, young):
        assert [60_000, 300_000, 1_800_000] == [stretch.span_ms for stretch in found.stretches]
        assert not found.is_cut
    assert [(0.0, None)] * 3 == [(stretch.per_second(What.FIRED), stretch.late_ms) for stretch in empty.stretches]
    assert [] == empty.failures


def test_every_period_has_the_lateness_of_its_latest_fire_and_its_percentiles() -> None:
    on_time, late = f"a-{NOW_MS - 10}{SUFFIX}", f"b-{NOW_MS - 70_000 - 4321}{SUFFIX}"
    hundred = [f"r{late_ms}-{NOW_MS - 10 - late_ms}{SUFFIX}" for late_ms in range(101)]

    found, [newest, *_] = recent(fire(10, on_time), fire(70_000, on_time, late)), recent(fire(10, *hundred)).stretches

    assert [0.0, 4321.0, 4321.0] == [stretch.late_ms for stretch in found.stretches]
    assert (50.0, 99.0, 100.0) == (newest.late_p50_ms, newest.late_p99_ms, newest.late_ms)
    assert (None, None) == (recent().stretches[0].late_p50_ms, recent().stretches[0].late_p99_ms)


def test_the_last_failed_or_lost_or_expired_runs_are_listed() -> None:
    failed = [Run(f"f-{n}", RunStatus.FAILED, ended_ms=n, error=f"error {n}") for n in range(FAILURES)]
    lost, expired = Run("l-1", RunStatus.LOST, error="gone"), Run("e-1", RunStatus.EXPIRED, error="too late")
    well = Run("w-1", RunStatus.SUCCEEDED)

    found = recent(end(10, well, expired, lost, well), end(20, *failed[:3]), end(30, *failed[3:]))

    assert [lost, expired, *failed[2::-1], *failed[:4:-1]] == [failure.run for failure in found.failures]
    assert [1] * FAILURES == [failure.times for failure in found.failures]


def test_equal_failures_of_one_schedule_are_grouped_under_the_latest() -> None:
    alike = [Run(f"a-{n}", RunStatus.FAILED, ended_ms=n, error="no") for n in range(6)]
    others = [
        Run("a-9", RunStatus.FAILED, error="yes"), Run("b-9", RunStatus.FAILED, error="no"),
        Run("a-8", RunStatus.LOST, error="no"),
    ]  # fmt: skip

    found = recent(end(10, *alike[3:]), end(20, *others), end(30, *alike[:3])).failures

    assert [(alike[5], 6), *((other, 1) for other in others[::-1])] == [(one.run, one.times) for one in found]


def test_a_requeued_run_counts_as_its_last_end() -> None:
    fine, bad = (Run(f"{id}-1795277135295", RunStatus.FAILED, error="no") for id in "ab")
    again = fine._replace(status=RunStatus.SUCCEEDED, error="", was=RunStatus.FAILED)

    found = recent(end(5000, bad._replace(was=RunStatus.LOST)), end(7000, again), end(9000, fine, bad))

    assert [(bad.id, 1)] == [(one.run.id, one.times) for one in found.failures]
    assert {RunStatus.SUCCEEDED: 1, RunStatus.FAILED: 1} == {k: n for k, n in found.stretches[0].ended.items() if n}


def test_known_failures_are_in_counts_only_and_so_are_those_of_requeued_runs() -> None:
    known = Known.of("app.*", "no", "1h", "", "ann", NOW_MS)
    one, other, late = (Run(f"{id}-9", RunStatus.FAILED, error="no", func="app.f") for id in "abc")
    again = one._replace(was=RunStatus.FAILED)
    others = [other._replace(error="yes"), late._replace(status=RunStatus.EXPIRED)]

    found = recent(end(10, again), end(20, *others), end(30, one), known=[known])

    assert others[::-1] == [each.run for each in found.failures]
    assert [(4, 2, 2)] * 3 == [
        (sum(each.ended.values()), sum(each.known.values()), each.unknown(*RunStatus)) for each in found.stretches
    ]


def retry(ago_ms: int, *runs: str) -> Entry:
    """Return the entry of a retry of each of *runs*, as its first extra run."""
    rows = [text for run in runs for text in (f"{run}-r1", f"0 0 {run}")]
    return entry(ago_ms, "enqueue", "rows", len(runs), *rows)


@pytest.mark.parametrize(
    ("ends", "expected", "words"),
    [
        ([], {RunStatus.QUEUED: 1}, "1 of 2 retried"),
        ([RunStatus.SUCCEEDED], {RunStatus.SUCCEEDED: 1}, "1 of 2 retried: succeeded"),
        ([RunStatus.FAILED], {RunStatus.FAILED: 1}, "1 of 2 retried: failed"),
        ([RunStatus.FAILED, RunStatus.SUCCEEDED], {RunStatus.SUCCEEDED: 1}, "1 of 2 retried: succeeded"),
    ],
    ids=["not over", "succeeded", "failed", "the retry of the retry succeeded"],
)
def test_failures_that_were_retried_say_what_became_of_the_last_retry(
    ends: list[RunStatus], expected: dict[RunStatus, int], words: str
) -> None:
    run, other = (
        Run("a-1795277135295", RunStatus.FAILED, error="no"),
        Run("a-1795277135296", RunStatus.FAILED, error="no"),
    )
    log, id = [end(90_000, run), retry(80_000, run.id)], f"{run.id}-r1"
    for n, status in enumerate(ends):
        log += [
            end(70_000 - n * 10_000, Run(id, status, error="again")),
            *([retry(65_000, id)] if n < len(ends) - 1 else []),
        ]
        id += "-r1"

    found = recent(end(500, other), *reversed(log))

    failure = next(one for one in found.failures if one.run.error == "no")
    assert (other.id, 2, expected, words) == (failure.run.id, failure.times, failure.retried, failure.repair)
    assert {status.value: 1 for status in expected} == failure.to_dict()["retried"]


def test_a_failure_has_no_mark_without_a_retry_and_a_short_mark_when_it_was_retried_alone() -> None:
    a, b = (Run(f"{id}-1795277135295", RunStatus.LOST) for id in "ab")

    found = recent(end(10, Run(f"{b.id}-r1", RunStatus.SUCCEEDED)), retry(20, b.id), end(5000, a, b))

    assert {"a": "", "b": "retried: succeeded"} == {one.run.schedule_id: one.repair for one in found.failures}


def test_only_some_of_many_failures_are_compared() -> None:
    ends = [end(n, *(Run(f"a-{n}{k:03}", RunStatus.FAILED) for k in range(200))) for n in range(8)]

    assert [1000] == [failure.times for failure in recent(*ends).failures]


def test_missed_occurrences_are_counted_separately_from_skipped_ones() -> None:
    rows = row_fields("advance", "a passed - 9 9 missed:1:8:20,coalesced:1:8:5,limit:1:8:3", "b overlap 5 9 9 - x")

    stretch = recent(entry(5, "advance", *rows)).stretches[0]

    assert (20, {What.SKIPPED: 24, What.COALESCED: 5}) == (stretch.missed, happened(stretch))


def restored(ago_ms: int, reason: str, *places: str) -> Entry:
    """Return a ``restore`` entry with a row for each place."""
    rows = [text for n, place in enumerate(places) for text in (f"s{n}", f"5 0 5 {place} - - - 5 0 0 ")]
    texts = ("shapes", 0, "rows", len(places), *rows, "format", 1)
    return entry(ago_ms, "restore", *texts, reason=reason, archive="x")


def merged(ago_ms: int) -> Entry:
    return entry(ago_ms, "merged", *row_fields("merged", "3-1 5"), archive="x")


def test_the_last_rebuild_of_redis_is_returned_with_its_counts() -> None:
    places = ("due", "paused", "open", "skipped", "gone", "due", "held", "refused")

    found = recent(merged(70_000), merged(71_000), restored(72_000, "lost", *places), restored(73_000, "lost", "due"))

    counts = {
        What.RESTORED: 4, What.PUSHED_AGAIN: 1, What.SKIPPED: 1, What.WITHDRAWN: 1, What.HELD: 1,
        What.QUARANTINED: 1,
    }  # fmt: skip
    assert Rebuilt(NOW_MS - 70_000, counts) == found.rebuilt


def test_a_period_that_begins_before_a_loss_is_not_whole() -> None:
    assert [True, False, False] == [stretch.is_whole for stretch in recent(merged(70_000)).stretches]


def test_a_restore_by_an_audit_and_a_loss_older_than_half_an_hour_are_not_a_loss() -> None:
    alone, beside = recent(restored(5, "audit", "due")), recent(merged(4), restored(5, "audit", "due"))

    assert (None, [True] * 3) == (alone.rebuilt, [stretch.is_whole for stretch in alone.stretches])
    assert Rebuilt(NOW_MS - 4, {}) == beside.rebuilt
    assert recent(merged(30 * MINUTE_MS)).rebuilt is None


def test_an_unknown_entry_is_not_counted_and_hides_no_other() -> None:
    strange = [entry(1, "conjure"), entry(1, "fire", runs="a-soon"), entry(1, "end", b"rows", b"nonsense")]
    strange += [entry(1, "put")]

    found = recent(*strange, fire(2, "a-5"), end(3, Run("a-5", RunStatus.LOST)))

    assert 1 <= found.stretches[0].happened[What.FIRED] <= 2
    assert ["a-5"] == [failure.run.id for failure in found.failures]


HOUR_MS = 60 * MINUTE_MS


def advance(ago_ms: int, *nexts: tuple[str, int | None]) -> Entry:
    """Return an entry of schedules that fired, each with its next time relative to NOW_MS."""
    times = [(id, "-" if later_ms is None else str(NOW_MS + later_ms)) for id, later_ms in nexts]
    return entry(ago_ms, "advance", *row_fields("advance", *(f"{id} fired {NOW_MS} {at} {at} -" for id, at in times)))


def test_a_clock_that_was_ahead_names_the_schedules_that_it_blocked() -> None:
    found = recent(
        fire(-11_000, "late-5"),
        advance(-HOUR_MS, ("hourly", 2 * HOUR_MS), ("soon", 10_000), ("later", 10_001), ("over", None)),
        advance(-2 * HOUR_MS, ("hourly", 3 * HOUR_MS)),  # before that
        entry(-3 * HOUR_MS, "advance", b"rows", b"nonsense"),
    )

    assert found.ahead == Ahead(NOW_MS + 3 * HOUR_MS, {"hourly": NOW_MS + 2 * HOUR_MS, "later": NOW_MS + 10_001})
    assert {"until": iso(NOW_MS + 3 * HOUR_MS), "silent": ["hourly", "later"]} == found.to_dict()["ahead"]


@pytest.mark.parametrize("ago_ms", [-10_000, 0, 5])
def test_a_clock_ahead_by_a_network_delay_is_not_reported(ago_ms: int) -> None:
    found = recent(advance(ago_ms, ("hourly", 2 * HOUR_MS)))

    assert (None, None) == (found.ahead, found.to_dict()["ahead"])


def test_json_of_a_stretch_has_every_key() -> None:
    [stretch, *_] = json.loads(json.dumps(recent(fire(0, f"a-{NOW_MS - 5}")).to_dict()))["stretches"]

    assert {what.value for what in HAPPENED} == set(stretch["happened"])
    assert {"succeeded", "failed", "cancelled", "expired", "lost", "refused"} == set(stretch["ended"])
    assert {0} == set(stretch["ended"].values())
    assert {What.FIRED.value: 1} == {what: count for what, count in stretch["happened"].items() if count}
    assert (60.0, 0.005) == (stretch["span_s"], stretch["late_s"])
