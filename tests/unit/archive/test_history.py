"""Reading an archive's history: by schedule, by outcome, by time and position; and the executed occurrences."""

from contextlib import closing
from pathlib import Path
from zlib import crc32

from tests.builders.entries import SECOND_US, T_US, TWINS, advance, at, entry, fire, put, put_recurring, restore
from tests.builders.records import DUE_MS, one_shot, open_run
from tests.unit.archive.contents import SteppingClock, archived, prune, take
from zsched.archive import START, Archive, History
from zsched.archive.lookups import ran as ran_in
from zsched.core.entry import Entry
from zsched.core.log.kinds import changes
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.lateness import waited_since_us


def run(id: str) -> str:
    return f"{id}-{DUE_MS}"


def told(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.id, change.what.value) for change in changes]


def test_history_returns_only_the_changes_of_the_schedule_in_order(path: Path) -> None:
    archived(path, [put(1, "a", "b"), put(2, "b"), fire(3, run("a"), run("b")), put(4, "a")])

    with History(path) as history:
        changes, left_out = history.of_schedule("a", 10)

    assert [("a", "put"), ("a", "fired"), ("a", "put")] == told(changes)
    assert ["1-1", "1-3", "1-4"] == [change.entry for change in changes]
    assert 0 == left_out


def test_a_long_past_is_cut_to_its_first_and_newest_changes(path: Path) -> None:
    archived(path, [put(seq, "a") for seq in range(1, 11)])

    with History(path) as history:
        cut, left_out = history.of_schedule("a", 3)
        whole = history.of_schedule("a", 10)
        all_but_none = history.of_schedule("a", 9)

    assert (["1-1", "1-8", "1-9", "1-10"], 6) == ([change.entry for change in cut], left_out)
    assert (10, 0) == (len(whole[0]), whole[1])
    assert (10, 0) == (len(all_but_none[0]), all_but_none[1])


def test_two_ids_with_the_same_checksum_are_distinguished(path: Path) -> None:
    assert crc32(TWINS[0].encode()) == crc32(TWINS[1].encode())
    archived(path, [put(seq, TWINS[seq % 2]) for seq in range(1, 9)])

    with History(path) as history:
        found = [history.of_schedule(id, 10) for id in TWINS]

    assert [["1-2", "1-4", "1-6", "1-8"], ["1-1", "1-3", "1-5", "1-7"]] == [
        [change.entry for change in changes] for changes, _ in found
    ]
    assert [0, 0] == [left_out for _, left_out in found]


def test_an_unknown_id_has_no_past(path: Path) -> None:
    archived(path, [put(1, "a")])

    with History(path) as history:
        assert ([], 0) == history.of_schedule("nobody", 5)


def test_history_includes_everything_that_a_bootstrap_found(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([entry(5, "term", "daemon", "d", "server", "s")])
        archive.scan([one_shot(id="a")], at(5))
        archive.scan([open_run(id="a", run="7")], at(5))
        archive.end_bootstrap(str(T_US))

    with History(path) as history:
        changes, left_out = history.of_schedule("a", 10)

    assert [("due", run("a")), ("open", "a-7")] == [(change.why, change.run_id) for change in changes]
    assert 0 == left_out


def test_pruned_entries_are_not_counted_as_left_out(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, *(put(seq, "a") for seq in range(1, 11)))
        prune(archive, T_US + 5 * SECOND_US)

    with History(path) as history:
        changes, left_out = history.of_schedule("a", 3)

    assert (["1-5", "1-8", "1-9", "1-10"], 2) == ([change.entry for change in changes], left_out)


def test_an_entry_of_an_unknown_kind_hides_no_others(path: Path) -> None:
    archived(path, [put(1, "a"), entry(2, "enchant", "id", "a"), fire(3, run("a"))])

    with History(path) as history:
        assert [("a", "put"), ("a", "fired")] == told(history.of_schedule("a", 5)[0])


def test_entries_are_read_since_a_time_behind_a_position_or_as_the_newest(path: Path) -> None:
    entries = [put(seq, f"s{seq}") for seq in range(1, 9)]
    archived(path, entries)

    with History(path) as history:
        since = list(history.of_log(3, 9, since_us=T_US + 3 * SECOND_US))
        behind = list(history.of_log(100, 9, behind=at(5)))
        newest = list(history.of_log(4, 3))
        more_than_all = list(history.of_log(100, 100))

    assert (entries[2:5], entries[5:], entries[4:7], entries) == (since, behind, newest, more_than_all)


def test_entries_behind_a_position_of_another_history_are_the_later_ones(path: Path) -> None:
    entries: list[Entry] = [put(seq, f"s{seq}") for seq in range(1, 5)]
    archived(path, entries)
    foreign = at(2)._replace(epoch=7)

    with History(path) as history:
        assert entries[2:] == list(history.of_log(100, 100, behind=foreign))


def test_rows_that_a_bootstrap_read_are_not_entries_of_the_log(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([put(5, "a")])
        archive.scan([one_shot(id="a")], at(5))
        archive.append([put(6, "a")])
        archive.end_bootstrap(str(T_US))

    with History(path) as history:
        assert [at(5), at(6)] == [one.position for one in history.of_log(10, 10, since_us=0)]
        assert [at(6)] == [one.position for one in history.of_log(1, 10)]


def term(seq: int) -> Entry:
    return entry(seq, "term", "daemon", "d", "server", "s")


def test_the_last_term_between_two_times_is_found_with_the_previous_entry_of_a_leader(path: Path) -> None:
    archived(path, [term(1), put(2, "a"), put_recurring(3, "r"), term(4), put(5, "b")])

    with History(path) as history:
        found = [history.term_between(T_US, T_US + seq * SECOND_US) for seq in (1, 2, 4, 5)]
        later = [history.term_between(T_US + seq * SECOND_US, T_US + 5 * SECOND_US) for seq in (4, 5)]

    first, last = (at(1).t_us, None), (at(4).t_us, at(1).t_us)
    assert [None, first, first, last] == found
    assert [last, None] == later


def test_the_leaders_before_late_runs_are_found(path: Path) -> None:
    due_ms = T_US // 1000 + 4000
    runs = [f"s{number}-{due_ms}" for number in range(6)]
    entries = [term(1), fire(2, "old-1"), put(3, "s0", due_ms=due_ms), fire(5, runs[0]), fire(6, runs[1])]
    entries += [put(7, "new"), term(10), fire(11, runs[2], runs[3]), term(13), fire(14, runs[4]), fire(15, runs[5])]
    archived(path, entries)

    late = [each for one in entries for each in changes(one) if waited_since_us(each) == due_ms * 1000]
    with History(path) as history:
        found = {change.entry: history.term_between(due_ms * 1000, change.at_us) for change in late}

    first, second = (at(10).t_us, at(6).t_us), (at(13).t_us, at(11).t_us)
    assert {"1-5": None, "1-6": None, "1-11": first, "1-14": second, "1-15": second} == found


def test_a_reader_knows_namespace_and_position_of_the_archive(path: Path) -> None:
    with closing(Archive(path, "shop")) as archive:
        archive.append([put(1, "a")])
        archive.set_facts(complete_since=START)
        archive.commit()

    with History(path) as history:
        assert ("shop", START, at(1)) == (history.namespace, history.complete_since, history.position)
        assert f"a-{DUE_MS}-nshop" == history.of_schedule("a", 1)[0][0].run_id


START_MS = T_US // 1000
SECOND_MS = 1000
END_MS = START_MS + 100 * SECOND_MS


def second(number: int) -> int:
    """Return the time of entry *number*."""
    return START_MS + number * SECOND_MS


def fired(seq: int, *ids: str, nominal_ms: int | None = None, word: str = "fired") -> Entry:
    """Return the entry of rules that fired for the second of that entry."""
    nominal_ms = second(seq) if nominal_ms is None else nominal_ms
    return advance(seq, *(f"{id} {word} {nominal_ms} - - -" for id in ids))


def backfilled(seq: int, id: str, *times: int) -> Entry:
    return entry(seq, "backfill", "id", id, "runs", " ".join(f"{id}-{ms}" for ms in times))


def ran(path: Path, id: str = "r", start_ms: int = START_MS, end_ms: int = END_MS) -> list[int]:
    with History(path) as history:
        answer = ran_in(history, id=id, start_ms=start_ms, end_ms=end_ms, read_to={}, clock=SteppingClock(0))
    assert answer["read_to"] is None
    return sorted(answer["ran"])


def test_fired_backfilled_and_restored_occurrences_ran(path: Path) -> None:
    restored = open_run(id="r", run=str(second(4)))
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
        archive.scan([open_run(id="r", run=str(second(3))), one_shot(id="r", run=str(second(4)))], at(1))
        archive.end_bootstrap("1")
        archive.commit()

    assert [second(3)] == ran(path)


def test_a_long_search_answers_part_by_part(path: Path) -> None:
    archived(path, [put_recurring(1, "r"), *(fired(n, "r") for n in range(2, 12))])
    parts: list[list[int]] = []
    read_to: int | None = 0

    with History(path) as history:
        while read_to is not None:
            known = {history.id: read_to, "of another archive": 9}
            part = ran_in(history, id="r", start_ms=START_MS, end_ms=END_MS, read_to=known, clock=SteppingClock(300))
            parts.append(sorted(part["ran"]))
            read_to = part["read_to"]

    assert [second(n) for n in range(2, 12)] == [ms for part in parts for ms in part]
    assert len(parts) > 3


def test_entries_before_the_range_are_not_read(path: Path) -> None:
    entries = [fired(n, "r", nominal_ms=second(50)) for n in range(1, 9)]  # as no script writes it: too early

    assert [] == ran(archived(path, [*entries, put_recurring(9, "a")]), "r", second(20), END_MS) == ran(path, "a")
