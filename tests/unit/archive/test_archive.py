"""The writer of an archive: its contents after a commit, after a crash, and after a bootstrap."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import SECOND_US, T_US, at, cancel, enqueue, entry, fire, put, put_recurring
from tests.builders.records import DUE_MS, one_shot, open_run
from tests.prefix import RQ
from tests.states import state_of
from tests.unit.archive.contents import archived, places, prune, rows, take
from zsched.archive import START, Archive
from zsched.archive.body import COLUMNS, entry_of, unpack
from zsched.core.entry import Entry
from zsched.core.log.puts import DISABLED

SECRET = b"4111 1111 1111 1111"


def reopened(archive: Archive) -> Archive:
    archive.close()
    return Archive(archive.path, archive.namespace)


def history(path: Path) -> list[Entry]:
    return [entry_of(row) for row in rows(path, f"SELECT {COLUMNS} FROM entry ORDER BY n")]


def everything(path: Path) -> bytes:
    """Return all bytes of all files of the archive, and the texts of its entries."""
    texts = (text for (body,) in rows(path, "SELECT body FROM entry") for text in unpack(body))
    return b"".join([*(file.read_bytes() for file in sorted(path.parent.iterdir())), *texts])


def test_the_position_advances_with_the_commit(archive: Archive) -> None:
    archive.append([put(1, "a"), put(2, "b")])

    assert (None, at(2)) == (archive.position, archive.tail)
    archive.commit()
    assert (at(2), at(2)) == (archive.position, archive.tail)


def test_a_new_pause_begins_with_its_own_note_not_with_an_ended_pause_of_one_transaction(archive: Archive) -> None:
    take(archive, put(1, "a", paused="a"))

    resumed = entry(2, "resume", "rows", 1, "a", f"low {DUE_MS}")
    take(archive, resumed, fire(3, f"a-{DUE_MS}"), put(4, "a", due_ms=DUE_MS + 1, paused="a"))

    state = {row.run: row for row in state_of(archive)}
    assert {str(DUE_MS): "open", str(DUE_MS + 1): "paused"} == {run: row.place for run, row in state.items()}
    since_ms = (T_US + 4 * SECOND_US) // 1000
    assert f"{since_ms} {DISABLED}" == state[str(DUE_MS + 1)].note


def test_committed_entries_are_in_the_reopened_archive(archive: Archive) -> None:
    archive.append([put(1, "a"), put_recurring(2, "r")])
    archive.set_facts(gen="gen-1", complete_since=START)
    archive.commit()
    id = archive.id

    with closing(reopened(archive)) as again:
        assert (id, at(2), START, ["gen-1"]) == (again.id, again.position, again.complete_since, again.gens)
        assert {f"a-{DUE_MS}": "due", "r": "due"} == places(again)
        assert [put(1, "a"), put_recurring(2, "r")] == history(again.path)


def test_uncommitted_entries_are_not_in_the_reopened_archive(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.append([put(2, "b")])

    with closing(reopened(archive)) as again:
        assert at(1) == again.position
        assert {f"a-{DUE_MS}": "due"} == places(again)
        assert [put(1, "a")] == history(again.path)


UNKNOWN = [
    entry(1, "conjure", "what", "ever"),
    entry(1, "put", "lane", "low"),
    entry(1, "put", "lane", "low", "fields", "x"),
    entry(1, "put_recurring", "shapes", 0, "rows", 1, "r", "1 5"),
    entry(1, "enqueue", "rows", 1, "a-5"),
    entry(1, "advance", "rows", 1, "r", "fired 1"),
    Entry.of(b"1-1", [b"another writer's", b"\xff"]),
    Entry.of(b"1-1", [b"kind", b"put", b"t", b"9" * 40]),
]


@pytest.mark.parametrize("keep_args", [True, False])
@pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda unknown: unknown.kind or "none")
def test_an_unknown_entry_is_kept_unchanged_and_reported(path: Path, unknown: Entry, keep_args: bool) -> None:
    with closing(Archive(path, "default", keep_args=keep_args)) as archive:
        [problem] = archive.append([unknown])
        assert [] == archive.append([put(2, "a")])
        archive.commit()

        assert "log entry 1-1" in str(problem)
        assert (1, at(2)) == (archive.unknown_entries, archive.position)
        assert unknown == history(path)[0]
        assert {f"a-{DUE_MS}": "due"} == places(archive)


def test_a_malformed_schedule_does_not_hide_the_runs_of_its_fire(archive: Archive) -> None:
    bad = ["two words", "low 1.5", "", "its id is none", "b", "low 1900000000000.5", "", "its hash is gone"]
    archive.append([put(1, "a", "b"), fire(2, f"a-{DUE_MS}"), entry(3, "quarantine", "rows", 2, *bad)])

    assert {f"a-{DUE_MS}": "open", f"b-{DUE_MS}": "quarantine"} == places(archive)
    assert 0 == archive.unknown_entries


def test_an_entry_that_cannot_be_read_to_its_end_changes_nothing(archive: Archive) -> None:
    archive.append([put(1, "a", "b")])

    archive.append([entry(2, "fire", "runs"), entry(3, "pause", "note", "", "rows", 1, "b", "low 1.5")])

    assert {f"a-{DUE_MS}": "due", f"b-{DUE_MS}": "due"} == places(archive)
    assert (2, 2) == (archive.unknown_entries, archive.unreadable_entries)


def test_an_entry_with_bad_run_ids_alone_stops_nothing(archive: Archive) -> None:
    take(archive, entry(1, "fire", "runs", "x y"), entry(2, "fire", "runs", "good-5"))

    assert ("fire", "fire") == tuple(one.kind for one in history(archive.path))
    assert (0, at(2)) == (archive.unknown_entries, archive.position)


def test_a_bad_text_in_an_entry_is_dropped_and_its_good_runs_are_kept(archive: Archive) -> None:
    bad = entry(3, "quarantine", "rows", 2, "bait", f"low {DUE_MS}", "", f"wrong type at {RQ}:queue:q", "!", "")
    archive.append([put(1, "a", "b", "c", "bait")])

    problems = archive.append([fire(2, f"a-{DUE_MS} x b-{DUE_MS}", cancelled=f"! c-{DUE_MS}=odd"), bad])

    found = {f"a-{DUE_MS}": "open", f"b-{DUE_MS}": "open", f"bait-{DUE_MS}": "quarantine"}
    assert (found, 0) == (places(archive), archive.unknown_entries)
    assert 3 == archive.dropped
    assert [] == problems


def test_a_bootstrap_switches_state_and_position_at_once(archive: Archive) -> None:
    take(archive, put(1, "old"))

    archive.begin_bootstrap()
    archive.copy([put(8, "copied")])
    archive.scan([one_shot(id="a"), open_run(id="b")], at(8))
    archive.append([put(9, "c")])
    archive.commit()

    assert ({f"old-{DUE_MS}": "due"}, at(1)) == (places(archive), archive.position)
    archive.end_bootstrap("42")
    expected = {f"a-{DUE_MS}": "due", f"b-{DUE_MS}": "open", f"c-{DUE_MS}": "due"}
    assert (expected, at(9), "42") == (places(archive), archive.position, archive.complete_since)
    with closing(reopened(archive)) as again:
        assert (expected, at(9), "42") == (places(again), again.position, again.complete_since)


def test_a_crash_during_a_bootstrap_leaves_the_archive_unchanged(archive: Archive) -> None:
    take(archive, put(1, "old"))
    tables = ("fact", "entry", "touch", "live", "argument")
    before = [rows(archive.path, f"SELECT * FROM {table}") for table in tables]
    archive.begin_bootstrap()
    archive.copy([put(8, "copied")])
    archive.scan([one_shot(id="a")], at(8))
    archive.commit()
    archive.append([put(9, "c")])

    with closing(reopened(archive)) as again:
        assert not again.is_bootstrapping
        assert ({f"old-{DUE_MS}": "due"}, at(1)) == (places(again), again.position)
        assert before[1:] == [rows(again.path, f"SELECT * FROM {table}") for table in tables[1:]]
        assert [] == again.append([put(2, "next")])
        again.commit()
        assert at(2) == again.position


def test_a_bootstrap_keeps_entries_that_were_appended_before(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.append([put(2, "b")])

    archive.begin_bootstrap()
    archive.copy([put(8, "copied")])
    archive.abandon_bootstrap()

    assert (at(2), at(2)) == (archive.position, archive.tail)
    assert [put(1, "a"), put(2, "b")] == history(archive.path)
    assert {f"a-{DUE_MS}": "due", f"b-{DUE_MS}": "due"} == places(archive)


def test_a_bootstrap_does_not_write_the_same_entry_twice(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"))

    archive.begin_bootstrap()
    archive.append([put(1, "a"), entry(2, "cancel", "rows", 1, "a", DUE_MS, epoch=2)])
    archive.end_bootstrap(START)

    assert [put(1, "a"), put(2, "b")] == history(archive.path)[:2]
    assert 3 == len(history(archive.path))
    assert {} == places(archive)


def test_arguments_without_keep_args_are_stored_only_while_a_run_needs_them(path: Path) -> None:
    with closing(Archive(path, "default", keep_args=False)) as archive:
        take(archive, put(1, "a", data=SECRET), put_recurring(2, "r", data=SECRET), put(3, "z"))
        archive.append([enqueue(4, f"now-{DUE_MS}", data=SECRET)])
        prune(archive)
        assert {SECRET, b"call"} == {row.job_fields()[b"data"] for row in state_of(archive)}

        archive.append([cancel(5, "a"), cancel(6, "r"), fire(7, cancelled=f"now-{DUE_MS}=canceled")])
        prune(archive)

    assert [] == rows(path, "SELECT * FROM argument WHERE n <> 3")
    assert 7 == len(history(path))
    assert SECRET not in everything(path)


def test_arguments_of_a_run_are_kept_until_its_end(path: Path) -> None:
    with closing(Archive(path, "default", keep_args=False)) as archive:
        archive.append([put(1, "a", data=SECRET), put(2, "b"), fire(3, f"a-{DUE_MS}", f"b-{DUE_MS}"), put(4, "z")])
        prune(archive)
        assert [SECRET, b"call", b"call"] == [row.job_fields()[b"data"] for row in state_of(archive)]

        archive.append([entry(5, "end", "rows", 1, f"a-{DUE_MS}", "succeeded", "", "{}")])
        prune(archive)

        assert {f"b-{DUE_MS}": "open", f"z-{DUE_MS}": "due"} == places(archive)

    assert [(2,), (4,)] == rows(path, "SELECT n FROM argument ORDER BY n")
    assert SECRET not in everything(path)


def test_arguments_stored_with_keep_args_stay_as_long_as_their_entry(path: Path) -> None:
    archived(path, [put(1, "a", data=SECRET), cancel(2, "a"), put(3, "z")])

    with closing(Archive(path, "default", keep_args=False)) as archive:
        prune(archive)
        assert SECRET in everything(path)

        prune(archive, T_US + 10 * SECOND_US)

    assert [3] == [entry.position.seq for entry in history(path)]


def test_arguments_are_stored_again_when_a_bootstrap_reads_their_entry(path: Path) -> None:
    with closing(Archive(path, "default", keep_args=False)) as archive:
        take(archive, put(1, "a", data=SECRET), cancel(2, "a"), put(3, "z"))
        prune(archive)

        archive.begin_bootstrap()  # a Redis that lost the cancel
        archive.append([put(1, "a", data=SECRET)])
        archive.end_bootstrap(START)

        assert [SECRET] == [row.job_fields()[b"data"] for row in state_of(archive)]


def test_pruning_removes_old_history_except_entries_that_the_state_needs(archive: Archive) -> None:
    archive.append([put(1, "gone"), cancel(2, "gone")])
    archive.append([put(3, "waits"), put(4, "runs"), fire(5, f"runs-{DUE_MS}"), put_recurring(6, "r")])
    archive.append([entry(7, "term", "daemon", "d", "server", "s"), put(20, "young")])
    before = places(archive)

    prune(archive, T_US + 10 * SECOND_US)

    assert [3, 4, 6, 20] == [entry.position.seq for entry in history(archive.path)]
    assert before == places(archive)
    with closing(reopened(archive)) as again:
        assert (before, at(20)) == (places(again), again.position)


def test_a_pruned_archive_is_complete_since_the_time_of_pruning(archive: Archive) -> None:
    archive.append([put(1, "gone"), cancel(2, "gone"), put(20, "young")])
    archive.set_facts(complete_since=START)

    for before_us in (T_US - SECOND_US, T_US + 10 * SECOND_US):
        prune(archive, before_us)
        assert (START if before_us < T_US else str(before_us)) == archive.complete_since


def test_the_last_entry_stays_however_old_it_is(archive: Archive) -> None:
    archive.append([put(1, "a"), cancel(2, "a")])

    prune(archive, T_US + 3600 * SECOND_US)

    assert [2] == [entry.position.seq for entry in history(archive.path)]
    with closing(reopened(archive)) as again:
        assert at(2) == again.position


def test_pruning_removes_touches_of_pruned_entries_except_in_the_last_segment(path: Path) -> None:
    ids = [f"id-{number}" for number in range(3000)]
    puts = [put(seq, *ids) for seq in range(1, 50)]
    with closing(Archive(archived(path, puts), "default")) as archive:
        archive.append([cancel(50, id) for id in ids])

        prune(archive, T_US + 49 * SECOND_US + 1)

    assert [] == rows(path, "SELECT * FROM touch WHERE segment < (SELECT max(segment) FROM touch) AND n < 50")


def test_pruning_commits_appended_entries_with_their_position(archive: Archive) -> None:
    archive.append([put(1, "a")])
    archive.begin_pruning(0)

    archive.prune()

    assert at(1) == archive.position
    with closing(reopened(archive)) as again:
        assert at(1) == again.position
