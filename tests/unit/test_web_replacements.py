"""Replacements of occurrences that did not run or failed: backfilled and retried runs."""

from __future__ import annotations

from typing import Any

from zsched.core.changes import BACKFILL, RUN_NOW, What
from zsched.core.lookback import Occurrence
from zsched.core.runs import Run, RunStatus
from zsched.web.console.replacements import Replacements


def occurrence(what: What, nominal_ms: int | None = None, **given: Any) -> Occurrence:
    return Occurrence("a", what, 1, "1-1", nominal_ms=nominal_ms, **given)


def run(id: str, status: RunStatus = RunStatus.SUCCEEDED) -> Run:
    return Run(id, status)


def replacements(*found: Occurrence) -> Replacements:
    known = Replacements()
    for one in found:
        known.add(one)
    return known


def words(known: Replacements, one: Occurrence) -> str | None:
    found = known.of(one)
    return found and found.words


def test_a_skipped_occurrence_is_shown_with_the_state_of_its_backfilled_run() -> None:
    known = replacements(occurrence(What.ENQUEUED, 60, why=BACKFILL, run=run("a-60")))

    assert "backfilled: succeeded" == words(known, occurrence(What.SKIPPED, 60))
    assert None is words(known, occurrence(What.SKIPPED, 120))


def test_occurrences_that_were_skipped_together_are_counted_as_far_as_they_were_backfilled() -> None:
    skipped = occurrence(What.SKIPPED, first_ms=60, last_ms=180, count=3)
    parts = [occurrence(What.ENQUEUED, ms, why=BACKFILL, run=run(f"a-{ms}")) for ms in (60, 120, 180, 240)]

    found = [replacements(*parts[:number]).of(skipped) for number in range(1, 5)]

    assert ["1 of 3", "2 of 3", "3 of 3", "3 of 3"] == [one and one.words.removesuffix(" backfilled") for one in found]
    assert [False, False, True, True] == [one and one.is_whole for one in found]


def test_a_failed_run_is_shown_with_the_state_of_its_last_retry() -> None:
    first = occurrence(What.RETRIED, why="a-1", run=run("a-1-r1", RunStatus.FAILED))
    second = occurrence(What.RETRIED, why="a-1-r1", run=run("a-1-r2", RunStatus.QUEUED))
    failed = occurrence(What.FIRED, 1, run=run("a-1", RunStatus.FAILED))

    assert "retried: failed" == words(replacements(first), failed)
    assert "retried: queued" == words(replacements(second, first), failed)


def test_a_run_on_request_is_in_place_of_no_occurrence() -> None:
    known = replacements(occurrence(What.ENQUEUED, 60, why=RUN_NOW, run=run("a-60")))

    assert None is words(known, occurrence(What.SKIPPED, 60))
