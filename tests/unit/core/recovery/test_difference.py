"""The decisions of a merge, row by row: the history that wins, and the restored rows."""

from dataclasses import replace

import pytest

from tests.builders.entries import entry, put, restore
from tests.builders.records import DUE_MS, JOB, OLD_US, OWN, TEMPLATE
from tests.unit.core.recovering import LATER, RUN, SUFFIX, T_US, one_shot, opened, rule
from zsched.core.entry import Entry, Position
from zsched.core.record import Record
from zsched.core.recovery.difference import Branch, Recalled, Verdict, is_same_set, judge, lacking, restored_row


def branch(*entries: Entry) -> Branch:
    given = Branch()
    for one in entries:
        given.add(one, SUFFIX)
    return given


CANCEL, PAUSE = entry(7, "cancel", "rows", 1, "a", "-"), entry(7, "pause", "note", "", "rows", 1, "a", "low -")
PUT_BACK = restore(8, one_shot())


@pytest.mark.parametrize(
    ("entries", "id", "t_us", "is_newer"),
    [
        ([put(7, "a", "b-1")], "c", 0, False),  # not touched
        ([PAUSE], "a", T_US * 100, True),  # a call wins over any archived change
        ([PUT_BACK], "a", OLD_US - 1, True),
        ([PUT_BACK], "a", OLD_US, True),
        ([PUT_BACK], "a", OLD_US + 1, False),
        ([CANCEL, PUT_BACK], "a", OLD_US + 1, True),
        ([PUT_BACK, CANCEL], "a", OLD_US + 1, True),
    ],
)
def test_a_key_is_newer_after_a_call_or_a_restore_of_a_later_change(
    entries: list[Entry], id: str, t_us: int, is_newer: bool
) -> None:
    assert is_newer == branch(*entries).is_newer((id, ""), t_us)


def test_the_positions_in_merged_entries_are_collected() -> None:
    one = entry(7, "merged", "archive", "x", "rows", 1, "1-2", "3")
    given = branch(one, entry(7, "merged", "archive", "y", "rows", 1, "4-5", "6"))

    assert [Position(1, 2, 3), Position(4, 5, 6)] == given.merged


def test_the_last_restore_is_known_in_whatever_order_the_log_is_read() -> None:
    first, second = restore(7, one_shot(), archive="one"), restore(8, one_shot(), archive="two")

    assert (second.position, "two") == branch(first, second).restored == branch(second, first).restored


MINE = Position(3, 100, 1_000_000_000)
OLD, NEW = 900_000_000, 1_100_000_000
JUDGED = [
    (None, True, Verdict.LOST),  # emptied
    (Position(1, 1, OLD), True, Verdict.LOST),  # rolled back
    (Position(0, 1, NEW), True, Verdict.LOST),  # emptied, and went on
    (Position(3, 200, NEW), True, Verdict.LEFT_BEHIND),  # trimmed past it
    (Position(3, 50, OLD), True, Verdict.LOST),
    (Position(2, 200, OLD), True, Verdict.LOST),  # of an earlier term
    (None, False, Verdict.UNRELATED),
    (Position(0, 1, NEW), False, Verdict.UNRELATED),  # begun after the archive's last entry
    (Position(1, 1, OLD), False, Verdict.UNRELATED),
    (Position(3, 200, NEW), False, Verdict.UNRELATED),
]


@pytest.mark.parametrize(("first", "is_same", "verdict"), JUDGED)
def test_the_verdict_on_a_log_depends_on_its_ends_and_the_data_sets_name(
    first: Position | None, is_same: bool, verdict: Verdict
) -> None:
    assert verdict is judge(MINE, first, is_same_set=is_same)


@pytest.mark.parametrize(
    ("gen", "gens", "expected"),
    [
        (None, ("mine",), True),
        ("new", (), True),
        ("mine", ("old", "mine"), True),
        ("old", ("old", "mine"), True),
        ("new mine", ("mine",), True),  # one that a recovery added
        ("new", ("mine",), False),
        ("min", ("mine",), False),
    ],
)
def test_a_name_never_followed_is_another_data_set(gen: str | None, gens: tuple[str, ...], expected: bool) -> None:
    assert expected is is_same_set(gen, gens)


NOTHING: list[Record] = []


def mine(schedule: Record | None = None, *runs: Record, gone_us: int | None = None) -> Recalled:
    return Recalled("a", schedule, gone_us, runs)


def rows(mine: Recalled, there: Record | None = None, *since: Entry) -> list[tuple[str, str]]:
    """Return place and run of the restored rows."""
    return [(one.place, one.run) for one in lacking(mine, there, branch(*since))]


def unchanged(schedule: Record | None = None, gone_us: int | None = None) -> Recalled:
    """Return a schedule with an open run of which another archive said that nothing is missing."""
    return replace(mine(schedule, opened(), gone_us=gone_us), unchanged=frozenset([RUN]))


REMOVED, FIRED, LATER_ONE = mine(gone_us=OLD_US), mine(None, opened(), gone_us=OLD_US), one_shot(run=LATER)
RESTORED: list[tuple[Recalled, Record | None, list[tuple[str, str]]]] = [
    # a schedule that differs is restored
    (mine(one_shot()), None, [("due", RUN)]),
    (mine(one_shot()), one_shot(), NOTHING),
    (mine(one_shot()), LATER_ONE, [("due", RUN)]),
    (mine(one_shot()), one_shot("paused", note="5 why"), [("due", RUN)]),
    (mine(one_shot("paused", note="5 why")), one_shot(), [("paused", RUN)]),
    (mine(one_shot("quarantine", note="5 why")), None, [("quarantine", RUN)]),
    (mine(one_shot()), rule(), [("due", RUN)]),
    (mine(rule()), None, [("due", "")]),
    (mine(rule()), rule(), NOTHING),
    (mine(rule()), rule(nominal_ms=DUE_MS - 1), [("due", "")]),
    (mine(rule()), one_shot(), [("due", "")]),
    (mine(rule(place="ended", due_ms=None, nominal_ms=None)), None, [("ended", "")]),
    # one that the archive knows as removed is removed
    (REMOVED, None, NOTHING),
    (mine(), one_shot(), NOTHING),  # it is no matter here
    (REMOVED, one_shot(), [("gone", RUN)]),
    (REMOVED, one_shot("paused", note="5 why"), [("gone", RUN)]),
    (REMOVED, rule(), [("gone", "")]),
    # a one-shot that fired
    (FIRED, one_shot(), NOTHING),  # it keeps waiting
    (FIRED, one_shot(job=[]), [("open", RUN)]),  # without its job
    (FIRED, LATER_ONE, [("gone", LATER), ("open", RUN)]),
    # an open run is pushed again, or skipped by its flags
    (mine(None, opened()), None, [("open", RUN)]),
    (mine(None, opened(zs="s")), None, [("skipped", RUN)]),
    (mine(None, opened(zs="fs")), None, [("skipped", RUN)]),
    (mine(None, opened(zs="f")), None, [("open", RUN)]),
    # the run of a replaced schedule, although its job exists
    (mine(LATER_ONE, opened()), one_shot(), [("due", LATER), ("open", RUN)]),
    (unchanged(LATER_ONE), one_shot(), [("due", LATER), ("open", RUN)]),
    (unchanged(LATER_ONE), None, [("due", LATER)]),
    (unchanged(gone_us=OLD_US), one_shot(), NOTHING),
    (unchanged(rule()), rule(last=None), [("due", "")]),  # a rule's, which both histories have
]


@pytest.mark.parametrize(("known", "there", "expected"), RESTORED)
def test_state_that_redis_lacks_is_restored(
    known: Recalled, there: Record | None, expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(known, there)


@pytest.mark.parametrize(("flags", "place"), [("1", "open"), ("s", "skipped")])
def test_a_fired_one_shot_waiting_until_after_the_doubt_does_not_fire_unmarked(flags: str, place: str) -> None:
    fired, waits = mine(None, opened(zs=flags), gone_us=OLD_US), one_shot()

    unmarked = lacking(fired, waits, branch(), waits.due_ms - 1)
    marked = lacking(fired, waits, branch(), waits.due_ms)

    assert [("gone", RUN), (place, RUN)] == [(one.place, one.run) for one in unmarked]
    assert [] == list(marked)


@pytest.mark.parametrize(("flags", "place"), [(b"", "open"), (b"f", "open"), (b"s", "skipped")])
def test_a_run_of_a_rule_is_restored_by_the_flags_of_the_rule(flags: bytes, place: str) -> None:
    run = one_shot("open", job=TEMPLATE, own=[b"flags", flags])

    [found] = lacking(mine(rule(), run), rule(), branch())

    assert (place, TEMPLATE) == (found.place, found.job)
    assert ([b"flags", flags] if flags else []) == list(found.own)


@pytest.mark.parametrize(
    ("given", "there", "since", "expected"),
    [
        (mine(one_shot()), None, PAUSE, NOTHING),
        (mine(rule()), one_shot(), PAUSE, NOTHING),
        (mine(None, gone_us=OLD_US), one_shot(), PAUSE, NOTHING),
        (mine(one_shot()), None, restore(7, one_shot("gone")), NOTHING),
        (mine(one_shot()), None, restore(7, one_shot("gone", t_us=OLD_US - 1)), [("due", RUN)]),
        (mine(None, gone_us=OLD_US), one_shot(), restore(7, one_shot()), NOTHING),
        (mine(None, gone_us=OLD_US), one_shot(), restore(7, one_shot(t_us=OLD_US - 1)), [("gone", RUN)]),
        (mine(None, opened()), None, restore(7, one_shot("open")), NOTHING),
        (mine(None, opened()), None, restore(7, one_shot("skipped")), NOTHING),
        (mine(None, opened()), None, restore(7, one_shot("held")), NOTHING),
        (
            mine(None, opened()),
            None,
            restore(7, one_shot("open", t_us=OLD_US - 1)),
            NOTHING,
        ),  # of an archive that knows another t
        (mine(None, opened()), None, restore(7, one_shot("held", t_us=OLD_US - 1)), NOTHING),
        (mine(None, opened()), None, restore(7, one_shot("skipped", t_us=OLD_US - 1)), [("open", RUN)]),
        (mine(None, opened()), None, restore(7, one_shot("due", t_us=OLD_US - 1)), [("open", RUN)]),
        (mine(None, opened()), None, PAUSE, [("open", RUN)]),  # of the schedule, not of the run
        (mine(None, opened()), None, entry(7, "end", "rows", 1, f"a-{RUN}", "succeeded", "", "{}"), NOTHING),
        (mine(one_shot(), opened(LATER)), None, PAUSE, [("open", LATER)]),
    ],
)
def test_a_change_in_the_new_history_is_not_overwritten(
    given: Recalled, there: Record | None, since: Entry, expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(given, there, since)


def test_a_restored_one_shot_has_the_fields_of_its_put() -> None:
    found = restored_row(one_shot(job=[*JOB, b"status", b"canceled", b"created_at", b"2026"]))

    assert one_shot(own=[]) == replace(found, own=[])


def test_a_restored_rule_has_its_old_progress_and_no_version() -> None:
    own = [*OWN, b"version", b"3-4", b"updated_at", b"6", b"ended_at", b"7"]

    found = restored_row(rule(own=own))

    assert (TEMPLATE, rule().own_fields() | {b"updated_at": b"6"}) == (found.job, found.own_fields())
    assert (rule().nominal_ms, "a-5") == (found.nominal_ms, found.last)


@pytest.mark.parametrize("place", ["paused", "quarantine"])
def test_a_restored_schedule_without_a_note_gets_one_with_its_time(place: str) -> None:
    assert f"{T_US // 1000} " == restored_row(one_shot(place, t_us=T_US)).note


def test_a_schedule_without_a_due_time_is_restored_into_quarantine() -> None:
    found = restored_row(one_shot(due_ms=None, t_us=T_US))

    assert ("quarantine", f"{T_US // 1000} its due time is not valid") == (found.place, found.note)


def test_a_row_that_the_archive_restored_itself_is_not_restored_again() -> None:
    since = branch()
    given = mine(one_shot(run=LATER), opened(zs="s"))
    put_back = list(lacking(given, None, since))

    since.take(put_back)

    assert (["due", "skipped"], []) == ([one.place for one in put_back], list(lacking(given, None, since)))
    assert since.restored is None
