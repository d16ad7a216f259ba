"""Searches of the log for what somebody asked for, a schedule, or a kind of change."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders.entries import SECOND_US, T_US, end, entry, fire, put
from tests.builders.records import DUE_MS
from tests.unit.archive.contents import SteppingClock, archived, prune
from zsched.archive import Archive, History
from zsched.archive.lookups import log_search
from zsched.core.clock import SYSTEM, Clock
from zsched.core.entry import Entry
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import Run, RunStatus


def cancelled(seq: int, id: str, by: str) -> Entry:
    return entry(seq, "cancel", "rows", 1, id, 5, by=by)


def found(path: Path, clock: Clock = SYSTEM, **wanted: Any) -> tuple[list[int], bool]:
    """Return the numbers of the entries, and whether there may be more."""
    given = {"by": None, "id": None, "what": None, "limit": 100} | wanted
    with History(path) as history:
        answer = log_search(history, **given, clock=clock)
    return [one.position.seq for one in answer["entries"]], answer["reached_us"] is not None


@pytest.fixture
def of_ann_and_bob(path: Path) -> Path:
    """An archive in which ann asked for entry 2, bob for 3 and 2,002, among 2,000 fires."""
    fires = [fire(seq, "b-5") for seq in range(4, 2002)]
    told = [put(1, "a", "b"), cancelled(2, "a", "ann"), cancelled(3, "b", "bob"), *fires, cancelled(2002, "c", "bob")]
    return archived(path, told)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [2002, 3, 2]),
        ({"by": "ann"}, [2]),
        ({"by": "bob"}, [2002, 3]),
        ({"by": "nobody"}, []),
        ({"id": "a"}, [2, 1]),
        ({"by": "bob", "id": "b"}, [3]),
        ({"what": What.CANCELLED}, [2002, 3, 2]),
        ({"by": "ann", "what": What.PAUSED}, []),
        ({"what": What.PUT}, [1]),
        ({"what": What.PAUSED}, []),
        ({"what": What.FIRED, "limit": 2}, [2001, 2000]),
        ({"until_us": T_US + 3 * SECOND_US}, [2]),
        ({"until_us": T_US + 2002 * SECOND_US, "by": "bob"}, [3]),
        ({"until_us": T_US + 3 * SECOND_US, "id": "b"}, [1]),
        ({"until_us": T_US + 10 * SECOND_US, "what": What.FIRED}, [9, 8, 7, 6, 5, 4]),
        ({"until_us": T_US + 5 * SECOND_US, "is_all": True}, [4, 3, 2, 1]),
        ({"until_us": 0, "is_all": True}, []),
    ],
)
def test_entries_that_people_asked_for_are_found_behind_any_number_of_fires(
    of_ann_and_bob: Path, wanted: dict[str, Any], expected: list[int]
) -> None:
    assert (expected, "limit" in wanted) == found(of_ann_and_bob, **wanted)


def test_a_search_with_a_limit_or_without_time_says_that_there_may_be_more(of_ann_and_bob: Path) -> None:
    assert ([2002], True) == found(of_ann_and_bob, limit=1)
    assert ([2002], True) == found(of_ann_and_bob, SteppingClock(10_000))


def test_changes_that_daemons_made_are_found_by_their_kind(path: Path) -> None:
    ended = end(3, Run(f"a-{DUE_MS}", RunStatus.SUCCEEDED, T_US))
    fires = (fire(seq, "b-5") for seq in range(4, 5000))
    archived(path, [put(1, "a"), fire(2, f"a-{DUE_MS}"), ended, *fires])

    assert ([3], False) == found(path, what=What.RUN_ENDED)
    assert ([], True) == found(path, SteppingClock(600), what=What.RUN_ENDED)  # it had time for two windows


def test_entries_that_were_deleted_by_age_are_not_found(path: Path) -> None:
    archived(path, [put(1, "a"), cancelled(2, "a", "ann"), cancelled(3, "b", "ann")])
    with closing(Archive(path, "default")) as archive:
        prune(archive, 2**60)

    assert ([3], False) == found(path, by="ann")
