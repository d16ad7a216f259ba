"""The knowledge of an archive that Redis may have lost."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import advance, at, cancel, end, enqueue, entry, fire, put, put_recurring, restore
from tests.builders.records import DUE_MS, JOB, OLD_US, RUN, one_shot, rule
from tests.unit.archive.contents import archived, change, places, rows, take
from zsched.archive import Archive
from zsched.archive.body import unpack
from zsched.archive.recall import recalling
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry, Position
from zsched.core.recovery.difference import Branch, Recalled, lacking, restored_row
from zsched.errors import ArchiveCorrupt, ArchiveError, ArchiveForeign


def known(archive: Archive, *ids: str, behind: int | None = None) -> list[Recalled]:
    recall = archive.recall()
    ids = ids or tuple(one.id for one in recall.known_all())
    return list(recall.known(ids, None if behind is None else recall.touched_behind(behind)))


def test_an_entry_of_its_own_history_has_a_number_by_id_and_time(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"))
    recall = archive.recall()

    assert [1, 2] == [recall.number_of(at(seq)) for seq in (1, 2)]
    others = [at(3), at(1)._replace(t_us=5), at(1)._replace(epoch=2), Position(0, 0, 0)]
    assert [None] * 4 == [recall.number_of(other) for other in others]


def test_rows_that_a_bootstrap_read_are_not_entries_of_the_log(archive: Archive) -> None:
    archive.begin_bootstrap()
    archive.scan([one_shot(id="a")], at(3))
    archive.end_bootstrap("start")

    assert None is archive.recall().number_of(at(3))
    assert {} == archive.recall().touched_behind(0)


def test_keys_touched_behind_an_entry_are_known_with_their_last_time(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"), fire(3, f"b-{RUN}"), restore(4, one_shot(id="c")), end(5, f"b-{RUN}"))

    touched = archive.recall().touched_behind(1)

    assert {("b", ""): at(3).t_us, ("b", RUN): at(5).t_us, ("c", ""): OLD_US, ("c", RUN): OLD_US} == touched
    assert {} == archive.recall().touched_behind(5)


def test_an_unreadable_entry_touches_no_schedule(archive: Archive) -> None:
    archive.append([entry(1, "conjure"), put(2, "a"), entry(3, "pause"), Entry.of(b"1-4", [b"x"])])
    archive.commit()

    assert {("a", ""), ("a", RUN)} == archive.recall().touched_behind(0).keys()


def test_recall_without_a_common_entry_returns_everything(archive: Archive) -> None:
    take(archive, put(1, "a", "b"), put_recurring(2, "r"), fire(3, f"a-{RUN}"))
    take(archive, entry(4, "run_now", "id", "r", "run", "r-5", "last", 1))

    found = {mine.id: mine for mine in known(archive)}

    assert {"a", "b", "r"} == found.keys()
    assert [None, "due", "due"] == [mine.schedule and mine.schedule.place for mine in map(found.get, "abr") if mine]
    assert [(RUN, at(3).t_us)] == [(one.run, one.t_us) for one in found["a"].runs]
    assert ["5"] == [one.run for one in found["r"].runs]
    assert [None] * 3 == [mine.gone_us for mine in found.values()]


def test_backfilled_runs_are_open_with_the_rules_record_and_leave_it_alone(archive: Archive) -> None:
    backfill = entry(3, "backfill", "id", "r", "runs", f"r-{RUN} r-{DUE_MS + 1}-r7")
    take(archive, put_recurring(1, "r", data=b"old"), put_recurring(2, "r"), backfill, end(4, f"r-{RUN}"))

    [mine] = known(archive, "r", behind=2)
    [all_of_it] = known(archive, "r")

    assert (None, None) == (mine.schedule, mine.gone_us)
    [one] = mine.runs
    assert (f"{DUE_MS + 1}-r7", b"call", at(3).t_us) == (one.run, one.request()[0][b"data"], one.t_us)
    assert at(2).t_us == all_of_it.schedule.t_us


def test_recall_behind_an_entry_returns_only_touched_schedules_and_runs(archive: Archive) -> None:
    take(archive, put(1, "a", "b"), put_recurring(2, "r"), enqueue(3, "r-3"), put_recurring(4, "r"))
    take(archive, cancel(5, "b"), advance(6, f"r fired {RUN} {DUE_MS + 5} {DUE_MS + 5} -"))

    a, b, r = known(archive, "a", "b", "r", behind=4)

    assert (None, None, []) == (a.schedule, a.gone_us, a.runs)
    assert (None, at(5).t_us, []) == (b.schedule, b.gone_us, b.runs)
    assert at(6).t_us == r.schedule.t_us
    assert ({"3", RUN}, {"3"}) == ({one.run for one in r.runs}, r.unchanged)


def test_recall_ignores_a_schedule_of_which_only_a_run_ended(archive: Archive) -> None:
    take(archive, put(1, "a"), fire(2, f"a-{RUN}"), end(3, f"a-{RUN}"))

    [mine] = known(archive, "a", behind=2)

    assert (None, None, []) == (mine.schedule, mine.gone_us, mine.runs)


def test_a_bootstrap_begins_while_the_state_is_still_read(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"))
    reader = archive.recall().known_all()
    next(reader)

    archive.begin_bootstrap()

    assert ["b"] == [one.id for one in reader]


def test_recall_lists_schedules_in_the_order_of_their_entries(archive: Archive) -> None:
    ids = [f"{number * 7919 % 1000}" for number in range(450)]
    take(archive, put(1, *ids[:300]), put_recurring(2, "r"), put(3, *ids[300:]), fire(4, f"{ids[5]}-{RUN}"))

    found = [mine.id for mine in archive.recall().known_all()]

    assert [*ids[:300], "r", *ids[300:]] == found
    assert found == [mine.id for mine in known(archive)]
    assert len(found) == sum(archive.recall().count_places().values())


def test_a_restored_schedule_is_restored_unchanged_a_second_time(archive: Archive) -> None:
    given = [one_shot(), rule(), one_shot("paused", "p", note="5 why"), rule("ended", "e")]
    take(archive, restore(1, *given))

    again = {mine.id: restored_row(mine.schedule) for mine in known(archive) if mine.schedule}

    for one in given:
        found = again[one.id]
        assert one.is_same(found)
        assert (one.t_us, one.state, one.own_fields()) == (found.t_us, found.state, found.own_fields())


def test_recall_includes_separately_stored_arguments(path: Path) -> None:
    with closing(Archive(path, "default", keep_args=False)) as archive:
        take(archive, put(1, "a", data=b"secret"), put_recurring(2, "r", data=b"secret"))
        no_data = one_shot(id="none", job=JOB[:2])
        take(archive, restore(3, one_shot("gone", "x", job=()), one_shot(id="c"), no_data, rule(id="s")))

        found = {mine.id: mine for mine in known(archive)}

        datas = {id: _data(mine) for id, mine in found.items()}
        assert {"a": b"secret", "r": b"secret", "c": b"call", "none": None, "s": b"call"} == datas
    [body] = rows(path, "SELECT body FROM entry WHERE kind = 'restore'")[0]
    assert b"call" not in unpack(body)


def _data(mine: Recalled) -> bytes | None:
    [found] = lacking(mine, None, Branch())
    return found.job_fields().get(b"data")


def test_an_archive_that_was_left_behind_begins_again_and_keeps_its_history(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"))

    archive.leave_behind()

    assert (None, None) == (archive.position, archive.tail)
    assert [(2,)] == rows(archive.path, "SELECT count(*) FROM entry")
    assert None is archive.recall().number_of(at(1))
    archive.close()
    with closing(Archive(archive.path, "default")) as again:
        assert (None, None) == (again.position, again.recall().number_of(at(2)))
        again.begin_bootstrap()
        again.copy([put(5, "c")])
        again.scan([one_shot(id="b"), one_shot(id="c")], at(5))
        again.end_bootstrap("5")
        assert ({f"b-{RUN}": "due", f"c-{RUN}": "due"}, at(5)) == (places(again), again.position)
        assert again.recall().number_of(at(5)) == 3
        assert None is again.recall().number_of(at(2))


def test_the_data_set_that_was_followed_last_is_named_last(archive: Archive) -> None:
    for gen in ("one", "two", "one", "one", "three"):
        archive.set_facts(gen=gen)
    archive.commit()
    assert ["two", "one", "three"] == archive.gens

    archive.close()
    with closing(Archive(archive.path, "default")) as again:
        assert ["two", "one", "three"] == again.gens


def test_recall_reads_an_archive_beside_its_writer(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.append([put(2, "b")])

    with recalling(archive.path, "default", ManualClock()) as (recall, facts):
        archive.commit()
        assert (archive.id, ["a"]) == (recall.archive, [mine.id for mine in recall.known_all()])
        assert (str(at(1)), "default") == (facts["position"], facts["namespace"])


def test_recall_during_a_bootstrap_reads_the_old_state(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.begin_bootstrap()
    archive.copy([put(2, "b")])
    archive.scan([one_shot(id="b")], at(2))
    archive.commit()

    with recalling(archive.path, "default", ManualClock()) as (recall, facts):
        assert ["a"] == [mine.id for mine in recall.known_all()]
        assert str(at(1)) == facts["position"]


def test_a_namespace_has_its_own_run_ids(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(Archive(path, "shop")) as archive:
        take(archive, put(1, "a"))

    with recalling(path, "shop", ManualClock()) as (recall, _):
        assert {("a", ""), ("a", f"{RUN}-nshop")} == recall.touched_behind(0).keys()


@pytest.mark.parametrize("damage", ["UPDATE entry SET t = t + 1", "INSERT INTO fact VALUES ('known_from', 1)"])
def test_a_damaged_archive_is_not_read(path: Path, damage: str) -> None:
    archived(path, [put(1, "a")])
    change(path, damage)

    with pytest.raises(ArchiveCorrupt), recalling(path, "default", ManualClock()):
        pass


def test_an_archive_that_is_missing_or_empty_or_of_another_namespace_is_not_read(path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no such file"), recalling(path, "default", ManualClock()):
        pass
    archived(path, [put(1, "a")])
    with pytest.raises(ArchiveForeign), recalling(path, "shop", ManualClock()):
        pass
    change(path, "DELETE FROM entry")
    change(path, "DELETE FROM fact")
    with pytest.raises(ArchiveError, match="it is empty"), recalling(path, "default", ManualClock()):
        pass


def test_facts_of_an_older_version_without_a_start_are_read(path: Path) -> None:
    archived(path, [put(1, "a")])
    assert [] == rows(path, "SELECT value FROM fact WHERE name = 'known_from'")

    with recalling(path, "default", ManualClock()) as (recall, _):
        assert 1 == recall.number_of(at(1))
    with closing(Archive(path, "default")) as archive:
        assert 1 == archive.recall().number_of(at(1))


def test_a_missing_history_entry_is_reported(archive: Archive) -> None:
    take(archive, put(1, "a"))
    change(archive.path, "DELETE FROM entry")

    with pytest.raises(ArchiveCorrupt, match="is gone"):
        known(archive)
