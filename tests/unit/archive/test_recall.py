"""What an archive knows that Redis may have lost, and how a restore and an end fold into its state."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.archive.ground import (
    DUE_MS,
    T_US,
    archived,
    at,
    enqueue,
    entry,
    fire,
    held,
    places,
    put,
    put_recurring,
    rows,
)
from zsched.archive import Archive
from zsched.archive.recall import recalling
from zsched.core.clock import ManualClock
from zsched.core.entries import Restored
from zsched.core.log import Entry, Position
from zsched.core.recovery import Branch, Mine, lacking, row_of
from zsched.errors import ArchiveCorrupt, ArchiveError, ArchiveForeign

RUN = str(DUE_MS)
JOB = (b"origin", b"mail", b"data", b"call")
OWN = (b"trigger", b"every 5", b"lane", b"high", b"nominal", RUN.encode(), b"last", b"r-5")
OLD_US = T_US - 5  # of a change in the lost history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive.db"


@pytest.fixture
def archive(path: Path) -> Iterator[Archive]:
    with closing(Archive(path, "default")) as archive:
        yield archive


def restore(seq: int, *given: Restored, epoch: int = 1) -> Entry:
    texts = [text for row in given for text in row.texts()]
    return entry(seq, "restore", "reason", "lost", "archive", "x", "rows", len(given), *texts, epoch=epoch)


def one_shot(place: str = "due", id: str = "a", note: str | None = None, t_us: int = OLD_US) -> Restored:
    return Restored(id, RUN, place, "low", DUE_MS, t_us, note, JOB, ())


def rule(place: str = "due", id: str = "r", note: str | None = None) -> Restored:
    own = OWN if place != "ended" else (*OWN[:4], *OWN[6:], b"ended_at", b"7")
    return Restored(id, "", place, "high", None if place == "ended" else DUE_MS, OLD_US, note, JOB, own)


def end(seq: int, *run_ids: str) -> Entry:
    return entry(seq, "end", "rows", "\n".join(f"{run_id} finished - -" for run_id in run_ids))


def take(archive: Archive, *entries: Entry) -> None:
    assert [] == archive.append(entries)
    archive.commit()


def row(archive: Archive, id: str = "a") -> tuple[Any, ...]:
    """place, due, nominal, last, note, t of the only row of *id*."""
    [found] = [row for row, _ in archive.state() if row.id == id]
    return found.place, found.due, found.nominal, found.last, found.note, found.t


# -- folding what was put back --------------------------------------------------------------------

FOLDED = {
    "due": (one_shot(), ("due", DUE_MS, None, None, None, OLD_US)),
    "paused": (one_shot("paused", note="5 why"), ("paused", DUE_MS, None, None, "5 why", OLD_US)),
    "quarantine": (one_shot("quarantine", note="5 no"), ("quarantine", DUE_MS, None, None, "5 no", OLD_US)),
    "open": (one_shot("open"), ("open", DUE_MS, None, None, "uncertain", OLD_US)),
    "rule": (rule(id="a"), ("due", DUE_MS, DUE_MS, "r-5", None, OLD_US)),
    "paused rule": (rule("paused", "a", "5 "), ("paused", DUE_MS, DUE_MS, "r-5", "5 ", OLD_US)),
    "ended rule": (rule("ended", "a"), ("ended", None, None, "r-5", None, OLD_US)),
    "gone": (one_shot("gone"), None),
    "skipped": (one_shot("skipped"), None),
    "refused": (one_shot("refused"), None),
}
BEFORE: dict[str, list[Entry]] = {
    "nothing": [],
    "an open run": [put(1, "a"), fire(2, f"a-{RUN}")],
    "another rule": [put_recurring(1, "a", data=b"other")],
    "another time": [put(1, "a", due_ms=5)],
    "the same time": [put(1, "a", data=b"other")],
    "paused": [put(1, "a", due_ms=5), entry(2, "pause", "id", "a", "due", 5, "note", "no")],
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("is_written", [True, False])
def test_a_schedule_is_what_was_put_back_whatever_it_was(
    archive: Archive, name: str, before: str, is_written: bool
) -> None:
    given, expected = FOLDED[name]
    if is_written:
        take(archive, *BEFORE[before])
        take(archive, restore(5, given))
    else:
        take(archive, *BEFORE[before], restore(5, given))

    left = {one.key for one, _ in archive.state()}
    of_row = {("a", given.run)} if expected else set()
    if given.is_schedule:  # what replaces it: open runs stay
        run_stays = {("a", RUN)} if before == "an open run" else set()
        assert of_row | run_stays == left
    else:
        schedules = {"another rule": {("a", "")}, "another time": {("a", "5")}, "paused": {("a", "5")}}
        assert of_row | schedules.get(before, set()) == left
    if expected:
        [found] = [one for one, _ in archive.state() if one.key == ("a", given.run)]
        assert expected == (found.place, found.due, found.nominal, found.last, found.note, found.t)


@pytest.mark.parametrize("name", FOLDED)
def test_folding_twice_ends_in_the_same_state(archive: Archive, name: str) -> None:
    given, _ = FOLDED[name]
    entries = [put(1, "b"), restore(2, given), put(3, "c"), end(4, f"b-{RUN}")]
    take(archive, *entries)
    once = [found for found, _ in archive.state()]

    archive.begin_bootstrap()
    archive.append(entries)
    archive.append(entries)
    archive.end_bootstrap("start")

    assert once == [found for found, _ in archive.state()]
    assert 0 == archive.unknown_entries


def test_what_was_put_back_has_the_record_of_its_row(archive: Archive) -> None:
    take(archive, restore(1, one_shot("open"), rule(), one_shot(id="b")))

    found = {one.id: record for one, record in archive.state()}
    job = {"origin": b"mail", "data": b"call"}
    assert [("low", job), ("high", job), ("low", job)] == [(found[id].lane, found[id].fields) for id in "arb"]
    assert (b"every 5", {}) == (found["r"].schedule["trigger"], found["a"].schedule)


def test_what_was_put_back_goes_on(archive: Archive) -> None:
    advance = f"r fired {RUN} {DUE_MS + 5} {DUE_MS + 5} - - 0 -"
    take(archive, restore(1, rule(), one_shot(), one_shot(id="b")))
    take(archive, entry(2, "advance", "rows", advance), fire(3, f"a-{RUN}"), entry(4, "cancel", "id", "b", "due", RUN))

    assert {"r": "due", f"r-{RUN}": "open", f"a-{RUN}": "open"} == places(archive)
    assert b"call" == next(record for one, record in archive.state() if one.key == ("r", RUN)).fields["data"]


def test_a_run_that_ended_is_not_open_and_its_schedule_stays(archive: Archive) -> None:
    advance = f"r fired {RUN} {DUE_MS + 5} {DUE_MS + 5} - - 0 -"
    take(archive, put_recurring(1, "r"), put(2, "a"), entry(3, "advance", "rows", advance), fire(4, f"a-{RUN}"))

    take(archive, end(5, f"r-{RUN}", f"a-{RUN}", "unknown-5"))

    assert {"r": "due"} == places(archive)


@pytest.mark.parametrize(
    "broken",
    [
        entry(2, "restore", "reason", "lost", "archive", "x", "rows", 2, *one_shot(id="b").texts()),
        entry(2, "restore", "rows", 0),
        entry(2, "end", "rows", "a"),
    ],
    ids=["too few rows", "no head", "end"],
)
@pytest.mark.parametrize("keep_args", [True, False])
def test_a_broken_entry_changes_nothing_and_is_kept(path: Path, broken: Entry, keep_args: bool) -> None:
    with closing(Archive(path, "default", keep_args=keep_args)) as archive:
        take(archive, put(1, "a"))
        assert 1 == len(archive.append([broken]))
        archive.commit()

        assert ({f"a-{RUN}": "due"}, 1) == (places(archive), archive.unknown_entries)


# -- what it knows --------------------------------------------------------------------------------


def known(archive: Archive, *ids: str, behind: int | None = None) -> list[Mine]:
    recall = archive.recall()
    return list(recall.known(ids or recall.ids(), None if behind is None else recall.touched_behind(behind)))


def test_an_entry_of_its_own_history_has_a_number_by_id_and_time(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"))
    recall = archive.recall()

    assert [1, 2] == [recall.number_of(at(seq)) for seq in (1, 2)]
    others = [at(3), at(1)._replace(t_us=5), at(1)._replace(epoch=2), Position(0, 0, 0)]
    assert [None] * 4 == [recall.number_of(other) for other in others]


def test_what_a_bootstrap_read_is_no_entry_of_the_log(archive: Archive) -> None:
    archive.begin_bootstrap()
    archive.scan([held("a")], at(3))
    archive.end_bootstrap("start")

    assert None is archive.recall().number_of(at(3))
    assert {} == archive.recall().touched_behind(0)


def test_what_was_touched_behind_an_entry_is_known_with_the_last_time(archive: Archive) -> None:
    take(archive, put(1, "a"), put(2, "b"), fire(3, f"b-{RUN}"), restore(4, one_shot(id="c")), end(5, f"b-{RUN}"))

    touched = archive.recall().touched_behind(1)

    assert {("b", ""): at(3).t_us, ("b", RUN): at(5).t_us, ("c", ""): OLD_US, ("c", RUN): OLD_US} == touched
    assert {} == archive.recall().touched_behind(5)


def test_an_entry_that_nobody_can_read_touches_nothing(archive: Archive) -> None:
    archive.append([entry(1, "conjure"), put(2, "a"), entry(3, "pause"), Entry.of(b"1-4", [b"x"])])
    archive.commit()

    assert {("a", ""), ("a", RUN)} == archive.recall().touched_behind(0).keys()


def test_everything_is_known_when_nothing_is_common(archive: Archive) -> None:
    take(
        archive,
        put(1, "a", "b"),
        put_recurring(2, "r"),
        fire(3, f"a-{RUN}"),
        entry(4, "run_now", "id", "r", "run", "r-5", "last", 1),
    )

    found = {mine.id: mine for mine in known(archive)}

    assert {"a", "b", "r"} == found.keys()
    assert [None, "due", "due"] == [
        mine.schedule and mine.schedule.held.place for mine in map(found.get, "abr") if mine
    ]
    assert [(RUN, at(3).t_us)] == [(one.held.run, one.t_us) for one in found["a"].runs]
    assert ["5"] == [one.held.run for one in found["r"].runs]
    assert [None] * 3 == [mine.gone_us for mine in found.values()]


def test_backfilled_runs_are_open_with_the_rules_record_and_leave_it_alone(archive: Archive) -> None:
    backfill = entry(3, "backfill", "id", "r", "runs", f"r-{RUN} r-{DUE_MS + 1}-r7")
    take(archive, put_recurring(1, "r", data=b"old"), put_recurring(2, "r"), backfill, end(4, f"r-{RUN}"))

    [mine] = known(archive, "r", behind=2)
    [all_of_it] = known(archive, "r")

    assert (None, None) == (mine.schedule, mine.gone_us)
    [one] = mine.runs
    assert (f"{DUE_MS + 1}-r7", b"call", at(3).t_us) == (one.held.run, one.held.asked_for()[0]["data"], one.t_us)
    assert all_of_it.schedule is not None
    assert at(2).t_us == all_of_it.schedule.t_us


def test_only_what_was_touched_is_known_of_the_others(archive: Archive) -> None:
    advance = f"r fired {RUN} {DUE_MS + 5} {DUE_MS + 5} - - 0 -"
    take(archive, put(1, "a", "b"), put_recurring(2, "r"), enqueue(3, "r-3"), put_recurring(4, "r"))
    take(archive, entry(5, "cancel", "id", "b", "due", RUN), entry(6, "advance", "rows", advance))

    a, b, r = known(archive, "a", "b", "r", behind=4)

    assert (None, None, ()) == (a.schedule, a.gone_us, a.runs)
    assert (None, at(5).t_us, ()) == (b.schedule, b.gone_us, b.runs)
    assert r.schedule is not None
    assert at(6).t_us == r.schedule.t_us
    assert {"3": False, RUN: True} == {one.held.run: one.is_touched for one in r.runs}


def test_a_schedule_that_only_a_run_ended_of_is_no_matter(archive: Archive) -> None:
    take(archive, put(1, "a"), fire(2, f"a-{RUN}"), end(3, f"a-{RUN}"))

    [mine] = known(archive, "a", behind=2)

    assert (None, None, ()) == (mine.schedule, mine.gone_us, mine.runs)


def test_schedules_that_were_put_together_are_beside_each_other(archive: Archive) -> None:
    ids = [f"{number * 7919 % 1000}" for number in range(450)]
    take(archive, put(1, *ids[:300]), put_recurring(2, "r"), put(3, *ids[300:]), fire(4, f"{ids[5]}-{RUN}"))

    found = list(archive.recall().ids())

    assert [*ids[:300], "r", *ids[300:]] == found
    assert found == [mine.id for mine in known(archive)]
    assert len(found) == archive.recall().count()


def test_what_is_put_back_of_what_was_put_back_is_the_same(archive: Archive) -> None:
    given = [one_shot(), rule(), one_shot("paused", "p", "5 why"), rule("ended", "e")]
    take(archive, restore(1, *given))

    again = {mine.id: row_of(mine.schedule) for mine in known(archive) if mine.schedule}

    for one in given:
        found = again[one.id]
        assert one._replace(job=(), own=()) == found._replace(job=(), own=())
        assert (_pairs(one.job), _pairs(one.own) | {b"ended_at": b""}) == (
            _pairs(found.job), _pairs(found.own) | {b"ended_at": b""}
        )  # fmt: skip


def _pairs(texts: Any) -> dict[bytes, bytes]:
    return dict(zip(texts[::2], texts[1::2], strict=True))


# -- arguments that are kept apart ----------------------------------------------------------------


def test_arguments_that_stand_apart_are_known(path: Path) -> None:
    with closing(Archive(path, "default", keep_args=False)) as archive:
        take(archive, put(1, "a", data=b"secret"), put_recurring(2, "r", data=b"secret"))
        no_data = one_shot(id="none")._replace(job=JOB[:2])
        take(archive, restore(3, one_shot("gone", "x")._replace(job=()), one_shot(id="c"), no_data, rule(id="s")))

        found = {mine.id: mine for mine in known(archive)}

        datas = {id: _data(mine) for id, mine in found.items()}
        assert {"a": b"secret", "r": b"secret", "c": b"call", "none": None, "s": b"call"} == datas
    [body] = rows(path, "SELECT body FROM entry WHERE kind = 'restore'")[0]
    assert b"call" not in body


def _data(mine: Mine) -> bytes | None:
    [found] = lacking(mine, None, (), Branch())
    return _pairs(found.job).get(b"data")


# -- left behind ----------------------------------------------------------------------------------


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
        again.scan([held("b"), held("c")], at(5))
        again.end_bootstrap("5")
        assert ({f"b-{RUN}": "due", f"c-{RUN}": "due"}, at(5)) == (places(again), again.position)
        assert again.recall().number_of(at(5)) == 3
        assert None is again.recall().number_of(at(2))


def test_the_data_set_that_was_followed_last_stands_last(archive: Archive) -> None:
    for gen in ("one", "two", "one", "one", "three"):
        archive.note(gen=gen)
    archive.commit()
    assert ["two", "one", "three"] == archive.gens

    archive.close()
    with closing(Archive(archive.path, "default")) as again:
        assert ["two", "one", "three"] == again.gens


# -- beside the writer ----------------------------------------------------------------------------


def test_what_an_archive_knows_is_read_beside_its_writer(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.append([put(2, "b")])

    with recalling(archive.path, "default", ManualClock()) as (recall, facts):
        archive.commit()
        assert (archive.id, ["a"]) == (recall.archive, list(recall.ids()))
        assert (str(at(1)), "default") == (facts["position"], facts["namespace"])


def test_in_the_middle_of_a_bootstrap_the_old_state_is_read(archive: Archive) -> None:
    take(archive, put(1, "a"))
    archive.begin_bootstrap()
    archive.copy([put(2, "b")])
    archive.scan([held("b")], at(2))
    archive.commit()

    with recalling(archive.path, "default", ManualClock()) as (recall, facts):
        assert ["a"] == list(recall.ids())
        assert str(at(1)) == facts["position"]


def test_a_namespace_has_its_own_run_ids(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(Archive(path, "shop")) as archive:
        take(archive, put(1, "a"))

    with recalling(path, "shop", ManualClock()) as (recall, _):
        assert {("a", ""), ("a", f"{RUN}-nshop")} == recall.touched_behind(0).keys()


def test_a_damaged_archive_is_not_read(path: Path) -> None:
    archived(path, [put(1, "a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE entry SET t = t + 1")

    with pytest.raises(ArchiveCorrupt), recalling(path, "default", ManualClock()):
        pass


def test_an_archive_whose_facts_were_changed_is_not_read(path: Path) -> None:
    archived(path, [put(1, "a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO fact VALUES ('known_from', 1)")

    with pytest.raises(ArchiveCorrupt), recalling(path, "default", ManualClock()):
        pass


def test_an_archive_that_knows_nothing_yet_is_not_read(path: Path) -> None:
    archived(path, [])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM fact")

    with pytest.raises(ArchiveError, match="knows nothing"), recalling(path, "default", ManualClock()):
        pass


def test_an_archive_of_another_namespace_or_none_is_not_read(path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no such file"), recalling(path, "default", ManualClock()):
        pass
    archived(path, [put(1, "a")])
    with pytest.raises(ArchiveForeign), recalling(path, "shop", ManualClock()):
        pass


def test_facts_without_a_beginning_of_what_counts_are_those_of_an_older_version(path: Path) -> None:
    archived(path, [put(1, "a")])
    assert [] == rows(path, "SELECT value FROM fact WHERE name = 'known_from'")

    with recalling(path, "default", ManualClock()) as (recall, _):
        assert 1 == recall.number_of(at(1))
    with closing(Archive(path, "default")) as archive:
        assert 1 == archive.recall().number_of(at(1))


def test_a_history_entry_that_is_gone_is_told(archive: Archive) -> None:
    take(archive, put(1, "a"))
    with closing(sqlite3.connect(archive.path, isolation_level=None)) as db:
        db.execute("DELETE FROM entry")

    with pytest.raises(ArchiveCorrupt, match="is gone"):
        known(archive)
