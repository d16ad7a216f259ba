"""Lookbacks: the newest occurrences and runs, each run once and with its end, in whatever order things happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.log_rows import end_fields
from zsched.core.changes import Change
from zsched.core.facets import Facets
from zsched.core.log import Entry
from zsched.core.log.lives import EndEntry
from zsched.core.lookback import MOST_OPEN, Lookback, Occurrence, Wanted, is_push, kept
from zsched.core.outcomes import OUTCOMES, What
from zsched.core.runs import OPEN, OVER, Run, RunStatus, ended_run, facts_text

T_US = 1_800_000_000_000_000
ALL = frozenset(RunStatus)
NONE: frozenset[What] = frozenset()
STATUSES = {status.value: status for status in OVER}
Told = tuple[str, RunStatus, int]  # run id, status, attempt


def change(what: What, run: str = "", at: int = 0, **more: object) -> Change:
    """Return a change of the schedule that the run belongs to."""
    return Change(run.partition("-")[0] or "a", what, T_US + at, f"1-{at}", run_id=run or None, **more)  # type: ignore[arg-type]


def end(run: str, status: RunStatus, at: int = 0, fired: int | None = None) -> Change:
    facts = facts_text(Run(run, status, None if fired is None else T_US + fired, error="no"))
    return change(What.RUN_ENDED, run, at, why=status.value, record=facts)


def look(history: Sequence[Sequence[Change]], wanted: Wanted) -> list[Occurrence]:
    """Return the occurrences found in the entries *history*, which are in order."""
    lookback = Lookback(wanted)
    any(lookback.see(entry) for entry in reversed(history))
    return lookback.found()


def told(found: Iterable[Occurrence]) -> list[Told]:
    return [(one.run.id, one.run.status, one.run.attempt) for one in found if one.run is not None]


def naive(history: Sequence[Sequence[Change]]) -> list[Told]:
    """Return the runs of *history*, read forwards: the last pushed first, then those of which only the end is known."""
    runs: dict[str, Told] = {}
    order: dict[str, tuple[int, int]] = {}  # also of what a recovery skipped: an end may follow
    for number, one in enumerate(change for entry in history for change in entry):
        run = one.run_id or ""
        if is_push(one):
            runs[run], order[run] = (run, RunStatus.QUEUED, 1), (1, number)
        elif one.what is What.SKIPPED and run in runs and runs[run][1] is RunStatus.QUEUED:
            del runs[run]  # by a recovery: it was not pushed again
        elif one.what is What.RUN_AGAIN and run in runs:
            if runs[run][1] is RunStatus.QUEUED:
                runs[run] = (run, RunStatus.QUEUED, one.count)
        elif one.what is What.RUN_ENDED:
            ended = ended_run(run, one.why, one.record, 0)
            runs[run] = (run, ended.status, ended.attempt)
            if order.get(run, (0, 0))[0] == 0:  # its push is not there
                order[run] = (0, ended.fired_us or 0)
    return [runs[run] for run in sorted(runs, key=order.__getitem__, reverse=True)]


@some.composite
def histories(draw: some.DrawFn) -> list[list[Change]]:
    """Pushes, restored pushes, further attempts and ends of a few runs in any order, several in an entry."""
    number = 0
    history: list[list[Change]] = []
    for size in draw(some.lists(some.integers(1, 3), max_size=12)):
        entry = []
        for run in draw(some.lists(some.sampled_from(["a-1", "a-2", "b-1", "b-2"]), max_size=size, unique=True)):
            number += 1
            kind = draw(some.sampled_from([*What, *[What.FIRED, What.RUN_ENDED] * 5]))
            if kind is What.RUN_ENDED:
                entry.append(end(run, draw(some.sampled_from(sorted(STATUSES.values(), key=str))), number, number))
            elif kind is What.RUN_AGAIN:
                entry.append(change(kind, run, number, count=number + 1))
            else:
                entry.append(change(kind, run, number, why=draw(some.sampled_from(["", "open"]))))
        history.append(entry)
    return history


@given(histories())
def test_a_lookback_finds_the_same_runs_as_reading_forwards(history: list[list[Change]]) -> None:
    backwards = look(history, Wanted(NONE, ALL, 1000))

    assert naive(history) == told(backwards)


@given(histories(), some.sampled_from(sorted(OVER, key=str)), some.sampled_from([None, "a"]))
def test_a_search_for_a_status_finds_runs_with_that_status_and_open_runs(
    history: list[list[Change]], status: RunStatus, id: str | None
) -> None:
    wanted = Wanted(NONE, frozenset([status]), 1000, id)
    mine = [run for run in naive(history) if id in (None, run[0].partition("-")[0])]

    found = look(history, wanted)

    assert [run for run in mine if run[1] in (status, RunStatus.QUEUED)] == told(found)
    assert [run for run in mine if run[1] is status] == told(kept(found, wanted))


@given(histories(), some.integers(1, 4))
def test_a_lookback_returns_at_most_the_wanted_number(history: list[list[Change]], limit: int) -> None:
    found = told(look(history, Wanted(NONE, ALL, limit)))

    assert naive(history)[:limit] == found[:limit] or len(found) == limit
    assert len(found) <= limit


@given(histories(), some.integers(1, 5))
def test_a_lookback_returns_all_occurrences_with_the_runs_of_pushed(history: list[list[Change]], limit: int) -> None:
    states = {run: (status, attempt) for run, status, attempt in naive(history)}
    flat = [one for entry in history for one in entry if one.what in OUTCOMES]

    found = look(history, Wanted(frozenset(OUTCOMES), frozenset(), limit))

    assert [one.entry for one in reversed(flat)][:limit] == [one.entry for one in found]
    assert all((one.run is not None) == (is_push(one) and one.run_id in states) for one in found)
    assert all(states[run] == (status, attempt) for run, status, attempt in told(found))


def test_a_run_that_a_recovery_skipped_is_not_listed_as_a_run() -> None:
    history = [
        [change(What.FIRED, "a-1", 1)],
        [change(What.FIRED, "b-2", 2)],
        [change(What.SKIPPED, "a-1", 3, why="uncertain"), change(What.PUSHED_AGAIN, "b-2", 3, why="uncertain")],
    ]

    runs = look(history, Wanted(NONE, ALL, 5))
    lost = look(history, Wanted(NONE, frozenset([RunStatus.LOST]), 5))
    occurrences = look(history, Wanted(frozenset([What.FIRED, What.SKIPPED]), NONE, 5))

    assert ["b-2"] == [run for run, *_ in told(runs)] == [run for run, *_ in told(lost)]
    assert [("a-1", What.SKIPPED, None), ("b-2", What.FIRED, "b-2"), ("a-1", What.FIRED, None)] == [
        (one.run_id, one.what, one.run and one.run.id) for one in occurrences
    ]


def test_a_search_for_cancelled_finds_occurrences_and_runs() -> None:
    history = [
        [change(What.FIRED, "a-1", 1)],
        [change(What.CANCELLED, "", 2)],
        [end("a-1", RunStatus.CANCELLED, 3), end("b-1", RunStatus.FAILED, 3)],
    ]

    found = look(history, Wanted(frozenset([What.CANCELLED]), frozenset([RunStatus.CANCELLED]), 5))

    statuses = [(one.what, one.run and one.run.status) for one in found]
    assert [(What.CANCELLED, None), (What.FIRED, RunStatus.CANCELLED)] == statuses


def test_a_search_returns_no_more_open_runs_than_rq_can_be_asked_about() -> None:
    history = [[change(What.FIRED, f"a-{number}", number)] for number in range(MOST_OPEN + 5)]

    running = look(history, Wanted(NONE, frozenset([RunStatus.RUNNING]), 2))
    failed = look([[end("b-1", RunStatus.FAILED)], *history], Wanted(NONE, frozenset([RunStatus.FAILED]), 2))

    assert MOST_OPEN == len(running)
    assert (MOST_OPEN + 1, "b-1") == (len(failed), failed[-1].run_id)


def test_an_end_without_its_push_is_ordered_by_its_push_time() -> None:
    history = [[end("a-1", RunStatus.FAILED, 8, fired=2), end("a-2", RunStatus.FAILED, 9, fired=1)]]
    history += [[change(What.FIRED, "a-3", 10)]]

    assert ["a-3", "a-1", "a-2"] == [run for run, *_ in told(look(history, Wanted(NONE, ALL, 5)))]


@pytest.mark.parametrize("record", ["", "{", "[]", '{"fired": "x"}', "[" * 100_000])
def test_an_unreadable_end_still_ends_its_run(record: str) -> None:
    unreadable = change(What.RUN_ENDED, "a-1", 5, why="failed", record=record)

    [found] = look([[change(What.FIRED, "a-1", 1)], [unreadable]], Wanted(NONE, ALL, 5))

    assert (RunStatus.FAILED, T_US + 1) == (found.run.status, found.run.fired_us)
    assert "cannot be read" in found.run.error


def test_an_occurrence_survives_conversion_to_json_and_back() -> None:
    run = Run("a-1", RunStatus.FAILED, T_US, error="two\nlines \u2028 é", note={"a b": ["c d"]})
    for one in (Occurrence.of(change(What.FIRED, "a-1"), run), Occurrence.of(change(What.SKIPPED, why="overlap"))):
        assert one == Occurrence.of_dict(one.to_dict())


def test_an_occurrence_is_shown_with_its_run_or_without_any() -> None:
    alone, run = Occurrence.of(change(What.FIRED, "a-1")), Run("a-1", RunStatus.FAILED, T_US)

    assert (None, run.to_dict()) == (alone.shown()["run"], alone.with_run(run).shown()["run"])
    assert alone == alone.with_run(run).with_run(None)
    unknown = {"func": None, "queue": None, "owner": None, "name": None, "tags": [], "cursor": "", "run": None}
    assert alone.shown() == change(What.FIRED, "a-1").shown() | unknown


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
