"""The effect of restores and ends on an archive's state."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import advance, cancel, end, entry, fire, put, put_recurring, restore
from tests.builders.records import DUE_MS, OLD_US, RUN, one_shot, open_run, rule
from tests.states import state_of
from tests.unit.archive.contents import places, take
from zsched.archive import Archive
from zsched.core.entry import Entry
from zsched.core.record import Portion
from zsched.core.recovery.difference import restored_row

ADVANCED = f"r fired {RUN} {DUE_MS + 5} {DUE_MS + 5} -"
FOLDED = {
    "due": (one_shot(), ("due", DUE_MS, None, None, None, OLD_US)),
    "paused": (one_shot("paused", note="5 why"), ("paused", DUE_MS, None, None, "5 why", OLD_US)),
    "quarantine": (one_shot("quarantine", note="5 no"), ("quarantine", DUE_MS, None, None, "5 no", OLD_US)),
    "open": (open_run(), ("open", DUE_MS, None, None, "uncertain", OLD_US)),
    "rule": (rule(id="a"), ("due", DUE_MS, DUE_MS, "a-5", None, OLD_US)),
    "held": (one_shot("held"), ("open", DUE_MS, None, None, "uncertain", OLD_US)),
    "paused rule": (rule("paused", "a", note="5 "), ("paused", DUE_MS, DUE_MS, "a-5", "5 ", OLD_US)),
    "ended rule": (rule("ended", "a"), ("ended", None, None, "a-5", None, OLD_US)),
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
    "paused": [put(1, "a", due_ms=5), entry(2, "pause", "note", "no", "rows", 1, "a", "low 5")],
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("is_written", [True, False])
def test_a_restore_replaces_any_earlier_state(archive: Archive, name: str, before: str, is_written: bool) -> None:
    given, expected = FOLDED[name]
    if is_written:
        take(archive, *BEFORE[before])
        take(archive, restore(5, given))
    else:
        take(archive, *BEFORE[before], restore(5, given))

    left = {one.key for one in state_of(archive)}
    of_row = {("a", given.run)} if expected else set()
    if given.is_schedule:  # what replaces it: open runs stay
        run_stays = {("a", RUN)} if before == "an open run" else set()
        assert of_row | run_stays == left
    else:
        schedules = {"another rule": {("a", "")}, "another time": {("a", "5")}, "paused": {("a", "5")}}
        assert of_row | schedules.get(before, set()) == left
    if expected:
        [found] = [one for one in state_of(archive) if one.key == ("a", given.run)]
        assert expected == (found.place, found.due_ms, found.nominal_ms, found.last, found.note, found.t_us)


@pytest.mark.parametrize("name", FOLDED)
def test_folding_twice_ends_in_the_same_state(archive: Archive, name: str) -> None:
    given, _ = FOLDED[name]
    entries = [put(1, "b"), restore(2, given), put(3, "c"), end(4, f"b-{RUN}")]
    take(archive, *entries)
    once = list(state_of(archive))

    archive.begin_bootstrap()
    archive.append(entries)
    archive.append(entries)
    archive.end_bootstrap("start")

    assert once == list(state_of(archive))
    assert 0 == archive.unknown_entries


def test_a_restored_schedule_has_the_record_of_its_row(archive: Archive) -> None:
    take(archive, restore(1, open_run(), rule(), one_shot(id="b")))

    found = {one.id: one for one in state_of(archive)}
    given = ("", open_run()), ("low", rule()), ("low", one_shot())
    assert [(lane, one.job_fields()) for lane, one in given] == [
        (found[id].lane, found[id].job_fields()) for id in "arb"
    ]
    assert (b"rule-1", {}) == (found["r"].own_fields()[b"trigger"], found["a"].own_fields())


def test_a_restored_schedule_changes_with_the_entries_that_follow(archive: Archive) -> None:
    take(archive, restore(1, rule(), one_shot(), one_shot(id="b")))
    take(archive, advance(2, ADVANCED), fire(3, f"a-{RUN}"), cancel(4, "b"))

    assert {"r": "due", f"r-{RUN}": "open", f"a-{RUN}": "open"} == places(archive)
    assert b"call" == next(one for one in state_of(archive) if one.key == ("r", RUN)).job_fields()[b"data"]


def test_an_ended_run_is_not_open_and_its_schedule_stays(archive: Archive) -> None:
    take(archive, put_recurring(1, "r"), put(2, "a"), advance(3, ADVANCED), fire(4, f"a-{RUN}"))

    take(archive, end(5, f"r-{RUN}", f"a-{RUN}", "unknown-5"))

    assert {"r": "due"} == places(archive)


@pytest.mark.parametrize(
    "broken",
    [
        entry(2, "restore", "reason", "lost", "archive", "x", *Portion([one_shot(id="b")]).texts[:-1], "format", 7),
        entry(2, "restore", "shapes", 0, "rows", 0),
        entry(2, "end", "rows", 1, "a"),
        put(2, "b", due_ms=10**30),
        put_recurring(2, "r", due_ms=10**19),
        restore(2, rule(t_us=10**30)),
        entry(2, "pause", "note", "no", "rows", 1, "a", f"low {10**30}"),
    ],
    ids=["too few rows", "no head", "end", "no time of a put", "of a rule", "of a restore", "of a pause"],
)
@pytest.mark.parametrize("keep_args", [True, False])
def test_a_broken_entry_changes_nothing_and_is_kept(path: Path, broken: Entry, keep_args: bool) -> None:
    with closing(Archive(path, "default", keep_args=keep_args)) as archive:
        take(archive, put(1, "a"))
        assert 1 == len(archive.append([broken]))
        archive.commit()

        assert ({f"a-{RUN}": "due"}, 1) == (places(archive), archive.unknown_entries)


def test_a_state_is_kept_until_a_pause_and_restored_with_its_schedule(archive: Archive) -> None:
    def states() -> set[str]:
        return {row.state for row in state_of(archive) if row.key == ("r", "")}

    take(archive, put_recurring(1, "r"), entry(2, "state", "rows", 1, "r", "failures=2"))
    assert {"failures=2"} == states()
    [known] = archive.recall().known(["r"])
    assert "failures=2" == restored_row(known.schedule).state

    take(archive, entry(3, "state", "rows", 2, "gone", "skips=1", "r", "-"))
    assert {""} == states()

    take(archive, restore(4, rule(state="skips=7")))
    assert {"skips=7"} == states()

    take(archive, entry(5, "pause", "note", "why", "rows", 1, "r", f"high {DUE_MS}"))
    assert {""} == states()
