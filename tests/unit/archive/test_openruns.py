"""Which runs are open, the oldest first, and the rest in turn; and the index that makes it quick, also in old files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.archive.ground import DUE_MS, archived, at, enqueue, entry, fire, held, put, put_recurring, rows
from zsched.archive import START, Archive
from zsched.archive.openruns import _SELECT, OpenRuns, Place, open_runs
from zsched.archive.schema import VERSION
from zsched.errors import ArchiveCorrupt

ALL = 100


def place(number: int) -> Place:
    return DUE_MS + number, f"s{number}", str(DUE_MS + number)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten runs, of schedules s9 to s0, the last put first; and one that waits."""
    puts = [put(10 - number, f"s{number}", due_ms=DUE_MS + number) for number in range(9, -1, -1)]
    fired = fire(12, *(f"s{number}-{DUE_MS + number}" for number in range(10)))
    return archived(tmp_path / "archive.db", [*sorted(puts), put(11, "waits"), fired])


def test_the_oldest_come_first_and_with_them_what_the_state_had_in_it(path: Path) -> None:
    assert OpenRuns(at(12), [place(0), place(1), place(2)], [place(3), place(4)]) == open_runs(path, 3, 2)


def test_the_rest_comes_in_turn_and_the_oldest_not_twice(path: Path) -> None:
    assert [place(6), place(7)] == open_runs(path, 3, 2, place(5)).behind
    assert [place(9)] == open_runs(path, 3, 2, place(8)).behind
    assert [] == open_runs(path, 3, 2, place(9)).behind
    assert [place(3), place(4)] == open_runs(path, 3, 2, place(1)).behind


def test_where_there_are_no_more_than_the_oldest_nothing_is_behind_them(path: Path) -> None:
    assert (10, []) == (len(open_runs(path, 11, 2).oldest), open_runs(path, 11, 2).behind)
    assert (10, []) == (len(open_runs(path, 10, 2).oldest), open_runs(path, 10, 2).behind)


def test_runs_of_one_time_are_told_apart(tmp_path: Path) -> None:
    ids = ["a", "b", "c", "d"]
    path = archived(tmp_path / "archive.db", [put(1, *ids), fire(2, *(f"{id}-{DUE_MS}" for id in ids))])

    found = open_runs(path, 1, 2, (DUE_MS, "b", str(DUE_MS)))

    assert (["a"], ["c", "d"]) == ([id for _, id, _ in found.oldest], [id for _, id, _ in found.behind])


def test_a_rule_has_a_run_beside_it_and_what_was_asked_for_is_one(tmp_path: Path) -> None:
    row = f"r fired {DUE_MS} {DUE_MS + 1} {DUE_MS + 1} - - 0 -"
    entries = [put_recurring(1, "r"), entry(2, "advance", "rows", row), enqueue(3, f"now-{DUE_MS + 5}")]

    found = open_runs(archived(tmp_path / "archive.db", entries), ALL, ALL)

    assert [(DUE_MS, "r", str(DUE_MS)), (DUE_MS + 5, "now", str(DUE_MS + 5))] == found.oldest


def test_a_run_that_ended_is_open_no_more(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.append([entry(13, "end", "rows", f"s0-{DUE_MS} finished - -\ns2-{DUE_MS + 2} gone - -")])
        archive.commit()

    found = open_runs(path, ALL, ALL)

    assert (at(13), [place(number) for number in (1, *range(3, 10))]) == (found.as_of, found.oldest)


def test_what_an_unfinished_bootstrap_found_does_not_count_yet(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.scan([held("x", "open")], at(20))
        archive.commit()
        assert 10 == len(open_runs(path, ALL, ALL).oldest)

        archive.append([put(21, "y")])
        archive.end_bootstrap(START)
        assert ["x"] == [id for _, id, _ in open_runs(path, ALL, ALL).oldest]


def test_an_archive_that_knows_nothing_has_none(tmp_path: Path) -> None:
    assert OpenRuns(None, [], []) == open_runs(archived(tmp_path / "archive.db", []), ALL, ALL)


def test_what_is_no_archive_is_said_to_be_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)

    with pytest.raises(ArchiveCorrupt):
        open_runs(path, ALL, ALL)


# -- the index ------------------------------------------------------------------------------------


def test_nothing_but_the_index_is_read(path: Path) -> None:
    [(*_, plan)] = rows(path, f"EXPLAIN QUERY PLAN {_SELECT.replace('?', '1')}")

    assert "USING COVERING INDEX live_open" in plan


def test_a_file_of_version_1_gets_the_index_and_keeps_what_is_in_it(path: Path) -> None:
    before = rows(path, "SELECT * FROM live ORDER BY id")
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP INDEX live_open; PRAGMA user_version = 1;")

    with closing(Archive(path, "default")) as archive:
        assert at(12) == archive.position

    assert (before, [(VERSION,)]) == (rows(path, "SELECT * FROM live ORDER BY id"), rows(path, "PRAGMA user_version"))
    assert [place(number) for number in range(10)] == open_runs(path, ALL, ALL).oldest
