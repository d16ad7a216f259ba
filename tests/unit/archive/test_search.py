"""Lookbacks in an archive: the newest occurrences with their runs, and runs by status."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import entries
from tests.builders.entries import SECOND_US, T_US, TWINS, at, enqueue, entry, fire, put
from tests.builders.records import DUE_MS, one_shot, open_run
from tests.unit.archive.contents import SteppingClock, archived
from zsched.archive import Archive, History
from zsched.archive.search import Search, SearchPart
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry
from zsched.core.facets import Facets
from zsched.core.occurrences.changes import Change, Wanted, kept
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.runs.run import Run, RunStatus

ALL = frozenset(RunStatus)
FIRED = Wanted(frozenset([What.FIRED]), frozenset(), 2)
FAILED = Wanted(frozenset(), frozenset([RunStatus.FAILED]), 2)
MAIL = Facets(queue="mail")


def run(id: str) -> str:
    return f"{id}-{DUE_MS}"


def end(seq: int, status: RunStatus, *ids: str, fired_seq: int = 0, was: RunStatus | None = None) -> Entry:
    """Return the entry of ended runs, all of which were pushed by one entry."""
    fired_us = T_US + fired_seq * SECOND_US if fired_seq else None
    return entries.end(seq, *(Run(run(id), status, fired_us, was=was) for id in ids))


def look(path: Path, wanted: Wanted, clock: ManualClock | None = None) -> tuple[list[Change], int | None]:
    with History(path) as history:
        part = Search(history, wanted, clock or SteppingClock(0)).next_part()
        return part.occurrences, part.reached_us


def all_parts(path: Path, wanted: Wanted, clock: ManualClock | None = None) -> list[SearchPart]:
    """Return all parts of a search, each of which may be of another reader."""
    parts = [SearchPart([], "", None)]
    while (cursor := parts[-1].after) is not None:
        with History(path) as history:
            parts.append(
                Search(history, wanted, clock or SteppingClock(0)).next_part(cursor if len(parts) > 1 else None)
            )
    return parts[1:]


def told(found: list[Change]) -> list[tuple[str, str, str | None]]:
    return [(one.id, one.what.value, one.run.status.value if one.run else None) for one in found]


def test_the_newest_occurrences_come_first(path: Path) -> None:
    archived(path, [put(1, "a", "b", "c"), fire(2, run("a"), run("b")), fire(3, run("c"))])

    both, _ = look(path, Wanted(frozenset(OUTCOMES), frozenset(), 2))
    of_a, looked_back_to = look(path, Wanted(FIRED.whats, frozenset(), 2, "a"))

    assert [("c", "fired", "queued"), ("b", "fired", "queued")] == told(both)
    assert ([("a", "fired", "queued")], None) == (told(of_a), looked_back_to)


@pytest.mark.parametrize("last", [RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.LOST])
@pytest.mark.parametrize("first", [RunStatus.FAILED, RunStatus.LOST, RunStatus.EXPIRED, RunStatus.SUCCEEDED])
def test_the_last_end_of_a_requeued_run_counts_in_every_search(path: Path, first: RunStatus, last: RunStatus) -> None:
    between = [put(seq, f"s{seq}") for seq in range(5, 300)]
    middle = end(4, RunStatus.FAILED, "a", fired_seq=2, was=first)
    ends = [
        end(3, first, "a", "b", fired_seq=2),
        middle,
        *between,
        end(300, last, "a", fired_seq=2, was=RunStatus.FAILED),
    ]
    archived(path, [put(1, "a", "b"), fire(2, run("a"), run("b")), *ends])

    for status in RunStatus:
        found, _ = look(path, Wanted(frozenset(), frozenset([status]), 10))
        assert (last is status) == (run("a") in [one.run_id for one in found])
        assert (first is status) == (run("b") in [one.run_id for one in found])
    fired, _ = look(path, Wanted(FIRED.whats, frozenset(), 10))
    assert {("a", "fired", last.value), ("b", "fired", first.value)} == set(told(fired))


def test_an_occurrence_has_its_run_although_many_changes_lie_between(path: Path) -> None:
    between = [put(seq, f"s{seq}") for seq in range(2, 50)]
    archived(path, [fire(1, run("a"), run("b")), *between, end(50, RunStatus.FAILED, "a", fired_seq=1)])

    found, _ = look(path, FIRED)

    assert [("b", "fired", "queued"), ("a", "fired", "failed")] == told(found)


@pytest.mark.parametrize("wanted", [FIRED, replace(FIRED, id="a"), FAILED, replace(FAILED, facets=MAIL)])
def test_a_search_out_of_time_continues_from_its_cursor(
    path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Wanted
) -> None:
    pushes = [put(1, "a", "b"), fire(2, run("a")), fire(3, run("b"))]
    others = [enqueue(seq, run("a")) for seq in range(4, 40)]
    later = [put(seq, "c") for seq in range(41, 80)]
    archived(path, [*pushes, *others, end(40, RunStatus.FAILED, "a", fired_seq=2), *later])
    monkeypatch.setattr("zsched.archive.search._WINDOW", 2)

    parts = all_parts(path, replace(wanted, limit=100), SteppingClock(100))
    [whole] = all_parts(path, replace(wanted, limit=100))

    assert 1 < len(parts) or wanted.words is not None
    assert [one for part in parts for one in part.occurrences] == whole.occurrences != []
    assert parts[-1].after is None


@pytest.mark.parametrize("entries", [[], [put(seq, "a") for seq in range(1, 9)]], ids=["empty", "without runs"])
def test_a_complete_search_without_hits_does_not_count_as_given_up(path: Path, entries: list[Entry]) -> None:
    archived(path, entries)

    assert [([], None)] * 2 == [look(path, wanted) for wanted in (FIRED, FAILED)]


def test_runs_are_returned_once_with_their_end(path: Path) -> None:
    again = entry(4, "again", "rows", 1, run("b"), "2", "", "its worker died")
    fired = fire(1, run("a"), run("b"), run("c"))
    archived(path, [fired, end(2, RunStatus.SUCCEEDED, "a"), end(3, RunStatus.LOST, "c"), again])

    found, _ = look(path, Wanted(frozenset(), ALL, 5))

    assert [("c", "fired", "lost"), ("b", "fired", "queued"), ("a", "fired", "succeeded")] == told(found)
    assert [1, 2, 1] == [one.run.attempt for one in found if one.run]


def test_runs_that_failed_are_ordered_by_their_ends_newest_first(path: Path) -> None:
    archived(
        path,
        [
            fire(1, run("a"), run("b")),
            enqueue(2, run("c")),
            end(3, RunStatus.FAILED, "c", fired_seq=2),
            end(4, RunStatus.SUCCEEDED, "b", fired_seq=1),
            end(5, RunStatus.FAILED, "a", fired_seq=1),
        ],
    )

    found, looked_back_to = look(path, Wanted(frozenset(), frozenset([RunStatus.FAILED]), 5))

    assert ([("a", "fired", "failed"), ("c", "enqueued", "failed")], None) == (told(found), looked_back_to)
    assert [DUE_MS, "1-1"] == [found[0].nominal_ms, found[0].entry]


def test_a_run_whose_push_was_pruned_is_found_by_its_end(path: Path) -> None:
    archived(path, [put(1, "x"), end(2, RunStatus.FAILED, "a", fired_seq=1), end(3, RunStatus.FAILED, "b")])

    found, _ = look(path, FAILED)

    assert [("b", "run_ended", "failed"), ("a", "run_ended", "failed")] == told(found)


def test_a_search_for_succeeded_runs_also_returns_open_runs(path: Path) -> None:
    wanted = Wanted(frozenset(), frozenset([RunStatus.SUCCEEDED]), 1)
    archived(path, [fire(1, run("a"), run("b")), end(2, RunStatus.SUCCEEDED, "a", fired_seq=1), enqueue(3, run("c"))])

    found, _ = look(path, wanted)

    assert [("c", "enqueued", "queued"), ("b", "fired", "queued"), ("a", "fired", "succeeded")] == told(found)
    assert ["a"] == [one.id for one in kept(found, wanted)]


def test_the_last_ended_of_many_runs_of_a_status_are_found(path: Path) -> None:
    pushes = fire(1, *(run(f"s{number}") for number in range(10)))
    ends = [end(2 + number, RunStatus.FAILED, f"s{number}", fired_seq=1) for number in range(10)]
    archived(path, [pushes, *ends])

    found, _ = look(path, FAILED)

    assert ["s9", "s8"] == [one.id for one in found]


def test_a_search_for_one_schedule_finds_no_runs_of_others(path: Path) -> None:
    one, other = TWINS
    archived(path, [fire(1, run(one), run(other)), end(2, RunStatus.FAILED, one, other, fired_seq=1)])

    for status in (ALL, FAILED.statuses):
        found, _ = look(path, Wanted(frozenset(), status, 5, one))
        assert [(one, "fired", "failed")] == told(found)


def test_a_run_that_a_bootstrap_found_is_listed(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([put(5, "a")])
        archive.scan([one_shot(id="a"), open_run(id="b")], at(5))
        archive.append([end(6, RunStatus.CANCELLED, "b", fired_seq=5)])
        archive.end_bootstrap(str(T_US))

    for statuses in (ALL, frozenset([RunStatus.CANCELLED])):
        found, _ = look(path, Wanted(frozenset(), statuses, 5))
        assert [("b", "found", "cancelled")] == told(found)
