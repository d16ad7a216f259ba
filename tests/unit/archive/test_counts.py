"""Counts of outcomes in an archive: against a reading of its history, by time, series and row."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.builders import entries
from tests.builders.entries import SECOND_US, T_US
from tests.unit.archive.contents import archived, prune, take
from tests.unit.archive.many import Log
from tests.unit.archive.test_search_filters import FAX, MAIL, advance, end, fire, put, put_rule
from zsched.archive import Archive, History
from zsched.archive.counts import counts_of
from zsched.archive.search import recount
from zsched.core.facets import Facets
from zsched.core.occurrences.counts import CountedCell, RowsBy, WantedCounts
from zsched.core.runs.run import RunStatus

MINUTE = T_US // 60_000_000
DAY = MINUTE // 1440 * 1440
ALL = WantedCounts(DAY, 1, 2880)
ONE_SPAN = WantedCounts(DAY, 2880, 1)


def told(path: Path, wanted: WantedCounts = ALL) -> dict[str, Any]:
    with History(path) as history:
        return counts_of(history, wanted)


def stored(path: Path) -> set[tuple[Any, ...]]:
    """Return the stored counts, by unit, time and series."""
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT unit, at, id, facets, word, number FROM count JOIN series USING (series) WHERE number"
        return set(db.execute(query))


def again(path: Path) -> set[tuple[Any, ...]]:
    """Return the counts of the history, counted again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        counts = recount(db, "", 0)
        db.execute("DELETE FROM count")
        counts.flush()
    return stored(path)


def numbers(path: Path, **conditions: Any) -> dict[str, int]:
    """Return the numbers of a day by word."""
    return summed(told(path, replace(ALL, **conditions))["totals"])


def summed(cells: Iterable[CountedCell]) -> dict[str, int]:
    """Return the numbers by word."""
    found = Counter[str]()
    for _, word, number in cells:
        found[word] += number
    return dict(found)


def of_rules_and_one_shots(path: Path) -> Path:
    """Write an archive: of each queue a rule with outcomes, and one-shots of which one failed."""
    told = [put(1, MAIL, "a", "b"), put_rule(2, FAX, "r"), put_rule(3, MAIL, "s"), fire(4, "a", "b")]
    told += [advance(5, "r"), advance(6, "s", "overlap", "r-1"), advance(7, "r", "missed")]
    archived(path, [*told, end(8, a=RunStatus.FAILED, b=RunStatus.SUCCEEDED), advance(9, "s")])
    return path


def test_outcomes_and_failures_are_counted_with_their_reasons_by_series(path: Path) -> None:
    of_rules_and_one_shots(path)

    assert {"fired": 4, "skipped overlap": 1, "skipped missed": 1, "failed": 1} == numbers(path)
    assert {"fired": 3, "skipped overlap": 1, "failed": 1} == numbers(path, facets=Facets(queue="mail"))
    assert {"fired": 1, "skipped missed": 1} == numbers(path, match="r*")


def test_rows_with_most_failures_come_first_and_one_shots_are_a_row_of_their_function(path: Path) -> None:
    of_rules_and_one_shots(path)

    found = told(path, replace(ONE_SPAN, by=RowsBy.SCHEDULE, most=2))
    queues = told(path, replace(ONE_SPAN, by=RowsBy.QUEUE, most=9))
    tags = told(path, replace(ONE_SPAN, by=RowsBy.TAG, most=9))
    functions = told(path, replace(ONE_SPAN, by=RowsBy.FUNCTION, most=9))

    assert [("app.mail", True), ("r", False)] == [(name, is_once) for name, is_once, _ in found["rows"]]
    assert {"fired": 2, "failed": 1} == summed(found["rows"][0][2])
    assert 1 == found["more_rows"]
    assert {"mail": {"fired": 3, "failed": 1, "skipped overlap": 1}, "fax": {"fired": 1, "skipped missed": 1}} == {
        name: summed(cells) for name, _, cells in queues["rows"]
    }
    assert not any(is_once for _, is_once, _ in queues["rows"])
    assert {"acme": {"fired": 1, "skipped overlap": 1}} == {name: summed(cells) for name, _, cells in tags["rows"]}
    assert {
        "app.mail": {"fired": 3, "failed": 1, "skipped overlap": 1},
        "app.fax": {"fired": 1, "skipped missed": 1},
    } == {name: summed(cells) for name, _, cells in functions["rows"]}
    assert not any(is_once for _, is_once, _ in functions["rows"])


def test_an_occurrence_that_fired_a_second_after_its_time_is_late(path: Path) -> None:
    now_ms = T_US // 1000
    due = {"soon": now_ms + 3001, "then": now_ms + 3000}
    puts = [put(number, MAIL, id, due_ms=due_ms) for number, (id, due_ms) in enumerate(due.items(), start=1)]
    fired = entries.fire(4, *(f"{id}-{due_ms}" for id, due_ms in due.items()))

    archived(path, [*puts, fired])

    assert {"fired": 1, "late": 1} == numbers(path)


def test_hours_and_days_have_the_sums_of_their_minutes(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, put_rule(1, MAIL, "r"))
        for seq in range(2, 400):
            archive.append([_at(advance(seq, "r"), seq * 77)])
            archive.commit()

    minutes, hours, days = (told(path, WantedCounts(DAY, step, 2880 // step))["totals"] for step in (1, 60, 1440))

    summed = Counter[int]()
    for minute, _, number in minutes:
        summed[minute // 60] += number
    assert summed == {hour: number for hour, _, number in hours}
    assert 398 == sum(number for _, _, number in hours) == sum(number for _, _, number in days)


def test_counts_equal_those_of_the_whole_history(path: Path) -> None:
    of_rules_and_one_shots(path)
    with closing(Archive(path, "default")) as archive:
        take(archive, *Log().entries(0, 2000))

    assert stored(path) == again(path)


def test_an_abandoned_bootstrap_takes_its_counts_away(path: Path) -> None:
    of_rules_and_one_shots(path)
    before = numbers(path)

    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([advance(10, "s")])
        archive.commit()
        during = numbers(path)
        archive.abandon_bootstrap()

    assert before != during
    assert before == numbers(path)


def test_fires_that_a_bootstrap_copies_are_counted_at_their_time(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([put(1, MAIL, "a", "b"), fire(2, "a", "b")])
        archive.end_bootstrap("start")

    assert {"fired": 2} == numbers(path)
    assert stored(path) == again(path)


def test_old_counts_and_unused_series_are_deleted_with_the_history(path: Path) -> None:
    of_rules_and_one_shots(path)
    later = _at(advance(10, "s"), 3 * 86_400)
    with closing(Archive(path, "default")) as archive:
        take(archive, later)
        prune(archive, T_US + 2 * 86_400 * SECOND_US)
        take(archive, _at(advance(11, "r"), 3 * 86_400))

    assert {} == numbers(path)
    assert {"fired": 2} == numbers(path, start=DAY + 2880)


def _at(entry: Any, second: int) -> Any:
    return entry._replace(position=entry.position._replace(t_us=T_US + second * SECOND_US))
