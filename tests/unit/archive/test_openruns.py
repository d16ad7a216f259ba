"""Which runs are open: what was pushed, read from the history in order; and the state, looked through part by part."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.archive.ground import DUE_MS, archived, at, enqueue, entry, fire, held, put, put_recurring
from zsched.archive import START, Archive
from zsched.archive.openruns import OpenRuns, Run
from zsched.errors import ArchiveCorrupt

ALL = 100
OPEN = [("s0", str(DUE_MS)), ("s1", str(DUE_MS)), ("s2", str(DUE_MS)), ("s3", str(DUE_MS)), ("s4", str(DUE_MS))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Five runs of one-shots in three entries, and between them one that waits; entries 1 to 5."""
    puts = [put(1, "s0", "s1", "s2", "s3", "s4"), put(2, "s1-waits")]
    fires = [fire(3, f"s4-{DUE_MS}", f"s3-{DUE_MS}"), fire(4, f"s2-{DUE_MS}"), fire(5, f"s0-{DUE_MS}", f"s1-{DUE_MS}")]
    return archived(tmp_path / "archive.db", [*puts, *fires])


def around(path: Path, looked_at: int, limit: int = ALL) -> list[list[Run]]:
    """A round through the state, part by part."""
    after: Run | None = None
    parts = []
    with OpenRuns(path) as runs:
        while True:
            found, after = runs.open_among(after, looked_at, limit)
            parts.append(found)
            if after is None:
                return parts


# -- what was pushed ------------------------------------------------------------------------------


def test_what_was_pushed_comes_in_order_and_entry_by_entry(path: Path) -> None:
    names = []
    with OpenRuns(path) as runs:
        n = 0
        while n < runs.last_n:
            found, n = runs.pushed_behind(n, 1, ALL)
            names.append([id for id, _ in found])

    assert [["s4", "s3"], ["s2"], ["s0", "s1"]] == names


def test_no_more_entries_are_looked_at_than_asked_for(path: Path) -> None:
    with OpenRuns(path) as runs:
        assert ([], 2) == runs.pushed_behind(0, ALL, 2)
        assert 2 == len(runs.pushed_behind(2, ALL, 1)[0])
        assert 3 == runs.pushed_behind(2, ALL, 1)[1]
        assert ([], 5) == runs.pushed_behind(5, ALL, ALL)


def test_every_kind_of_entry_that_pushes_counts_and_no_other_run(tmp_path: Path) -> None:
    rows = [
        f"r fired {DUE_MS} {DUE_MS + 1} {DUE_MS + 1} - - 0 -",
        f"q overlap {DUE_MS} {DUE_MS + 1} {DUE_MS + 1} - - 0 q-1",
    ]
    entries = [
        put_recurring(1, "r"),
        put_recurring(2, "q"),
        entry(3, "advance", "rows", "\n".join(rows)),
        enqueue(4, f"now-{DUE_MS}"),
        put(5, "skipped"),
        entry(6, "fire", "runs", "", "skipped", f"skipped-{DUE_MS}"),
        entry(7, "run_now", "id", "r", "run", f"r-{DUE_MS}-r1", "last", 1),
        entry(8, "end", "rows", f"now-{DUE_MS} finished - -"),
        entry(9, "unheard of", "id", "x"),
    ]
    with OpenRuns(archived(tmp_path / "archive.db", entries)) as runs:
        pushed, n = runs.pushed_behind(0, ALL, ALL)

        assert [("r", str(DUE_MS)), ("now", str(DUE_MS)), ("r", f"{DUE_MS}-r1")] == pushed
        assert (9, 9) == (n, runs.last_n)
        assert [("r", str(DUE_MS)), ("r", f"{DUE_MS}-r1")] == runs.open_of(pushed)


def test_what_a_bootstrap_found_open_counts_as_pushed(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.scan([held("x", "open", run="7"), held("y")], at(20))
        archive.append([put(21, "z")])
        archive.end_bootstrap(START)

    with OpenRuns(path) as runs:
        assert [("x", "7")] == runs.pushed_behind(5, ALL, ALL)[0]


# -- the state ------------------------------------------------------------------------------------


@pytest.mark.parametrize("looked_at", [1, 2, 3, 6, 7, ALL])
def test_a_round_finds_every_open_run_once(path: Path, looked_at: int) -> None:
    parts = around(path, looked_at)

    assert OPEN == [run for part in parts for run in part]
    assert all(len(part) <= looked_at for part in parts)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_part_ends_where_enough_was_found(path: Path, limit: int) -> None:
    parts = around(path, ALL, limit)

    assert OPEN == [run for part in parts for run in part]
    assert all(len(part) <= limit for part in parts)


def test_a_run_that_ended_is_open_no_more(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.append([entry(13, "end", "rows", f"s0-{DUE_MS} finished - -\ns2-{DUE_MS} gone - -")])
        archive.commit()

    with OpenRuns(path) as runs:
        assert (at(13), [OPEN[1], OPEN[3], OPEN[4]]) == (runs.position, runs.open_of(OPEN))
    assert [[OPEN[1], OPEN[3], OPEN[4]]] == around(path, ALL)


def test_while_a_state_is_read_from_redis_there_is_none(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        with OpenRuns(path) as runs:
            before = runs.life
        archive.begin_bootstrap()
        archive.scan([held("x", "open")], at(20))
        archive.commit()
        with OpenRuns(path) as runs:
            assert runs.life is None

        archive.append([put(21, "y")])
        archive.end_bootstrap(START)
        with OpenRuns(path) as runs:
            assert runs.life not in (None, before)
    assert [[("x", str(DUE_MS))]] == around(path, ALL)


def test_an_archive_that_knows_nothing_has_none(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [])

    with OpenRuns(path) as runs:
        assert (None, ([], 0)) == (runs.position, runs.pushed_behind(0, ALL, ALL))
    assert [[]] == around(path, ALL)


def test_what_is_no_archive_is_said_to_be_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)

    with pytest.raises(ArchiveCorrupt), OpenRuns(path):
        pass
