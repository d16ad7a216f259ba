"""Occurrences and runs: each run once and with its end, in whatever order things happened; and their texts."""

from dataclasses import replace

import pytest

from tests.builders.entries import end_fields
from zsched.core.entry import Entry
from zsched.core.facets import Facets
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change, Wanted, runs_of
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.runs.run import OPEN, Run, RunStatus, facts_text

T_US = 1_800_000_000_000_000
NONE: frozenset[What] = frozenset()
Told = tuple[str, RunStatus, int]  # run id, status, attempt


def change(what: What, run: str = "", at: int = 0, **more: object) -> Change:
    """Return a change of the schedule that the run belongs to."""
    return Change(run.partition("-")[0] or "a", what, T_US + at, f"1-{at}", run_id=run or None, **more)  # type: ignore[arg-type]


def end(run: str, status: RunStatus, at: int = 0, fired: int | None = None) -> Change:
    facts = facts_text(Run(run, status, None if fired is None else T_US + fired, error="no"))
    return change(What.RUN_ENDED, run, at, why=status.value, record=facts)


def told(*history: Change) -> list[Told]:
    """Return the runs in *history*, which is in order."""
    return [(run.id, run.status, run.attempt) for run in runs_of(history)]


def test_runs_are_in_the_order_of_their_newest_pushes() -> None:
    pushes = [change(What.FIRED, "a-1", 1), change(What.FIRED, "a-2", 2), change(What.FOUND, "a-1", 3, why="open")]

    runs = told(*pushes, end("a-2", RunStatus.FAILED, 4, fired=2))

    assert [("a-1", RunStatus.QUEUED, 1), ("a-2", RunStatus.FAILED, 1)] == runs


def test_the_last_end_of_a_run_counts_until_it_is_pushed_again() -> None:
    ends = [end("a-1", RunStatus.LOST, 2, fired=1), end("a-1", RunStatus.SUCCEEDED, 3, fired=1)]

    assert [("a-1", RunStatus.SUCCEEDED, 1)] == told(change(What.FIRED, "a-1", 1), *ends) == told(*ends)
    assert [("a-1", RunStatus.QUEUED, 1)] == told(*ends, change(What.PUSHED_AGAIN, "a-1", 4))


def test_a_run_of_a_dead_worker_has_its_next_attempt_until_its_end() -> None:
    again = change(What.RUN_AGAIN, "a-1", 2, count=3)

    assert [("a-1", RunStatus.QUEUED, 3)] == told(change(What.FIRED, "a-1", 1), again)
    assert [("a-1", RunStatus.FAILED, 1)] == told(change(What.FIRED, "a-1", 1), end("a-1", RunStatus.FAILED), again)
    assert [] == told(again)


def test_a_run_that_a_recovery_skipped_is_not_a_run() -> None:
    skipped = change(What.SKIPPED, "a-1", 3, why="uncertain")

    assert [] == told(change(What.FIRED, "a-1", 1), skipped)
    assert [("a-1", RunStatus.QUEUED, 1)] == told(skipped, change(What.FIRED, "a-1", 4))


def test_an_end_without_its_push_is_ordered_by_its_push_time() -> None:
    history = [end("a-2", RunStatus.FAILED, 8, fired=1), end("a-1", RunStatus.FAILED, 9, fired=2)]

    assert ["a-3", "a-1", "a-2"] == [run for run, *_ in told(*history, change(What.FIRED, "a-3", 10))]


@pytest.mark.parametrize("record", ["", "{", "[]", '{"fired": "x"}', "[" * 100_000])
def test_an_unreadable_end_still_ends_its_run(record: str) -> None:
    unreadable = change(What.RUN_ENDED, "a-1", 5, why="failed", record=record)

    [run] = runs_of([change(What.FIRED, "a-1", 1), unreadable])

    assert (RunStatus.FAILED, T_US + 1) == (run.status, run.fired_us)
    assert "cannot be read" in run.error


def test_an_occurrence_survives_conversion_to_json_and_back() -> None:
    run = Run("a-1", RunStatus.FAILED, T_US, error="two\nlines \u2028 é", note={"a b": ["c d"]})
    for one in (replace(change(What.FIRED, "a-1"), run=run), change(What.SKIPPED, why="overlap")):
        assert one == Change.of_dict(one.to_dict())


def test_an_occurrence_is_shown_with_its_run_or_without_any() -> None:
    alone, run = change(What.FIRED, "a-1"), Run("a-1", RunStatus.FAILED, T_US)

    assert run.to_dict() == replace(alone, run=run).shown_occurrence()["run"]
    unknown = {"func": None, "queue": None, "owner": None, "name": None, "tags": [], "cursor": "", "run": None}
    assert alone.shown_occurrence() == alone.shown() | unknown


def test_a_question_survives_conversion_to_text_and_back() -> None:
    facets = Facets("app.task", "email", "ann", ("one", "two"))
    queries = [
        Wanted(frozenset(OUTCOMES), frozenset(), 7, "a"),
        Wanted(NONE, OPEN, 1, match="a*", facets=facets, since_us=T_US, until_us=T_US + 1),
    ]
    for wanted in queries:
        assert wanted == Wanted.of_dict(wanted.to_dict())


def test_only_the_ends_of_one_status_are_read_from_an_entry() -> None:
    failure = Run("a-2", RunStatus.FAILED)
    rows = end_fields(Run("a-1", RunStatus.SUCCEEDED, error="failed{"), failure, Run("failed", RunStatus.LOST))
    entry = Entry.of(b"1-1", [b"kind", b"end", b"t", b"7", *rows])

    failed, expired = (EndEntry(entry).only_ends([status]) for status in (RunStatus.FAILED, RunStatus.EXPIRED))

    assert end_fields(failure) == list(failed.body)
    assert expired is None
