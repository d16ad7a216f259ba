"""Lookbacks in an archive: the newest occurrences with their runs, and runs by status."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.log_rows import end_fields
from tests.unit.archive.ground import DUE_MS, SECOND_US, T_US, archived, at, enqueue, entry, fire, held, put, rows
from zsched.archive import Archive, History
from zsched.archive.runs import Runs
from zsched.core.changes import OUTCOMES, What
from zsched.core.clock import ManualClock
from zsched.core.log import Entry
from zsched.core.lookback import Occurrence, Wanted, kept
from zsched.core.runs import Run, RunStatus

ALL = frozenset(RunStatus)
FIRED = Wanted(frozenset([What.FIRED]), frozenset(), 2)
FAILED = Wanted(frozenset(), frozenset([RunStatus.FAILED]), 2)
TWINS = ("plumless", "buckeroo")  # of one CRC-32


def run(id: str) -> str:
    return f"{id}-{DUE_MS}"


def end(seq: int, status: RunStatus, *ids: str, fired_seq: int = 0) -> Entry:
    """Return the entry of ended runs, all of which were pushed by one entry."""
    runs = [Run(run(id), status, T_US + fired_seq * SECOND_US if fired_seq else None) for id in ids]
    return entry(seq, "end", *end_fields(*runs))


def look(path: Path, wanted: Wanted, clock: ManualClock | None = None) -> tuple[list[Occurrence], int | None]:
    with History(path) as history:
        return Runs(history, clock).look(wanted)


def told(found: list[Occurrence]) -> list[tuple[str, str, str | None]]:
    return [(one.id, one.what.value, one.run.status.value if one.run else None) for one in found]


# -- occurrences --------------------------------------------------------------------------------------


def test_the_newest_occurrences_come_first(path: Path) -> None:
    archived(path, [put(1, "a", "b", "c"), fire(2, run("a"), run("b")), fire(3, run("c"))])

    both, _ = look(path, Wanted(frozenset(OUTCOMES), frozenset(), 2))
    of_a, looked_back_to = look(path, Wanted(FIRED.whats, frozenset(), 2, "a"))

    assert [("c", "fired", "queued"), ("b", "fired", "queued")] == told(both)
    assert ([("a", "fired", "queued")], None) == (told(of_a), looked_back_to)


def test_an_occurrence_has_its_run_although_many_changes_lie_between(path: Path) -> None:
    between = [put(seq, f"s{seq}") for seq in range(2, 50)]
    archived(path, [fire(1, run("a"), run("b")), *between, end(50, RunStatus.FAILED, "a", fired_seq=1)])

    found, _ = look(path, FIRED)

    assert [("b", "fired", "queued"), ("a", "fired", "failed")] == told(found)


@pytest.mark.parametrize("id", [None, "a"])
def test_a_search_that_gives_up_says_how_far_it_looked(
    path: Path, monkeypatch: pytest.MonkeyPatch, id: str | None
) -> None:
    skipped = [entry(seq, "pause", "note", "", "rows", 1, "a", f"low {DUE_MS}") for seq in (8, 9)]
    archived(path, [fire(1, run("a")), *(enqueue(seq, run("a")) for seq in range(2, 8)), *skipped])
    monkeypatch.setattr("zsched.archive.runs._LOOKED_AT", 4)

    assert ([], T_US + 4 * SECOND_US) == look(path, Wanted(FIRED.whats, frozenset(), 2, id))


@pytest.mark.parametrize("wanted", [FIRED, Wanted(FIRED.whats, frozenset(), 2, "a"), FAILED])
def test_a_search_that_runs_out_of_time_says_how_far_it_looked(
    path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Wanted
) -> None:
    class Hurried(ManualClock):
        def monotonic_ms(self) -> float:
            self.advance(100)
            return super().monotonic_ms()

    quick = [put(seq, "a") for seq in range(2, 40)]
    archived(path, [fire(1, run("a")), *quick, end(40, RunStatus.SUCCEEDED, "a")])
    monkeypatch.setattr("zsched.archive.runs._WINDOW", 2)

    found, looked_back_to = look(path, wanted, Hurried())

    assert [] == found
    assert looked_back_to is not None
    assert T_US + SECOND_US < looked_back_to < T_US + 40 * SECOND_US


def test_a_complete_search_does_not_count_as_given_up(path: Path) -> None:
    archived(path, [put(seq, "a") for seq in range(1, 9)])

    assert [([], None)] * 2 == [look(path, wanted) for wanted in (FIRED, FAILED)]


def test_an_empty_archive_has_no_runs(path: Path) -> None:
    Archive(path, "default").close()

    assert [([], None)] * 2 == [look(path, wanted) for wanted in (FIRED, FAILED)]


# -- runs ---------------------------------------------------------------------------------------------


def test_runs_are_returned_once_with_their_end(path: Path) -> None:
    again = entry(4, "again", "rows", 1, run("b"), "2", "", "its worker died")
    fired = fire(1, run("a"), run("b"), run("c"))
    archived(path, [fired, end(2, RunStatus.SUCCEEDED, "a"), end(3, RunStatus.LOST, "c"), again])

    found, _ = look(path, Wanted(frozenset(), ALL, 5))

    assert [("c", "fired", "lost"), ("b", "fired", "queued"), ("a", "fired", "succeeded")] == told(found)
    assert [1, 2, 1] == [one.run.attempt for one in found if one.run]


def test_runs_of_one_status_are_ordered_by_their_pushes_newest_first(path: Path) -> None:
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

    assert ([("c", "enqueued", "failed"), ("a", "fired", "failed")], None) == (told(found), looked_back_to)
    assert [DUE_MS, "1-1"] == [found[1].nominal_ms, found[1].entry]


def test_a_run_whose_push_was_pruned_is_found_by_its_end(path: Path) -> None:
    archived(path, [put(1, "x"), end(2, RunStatus.FAILED, "a", fired_seq=1), end(3, RunStatus.FAILED, "b")])

    found, _ = look(path, FAILED)

    assert [("a", "run_ended", "failed"), ("b", "run_ended", "failed")] == told(found)


def test_a_search_by_status_also_returns_the_newest_open_runs(path: Path) -> None:
    archived(
        path,
        [fire(1, run("a"), run("b")), end(2, RunStatus.FAILED, "a", fired_seq=1), enqueue(3, run("c"))],
    )

    found, _ = look(path, FAILED)

    assert [("c", "enqueued", "queued"), ("b", "fired", "queued"), ("a", "fired", "failed")] == sorted(
        told(found), reverse=True
    )
    assert "c" == found[0].id
    assert ["a"] == [one.id for one in kept(found, FAILED)]


def test_the_last_ended_of_many_runs_of_a_status_are_found(path: Path) -> None:
    pushes = fire(1, *(run(f"s{number}") for number in range(10)))
    ends = [end(2 + number, RunStatus.FAILED, f"s{number}", fired_seq=1) for number in range(10)]
    archived(path, [pushes, *ends])

    found, looked_back_to = look(path, FAILED)

    assert ({"s8", "s9"}, None) == ({one.id for one in found}, looked_back_to)


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
        archive.scan([held("a"), held("b", "open")], at(5))
        archive.append([end(6, RunStatus.CANCELLED, "b", fired_seq=5)])
        archive.end_bootstrap(str(T_US))

    for statuses in (ALL, frozenset([RunStatus.CANCELLED])):
        found, _ = look(path, Wanted(frozenset(), statuses, 5))
        assert [("b", "found", "cancelled")] == told(found)


def test_a_search_for_ends_uses_the_index_of_ends(path: Path) -> None:
    archived(path, [end(1, RunStatus.FAILED, "a")])

    [plan] = rows(path, "EXPLAIN QUERY PLAN SELECT n FROM entry WHERE kind = 'end' AND n < 9 ORDER BY n DESC")

    assert "entry_end" in plan[3]
