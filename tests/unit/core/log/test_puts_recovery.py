"""The entries of a merge: written and read, shown, and explained."""

import pytest

from tests.builders.entries import entry, fire, put_recurring, restore
from tests.builders.records import DUE_MS, JOB, OWN
from tests.unit.core.recovering import LATER, RUN, one_shot, rule
from zsched.archive.body import without_arguments
from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import changes
from zsched.core.log.puts import MergedEntry, RestoreEntry, restored
from zsched.core.record import Place, Portion, Record
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle

SCHEDULES = ["due", "paused", "quarantine", "ended", "gone"]
RUNS = ["open", "skipped", "held", "refused"]
ROWS = [
    one_shot(),
    Record("r", "", Place.ENDED, "high", None, (b"data", b"\xff\x00"), (b"trigger", b"every 5", b"x", b""), 7, "r-7"),
    Record("p", RUN, Place.PAUSED, "low", DUE_MS, JOB, note="5 until the sale is over\n", t_us=5),
    Record("g", "", Place.GONE, "", None, (), t_us=1 << 60),
    one_shot("refused"),
]


def test_arguments_removed_from_a_restore_are_listed_by_row() -> None:
    _, taken = without_arguments(restore(7, *ROWS))

    assert {0: b"call", 1: b"\xff\x00", 2: b"call", 4: b"call"} == taken


def test_the_rows_of_a_restore_survive_conversion_to_texts_and_back() -> None:
    given = restore(7, *ROWS)

    read = restored(given)

    assert Portion(ROWS).texts == Portion(read).texts
    assert [
        (one.key, one.place, one.due_ms, one.nominal_ms, one.last, one.note, one.t_us, one.request()) for one in ROWS
    ] == [(one.key, one.place, one.due_ms, one.nominal_ms, one.last, one.note, one.t_us, one.request()) for one in read]
    assert [one.id.encode() for one in ROWS] == [given.body[at - 2] for at, _ in RestoreEntry(given).found]


def test_only_rows_with_a_place_of_a_schedule_are_rows_of_schedules() -> None:
    assert SCHEDULES == [place for place in [*SCHEDULES, *RUNS] if one_shot(place).is_schedule]


@pytest.mark.parametrize("position", [Position(0, 1, 0), Position(7, 1 << 60, 1 << 60)])
def test_a_position_survives_conversion_to_text_and_back(position: Position) -> None:
    assert position == Position.parse(str(position))


@pytest.mark.parametrize("shown", ["", "1-2", "1 2", "a-b c", "-"])
def test_an_invalid_text_of_a_position_is_refused(shown: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal"):
        Position.parse(shown)


def test_a_merged_entry_returns_the_positions_that_it_names() -> None:
    positions = [Position(1, 2, 3), Position(4, 5, 6)]

    assert positions == MergedEntry(entry(7, "merged", "archive", "x", "rows", 2, "1-2", "3", "4-5", "6")).positions()
    assert [] == MergedEntry(entry(7, "merged", "archive", "x", "rows", 0)).positions()


@pytest.mark.parametrize("place", [*SCHEDULES, *RUNS])
def test_a_restore_lists_every_place(place: str) -> None:
    [change] = changes(restore(7, one_shot(place)))

    assert ("a", f"a-{RUN}", DUE_MS) == (change.id, change.run_id, change.nominal_ms)
    assert change.why


def explains_absence(*entries: Entry) -> bool:
    """Return True if a schedule with this past may be missing without an error."""
    told = [change for one in entries for change in changes(one) if change.id == "a"]
    return Chronicle("a", Source(None, None, None), told).explains_absence


PUT_RULE = put_recurring(7, "a")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([restore(7, one_shot())], False),
        ([restore(7, one_shot("gone"))], True),
        ([PUT_RULE, restore(7, one_shot()), fire(7, f"a-{RUN}")], True),
        ([restore(7, one_shot("due", "")), entry(7, "run_now", "id", "a", "run", f"a-{RUN}", "last", 1)], False),
        ([fire(7, f"a-{RUN}"), restore(7, one_shot("open"))], True),
        ([fire(7, f"a-{RUN}"), restore(7, one_shot("refused"))], True),
        ([fire(7, f"a-{RUN}"), restore(7, one_shot("held"))], True),
        ([PUT_RULE, restore(7, one_shot("held"))], False),
        ([PUT_RULE, restore(7, one_shot("refused"))], False),
        ([PUT_RULE, restore(7, one_shot("skipped"))], False),
    ],
)
def test_a_past_with_a_restore_explains_an_absence_if_it_ended_since(entries: list[Entry], expected: bool) -> None:
    assert expected == explains_absence(*entries)


def test_fields_that_change_with_time_are_not_compared() -> None:
    aged = [*JOB, b"status", b"scheduled", b"created_at", b"2026", b"enqueued_at", b"2026"]

    assert one_shot().is_same(one_shot(job=aged))
    assert rule().is_same(rule(own=[*OWN[:-2], b"version", b"3-9", b"updated_at", b"6"]))


@pytest.mark.parametrize(
    "other",
    [
        one_shot("paused"), one_shot(run=LATER), one_shot(lane="high"), one_shot(due_ms=None), one_shot(note="5 why"),
        one_shot(job=JOB[:-2]), one_shot(job=[*JOB[:-1], b"f"]), rule(),
    ],
)  # fmt: skip
def test_a_different_one_shot_is_not_the_same(other: Record) -> None:
    assert not one_shot().is_same(other)
    assert not other.is_same(one_shot())


@pytest.mark.parametrize(
    "other",
    [
        rule(nominal_ms=DUE_MS + 1), rule(last=None), rule(last="a-6"), rule(place=Place.ENDED, due_ms=None),
        rule(own=[*OWN[:1], b"every 6", *OWN[2:]]), rule(job=JOB[:4]),
    ],
)  # fmt: skip
def test_a_different_rule_is_not_the_same(other: Record) -> None:
    assert not rule().is_same(other)
