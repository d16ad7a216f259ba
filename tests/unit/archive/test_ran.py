"""The executed occurrences of a schedule, by an archive, part by part."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.log_rows import row_fields
from tests.unit.archive.ground import T_US, TWINS, SteppingClock, archived, at, entry, held, put_recurring, restore
from zsched.archive import Archive, History
from zsched.archive.ran import Part, Ran
from zsched.core.log import Entry
from zsched.core.log.recovery import Restored

START_MS = T_US // 1000
SECOND_MS = 1000
END_MS = START_MS + 100 * SECOND_MS


def second(number: int) -> int:
    """Return the time of entry *number*."""
    return START_MS + number * SECOND_MS


def fired(seq: int, *ids: str, nominal_ms: int | None = None, word: str = "fired") -> Entry:
    """Return the entry of rules that fired for the second of that entry."""
    lines = (f"{id} {word} {second(seq) if nominal_ms is None else nominal_ms} - - -" for id in ids)
    return entry(seq, "advance", *row_fields("advance", *lines))


def backfilled(seq: int, id: str, *times: int) -> Entry:
    return entry(seq, "backfill", "id", id, "runs", " ".join(f"{id}-{ms}" for ms in times))


def ran(path: Path, id: str = "r", start_ms: int = START_MS, end_ms: int = END_MS) -> list[int]:
    with History(path) as history:
        part = Ran(history).of(id, start_ms, end_ms, {})
    assert part.read_to is None
    return part.times_ms


def test_fired_backfilled_and_restored_occurrences_ran(path: Path) -> None:
    restored = Restored("r", str(second(4)), "open", "", second(4), T_US, None, [b"data", b"x"], ())
    entries = [put_recurring(1, "r"), fired(2, "a", "r", "b"), backfilled(3, "r", second(0), second(1))]
    entries += [restore(4, restored), fired(5, "r", word="overlap"), fired(6, "r", word="uncertain")]

    assert [second(n) for n in (0, 1, 2, 4, 6)] == ran(archived(path, entries))


def test_only_occurrences_in_the_range_count_whenever_they_were_pushed(path: Path) -> None:
    entries = [put_recurring(1, "r"), *(fired(n, "r") for n in range(2, 9)), backfilled(9, "r", second(1))]

    assert [second(1), second(3), second(4)] == sorted(
        {*ran(archived(path, entries), "r", second(3), second(5)), *ran(path, "r", second(1), second(2))}
    )


def test_runs_of_other_schedules_are_not_counted_even_with_the_same_checksum(path: Path) -> None:
    one, other = TWINS
    entries = [put_recurring(1, one), fired(2, one), fired(3, other), fired(4, f"{one}-1"), fired(5, one, other)]

    assert [second(2), second(5)] == ran(archived(path, entries), one)


def test_a_run_that_a_bootstrap_found_open_ran(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([entry(1, "term")])
        archive.scan([held("r", "open", str(second(3))), held("r", "due", str(second(4)))], at(1))
        archive.end_bootstrap("1")
        archive.commit()

    assert [second(3)] == ran(path)


def test_a_long_search_answers_part_by_part(path: Path) -> None:
    archived(path, [put_recurring(1, "r"), *(fired(n, "r") for n in range(2, 12))])
    told: list[Part] = []

    with History(path) as history:
        found = Ran(history, SteppingClock(300))
        while not told or told[-1].read_to is not None:
            read_to = {part.archive: part.read_to for part in told if part.read_to is not None} | {"another": 99}
            told.append(found.of("r", START_MS, END_MS, read_to))

    assert [second(n) for n in range(2, 12)] == [ms for part in told for ms in part.times_ms]
    assert len(told) > 3


def test_a_schedule_without_entries_ran_nothing(path: Path) -> None:
    assert [] == ran(archived(path, [put_recurring(1, "a")]))


def test_entries_before_the_range_are_not_read(path: Path) -> None:
    entries = [fired(n, "r", nominal_ms=second(50)) for n in range(1, 9)]  # as no script writes it: too early
    archived(path, entries)

    assert [] == ran(path, "r", second(20), END_MS)
