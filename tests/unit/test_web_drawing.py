"""Marks and bars on the console's timeline, and replacements of occurrences that did not run or failed."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from zsched.core.clock import from_ms
from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, Change, Facets
from zsched.core.occurrences.counts import CountedRow, RowsBy, Timeline
from zsched.core.occurrences.future import Spans
from zsched.core.occurrences.lateness import Absences
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.replacements import Replacements
from zsched.core.runs.run import Run, RunStatus
from zsched.web.console.drawing import Mark, ShownTime, Strip, drawn_rows, mark_of
from zsched.web.console.timeline import _ZOOMS, _listed, _shown_time

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SHOWN = ShownTime(0, 10 * HOUR_MS)
NOW_MS = 5 * HOUR_MS


def occurrence(id: str, what: What = What.FIRED, hour: float = 1, **given: Any) -> Change:
    nominal_ms = round(hour * HOUR_MS)
    return Change(id, what, nominal_ms * 1000, "1-1", **({"nominal_ms": nominal_ms} | given))


RAN = Run("a-1", RunStatus.SUCCEEDED, started_ms=2 * HOUR_MS, ended_ms=4 * HOUR_MS)
RUNNING = Run("a-1", RunStatus.RUNNING, started_ms=2 * HOUR_MS)
SKIPPED = occurrence("a", What.SKIPPED, first_ms=HOUR_MS, last_ms=3 * HOUR_MS, count=5)
RULE = Facets("app.task", "fast", is_rule=True)


def timeline(*rows: CountedRow) -> Timeline:
    """Return a timeline of ten hours with *rows*, now in the middle."""
    found = Timeline(Spans.of(0, 10 * HOUR_MS, HOUR_MS), NOW_MS)
    found.add_past([], rows)
    return found


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (occurrence("a", run=RAN), (Mark.SUCCEEDED, 10, 20, 20)),
        (occurrence("a", run=RUNNING), (Mark.OPEN, 10, 20, 30)),  # its bar ends now
        (SKIPPED, (Mark.LEFT_OUT, 10, 10, 20)),
        (occurrence("a", What.DEADLINE_MISSED, next_ms=6 * HOUR_MS), (Mark.MISSED, 60, 60, 0)),  # at its deadline
    ],
    ids=["a run", "a running run", "skipped together", "a missed deadline"],
)
def test_a_mark_is_at_its_nominal_time_and_its_bar_at_the_time_of_the_run(
    one: Change, expected: tuple[Any, ...]
) -> None:
    found = timeline(("a", False, [(1, "fired", 1)]))

    (row,) = drawn_rows(SHOWN, found, RowsBy.SCHEDULE, [replace(one, facets=RULE)], {})

    (mark,) = row.marks
    assert (expected, []) == ((mark.mark, mark.at, mark.bar_at, mark.width), row.cells)


def test_a_row_with_many_occurrences_has_cells_of_the_worst_of_each_hour_and_few_to_come_have_marks() -> None:
    cells = [(0, "fired", 5), (1, "fired", 70), (2, "late", 1), (3, "failed", 2), (4, "skipped missed", 3)]
    found = timeline(("a", False, cells))

    (row,) = drawn_rows(SHOWN, found, RowsBy.SCHEDULE, [], {"a": [6 * HOUR_MS]})

    assert [
        (0, 20, Mark.SUCCEEDED, "75 fired"),
        (20, 10, Mark.LATE, "1 late, 1 fired"),
        (30, 10, Mark.BAD, "2 failed"),
        (40, 10, Mark.LEFT_OUT, "3 skipped"),
    ] == row.cells
    assert [(Mark.EXPECTED, 60)] == [(mark.mark, mark.at) for mark in row.marks]
    assert 5 == row.bad


def test_one_shots_share_the_row_of_their_function_and_have_rows_of_their_own_if_ids_are_wanted() -> None:
    past = [occurrence(id, facets=Facets("app.task", "fast")) for id in "ab"]
    found = timeline(("app.task", True, [(1, "fired", 2)]))

    shared = drawn_rows(SHOWN, found, RowsBy.SCHEDULE, past, {})
    apart = drawn_rows(SHOWN, timeline(), RowsBy.SCHEDULE, past, {"c": [6 * HOUR_MS]}, has_ids=True)

    assert [("app.task", 2)] == [(row.name, len(row.marks)) for row in shared]
    assert ["a", "b", "c"] == [row.name for row in apart]


def test_a_strip_counts_the_occurrences_and_not_its_marks() -> None:
    strip = Strip.of([occurrence("a", run=RAN), SKIPPED, occurrence("a", What.COALESCED, count=11)])

    assert "1 ran, 16 did not run" == strip.summary


@pytest.mark.parametrize(
    ("span_ms", "labels"),
    [
        (60_000, ["00:00:00", "00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50"]),
        (2 * HOUR_MS, ["00:00", "00:15", "00:30", "00:45", "01:00", "01:15", "01:30", "01:45"]),
        (3 * 24 * HOUR_MS, ["01-01", "01-02", "01-03"]),
    ],
)
def test_the_axis_has_ten_labels_at_most(span_ms: int, labels: list[str]) -> None:
    assert labels == [text for _, text in ShownTime(0, span_ms).ticks("UTC")]


def test_an_occurrence_without_a_run_has_the_reason_of_an_outage_and_a_failed_run_has_not() -> None:
    absences, decided_us = Absences("UTC"), 3 * HOUR_MS * 1000
    absences.add([occurrence("b", term_us=2 * HOUR_MS * 1000)], 0)
    skipped = occurrence("a", What.SKIPPED, first_ms=HOUR_MS, last_ms=HOUR_MS, why="missed")
    failed = occurrence("a", run=Run("a-1", RunStatus.FAILED))

    rows = [_listed(replace(one, at_us=decided_us), absences, Replacements()) for one in (skipped, failed)]

    outage = "no daemon led from 1970-01-01 01:00:00+00:00 until 1970-01-01 02:00:00+00:00"
    assert [outage, ""] == [cause for _, _, _, cause, _ in rows]


def of_a(what: What, nominal_ms: int | None = None, **given: Any) -> Change:
    return Change("a", what, 1, "1-1", nominal_ms=nominal_ms, **given)


def run(id: str, status: RunStatus = RunStatus.SUCCEEDED) -> Run:
    return Run(id, status)


def replacements(*found: Change) -> Replacements:
    known = Replacements()
    for one in found:
        known.add(one)
    return known


def words(known: Replacements, one: Change) -> str | None:
    found = known.of(one)
    return found and found.words


def test_a_skipped_occurrence_is_shown_with_the_state_of_its_backfilled_run_but_of_none_on_request() -> None:
    known, asked = (replacements(of_a(What.ENQUEUED, 60, why=why, run=run("a-60"))) for why in (BACKFILL, RUN_NOW))

    assert "backfilled: succeeded" == words(known, of_a(What.SKIPPED, 60))
    assert None is words(known, of_a(What.SKIPPED, 120)) is words(asked, of_a(What.SKIPPED, 60))


def test_occurrences_that_were_skipped_together_are_counted_as_far_as_they_were_backfilled() -> None:
    skipped = of_a(What.SKIPPED, first_ms=60, last_ms=180, count=3)
    parts = [of_a(What.ENQUEUED, ms, why=BACKFILL, run=run(f"a-{ms}")) for ms in (60, 120, 180, 240)]

    found = [replacements(*parts[:number]).of(skipped) for number in range(1, 5)]

    assert ["1 of 3", "2 of 3", "3 of 3", "3 of 3"] == [one and one.words.removesuffix(" backfilled") for one in found]
    assert [False, False, True, True] == [one and one.is_whole for one in found]


def test_a_failed_run_is_shown_with_the_state_of_its_last_retry() -> None:
    first = of_a(What.RETRIED, why="a-1", run=run("a-1-r1", RunStatus.FAILED))
    second = of_a(What.RETRIED, why="a-1-r1", run=run("a-1-r2", RunStatus.QUEUED))
    failed = of_a(What.FIRED, 1, run=run("a-1", RunStatus.FAILED))

    assert "retried: failed" == words(replacements(first), failed)
    assert "retried: queued" == words(replacements(second, first), failed)


def test_retries_are_read_back_to_the_earliest_end_of_a_failed_run_once() -> None:
    def searched(*runs: Run) -> tuple[datetime, datetime | None] | None:
        search = known.search_retries(runs)
        return None if search is None else (search["since"], search["until"])

    known = Replacements()
    ended = {ms: run("a-1", RunStatus.FAILED)._replace(ended_ms=ms) for ms in (300, 100, 200)}

    assert searched(RAN, RUNNING, run("a-1", RunStatus.LOST)) is None
    assert (from_ms(200), None) == searched(ended[300], ended[200])
    assert (from_ms(100), from_ms(200)) == searched(ended[200], ended[100])
    assert searched(ended[100]) is None


def test_occurrences_and_runs_that_a_person_cancelled_have_a_grey_mark_and_are_not_counted() -> None:
    run = Run("a-1", RunStatus.CANCELLED, started_ms=2 * HOUR_MS)
    cancelled = [occurrence("a", What.CANCELLED), occurrence("a", run=run)]

    assert [Mark.CANCELLED] * 2 == [mark_of(one) for one in cancelled]
    found = timeline(("a", False, [(1, "cancelled", 2)]))
    [row] = drawn_rows(SHOWN, found, RowsBy.SCHEDULE, [replace(one, facets=RULE) for one in cancelled], {})
    assert (0, 2) == (row.bad, len(row.marks))


@pytest.mark.parametrize("name", ["1 year", "30 days", "1 min"])
@pytest.mark.parametrize("days", range(6))
def test_a_shown_time_can_be_moved_by_half_of_it_again_and_again_at_any_date(name: str, days: int) -> None:
    query = ShownTime(0, 1).around((20_000 + days) * DAY_MS + 1, _ZOOMS[name])
    for _ in range(5):
        view: Any = SimpleNamespace(request=SimpleNamespace(query_params=query), zone=lambda: "UTC")
        shown = _shown_time(view, 0, 1)

        assert _ZOOMS[name] <= shown.span_ms <= min(_ZOOMS[name] + 6 * shown.step_ms, 369 * DAY_MS)
        query = shown.moved(0.5)
