"""What a merge decides, row by row: what entries touched, which history wins, and what is put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zsched.core.changes import changes
from zsched.core.entries import Restored, merged, restored
from zsched.core.held import Held
from zsched.core.log import KINDS, Entry, Position, UnknownEntry
from zsched.core.recovery import Branch, Known, Mine, Verdict, judge, lacking, row_of
from zsched.core.story import Chronicle, Source
from zsched.core.touches import Touch, touches

T_US = 1_800_000_000_123_456
DUE_MS = 1_800_000_000_000
SUFFIX = "-nshop"
RUN = f"{DUE_MS}{SUFFIX}"
LATER = f"{DUE_MS + 1}{SUFFIX}"
FIELDS = [b"description", b"app.task", b"origin", b"mail", b"data", b"\x80\n", b"zs", b"1"]
OWN = [b"schedule:trigger", b"every 60000", b"schedule:lane", b"high", b"schedule:created_at", b"5"]


def entry(kind: str, *texts: Any, seq: int = 7, t_us: int = T_US) -> Entry:
    """Entry 3-<seq> as XRANGE gives it."""
    own = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
    return Entry.of(b"3-%d" % seq, [b"kind", kind.encode(), b"t", b"%d" % t_us, *own])


def one_shot(place: str = "due", run: str = RUN, **more: Any) -> Held:
    due_ms = int(run.partition("-")[0])
    return replace(Held("a", run, place, "normal", due_ms, None, None, None, FIELDS), **more)


def rule(**more: Any) -> Held:
    """A recurring schedule."""
    return replace(Held("a", "", "due", "high", DUE_MS, DUE_MS, "a-5", None, [*FIELDS[:6], *OWN]), **more)


def opened(run: str = RUN, flags: bytes = b"1") -> Known:
    """A run that was fired and is not over."""
    return Known(one_shot("open", run, lane="", record=[*FIELDS[:-1], flags]), 50)


def row(place: str = "due", run: str = RUN, t_us: int = 50, id: str = "a") -> Restored:
    return Restored(id, run, place, "normal", DUE_MS, t_us, None, FIELDS, ())


def restore(*rows: Restored, archive: str = "archive-1", seq: int = 7) -> Entry:
    texts = [text for one in rows for text in one.texts()]
    return entry("restore", "reason", "lost", "archive", archive, "rows", len(rows), *texts, seq=seq)


# -- what entries touch ---------------------------------------------------------------------------

PUT = ["lane", "low", "fields", 1, "origin", "mail", "rows", 2]
PUT += ["a", DUE_MS, "data", b"\x80", "b-1", DUE_MS + 1, "data", b""]
RULE = ["id", "r", "due", DUE_MS, "schedule", 1, "trigger", "every 5", "template", 1, "data", b"\xff"]
FIRE = [
    "runs", f"a-{RUN} b-1-{RUN}", "uncertain", f"a-{RUN}", "skipped", f"c-{RUN}", "expired", f"x-{RUN}",
    "cancelled", f"d-{RUN}=canceled", "quarantined", f"e low {DUE_MS} its hash is gone\ntwo words high 1.5 why not",
]  # fmt: skip
ADVANCE = f"r fired {DUE_MS} {DUE_MS + 5} {DUE_MS + 9} - -\ns quarantined {DUE_MS} - - - no queue\n" + (
    f"m passed - {DUE_MS + 5} {DUE_MS + 9} missed:{DUE_MS - 5}:{DUE_MS}:2 -"
)
ADVANCE_BEFORE = f"r fired {DUE_MS} {DUE_MS + 5} {DUE_MS + 5} - - 0 -\ns quarantined {DUE_MS} - - - - 0 no queue"
REPLAN = f"r {DUE_MS} {DUE_MS + 5} {DUE_MS + 6}\ns-1 {DUE_MS} 5 5"
END = f"a-{RUN} succeeded {{}}\na-r-{RUN}-r1 failed {{}}"
AGAIN = f"a-{RUN} 2 its worker died\na-r-{RUN}-r1 3 its worker died"

TOUCHED: dict[str, tuple[Entry, list[tuple[str, str]]]] = {
    "put": (entry("put", *PUT), [("a", ""), ("a", RUN), ("b-1", ""), ("b-1", LATER)]),
    "put_recurring": (entry("put_recurring", *RULE), [("r", "")]),
    "enqueue": (entry("enqueue", "run", f"a-1-{RUN}", "front", 0, "fields", 0), [("a-1", ""), ("a-1", RUN)]),
    "run_now": (entry("run_now", "id", "r", "run", f"r-{RUN}-r1", "last", 1), [("r", ""), ("r", f"{RUN}-r1")]),
    "backfill": (entry("backfill", "id", "r", "runs", f"r-{RUN} r-{RUN}-r7"), [("r", RUN), ("r", f"{RUN}-r7")]),
    "fire": (
        entry("fire", *FIRE),
        [(id, run) for id in ("a", "b-1", "c", "x", "d") for run in ("", RUN)] + [("e", ""), ("two words", "")],
    ),
    "fire of nothing": (entry("fire"), []),
    "advance": (entry("advance", "moves", ADVANCE), [("r", ""), ("r", RUN), ("s", ""), ("s", RUN), ("m", "")]),
    "advance before there were policies": (
        entry("advance", "rows", ADVANCE_BEFORE),
        [("r", ""), ("r", RUN), ("s", ""), ("s", RUN)],
    ),
    "quarantine": (entry("quarantine", "rows", f"e low {DUE_MS} why"), [("e", "")]),
    "cancel": (entry("cancel", "id", "a", "due", DUE_MS), [("a", ""), ("a", RUN)]),
    "cancel of an ended one": (entry("cancel", "id", "a", "due", "-"), [("a", "")]),
    "pause": (entry("pause", "id", "a", "due", DUE_MS, "note", "why"), [("a", "")]),
    "resume": (entry("resume", "id", "a", "due", DUE_MS), [("a", "")]),
    "replan": (entry("replan", "old", "", "new", "2026a", "rows", REPLAN), [("r", ""), ("s-1", "")]),
    "end": (entry("end", "rows", END), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "again": (entry("again", "rows", AGAIN), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "unblock": (entry("unblock", "rows", f"a-{RUN} a-1 was stopped"), [("a", RUN)]),
    "merged": (entry("merged", "archive", "archive-1", "positions", "1-2 3"), []),
    "term": (entry("term", "daemon", "d", "server", "s"), []),
}


@pytest.mark.parametrize("name", TOUCHED)
def test_an_entry_touches_what_it_names(name: str) -> None:
    given, keys = TOUCHED[name]

    assert [Touch(key, T_US) for key in keys] == list(touches(given, SUFFIX))


def test_a_restore_touches_with_the_time_of_what_it_repeats() -> None:
    given = restore(row(t_us=5), row("gone", "", 6, "r"), row("open", t_us=7), row("skipped", t_us=8, id="b"))

    expected = [(("a", ""), 5), (("a", RUN), 5), (("r", ""), 6), (("a", RUN), 7), (("b", RUN), 8)]
    assert [Touch(key, t_us, True) for key, t_us in expected] == list(touches(given, SUFFIX))


def test_every_kind_is_in_the_tables() -> None:
    assert KINDS == {name.partition(" ")[0] for name in TOUCHED} | {"restore"}


BROKEN = [entry("conjure"), entry("put", "lane", "low"), entry("pause"), entry("run_now", "id", "r"),
          entry("backfill", "runs", "r"),
          entry("advance", "moves", "r fired"), entry("end", "rows", "r"),
          entry("again", "rows", "r two w"), entry("quarantine", "rows", "x"),
          entry("cancel", "id", "a"), entry("enqueue"), entry("replan", "rows", "r 5 6"),
          entry("restore", "reason", "lost", "archive", "x", "rows", 1, "a")]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.kind)
def test_an_entry_of_no_known_form_is_unknown(broken: Entry) -> None:
    with pytest.raises(UnknownEntry):
        list(touches(broken, SUFFIX))


# -- texts ----------------------------------------------------------------------------------------

ROWS = [
    row(),
    Restored("r", "", "ended", "high", None, 5, None, (b"data", b"\xff\x00"), (b"trigger", b"every 5", b"x", b"")),
    Restored("p", RUN, "paused", "low", DUE_MS, 5, "5 until the sale is over\n", FIELDS, ()),
    Restored("g", "", "gone", "", None, 1 << 60, None, (), ()),
    row("refused"),
]


def test_the_rows_of_a_restore_are_read_as_they_were_written() -> None:
    given = restore(*ROWS)

    read = list(restored(given))

    assert [one.texts() for one in ROWS] == [one.texts() for _, one in read]
    assert [one._replace(job=list(one.job), own=list(one.own)) for one in ROWS] == [
        one._replace(job=list(one.job), own=list(one.own)) for _, one in read
    ]
    assert [one.id.encode() for one in ROWS] == [given.body[at] for at, _ in read]


def test_only_what_says_where_a_schedule_is_is_of_a_schedule() -> None:
    schedules = ["due", "paused", "quarantine", "ended", "gone"]

    assert schedules == [place for place in [*schedules, "open", "skipped", "refused"] if row(place).is_schedule]


@pytest.mark.parametrize("position", [Position(0, 1, 0), Position(7, 1 << 60, 1 << 60)])
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    assert position == Position.parse(str(position))


@pytest.mark.parametrize("shown", ["", "1-2", "1 2", "a-b c", "-"])
def test_what_is_no_position_is_not_read(shown: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal"):
        Position.parse(shown)


def test_a_merged_entry_names_the_ends_of_histories() -> None:
    positions = [Position(1, 2, 3), Position(4, 5, 6)]

    assert positions == merged(entry("merged", "archive", "x", "positions", "1-2 3\n4-5 6"))


def test_a_merged_entry_may_name_none() -> None:
    assert [] == merged(entry("merged", "archive", "x", "positions", ""))


@pytest.mark.parametrize("place", ["due", "paused", "quarantine", "ended", "gone", "open", "skipped", "refused"])
def test_every_place_of_a_restore_is_told(place: str) -> None:
    [change] = changes(restore(row(place)))

    assert ("a", f"a-{RUN}", DUE_MS) == (change.id, change.run_id, change.nominal_ms)
    assert change.why


def explains_absence(*entries: Entry) -> bool:
    """Whether who has this past need not be there any more."""
    told = [change for one in entries for change in changes(one) if change.id == "a"]
    return Chronicle("a", Source(None, None, None), told).explains_absence


PUT_RULE = entry("put_recurring", *RULE[:1], "a", *RULE[2:])


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([restore(row())], False),
        ([restore(row("gone"))], True),
        ([PUT_RULE, restore(row()), entry("fire", "runs", f"a-{RUN}")], True),
        ([restore(row("due", "")), entry("run_now", "id", "a", "run", f"a-{RUN}", "last", 1)], False),
        ([entry("fire", "runs", f"a-{RUN}"), restore(row("open"))], True),
        ([entry("fire", "runs", f"a-{RUN}"), restore(row("refused"))], True),
        ([PUT_RULE, restore(row("refused"))], False),
        ([PUT_RULE, restore(row("skipped"))], False),
    ],
)
def test_a_past_with_a_restore_says_whether_it_is_there(entries: list[Entry], expected: bool) -> None:
    assert expected == explains_absence(*entries)


# -- branch ---------------------------------------------------------------------------------------


def branch(*entries: Entry) -> Branch:
    given = Branch()
    for one in entries:
        given.add(one, SUFFIX)
    return given


def test_what_the_new_history_did_not_touch_is_not_newer() -> None:
    assert not branch(entry("put", *PUT)).is_newer(("c", ""), 0)


def test_what_somebody_did_in_the_new_history_stands_against_everything() -> None:
    assert branch(entry("pause", "id", "a", "due", "-", "note", "")).is_newer(("a", ""), T_US * 100)


@pytest.mark.parametrize(("t_us", "is_newer"), [(49, True), (50, True), (51, False)])
def test_of_two_archives_the_later_change_stands(t_us: int, is_newer: bool) -> None:
    assert is_newer == branch(restore(row(t_us=50))).is_newer(("a", ""), t_us)


def test_a_restore_over_what_somebody_did_does_not_take_it_away() -> None:
    did, put_back = entry("cancel", "id", "a", "due", "-"), restore(row(t_us=50), seq=8)

    assert branch(did, put_back).is_newer(("a", ""), 51)
    assert branch(put_back, did).is_newer(("a", ""), 51)


def test_the_ends_that_merged_entries_name_are_gathered() -> None:
    given = branch(
        entry("merged", "archive", "x", "positions", "1-2 3"), entry("merged", "archive", "y", "positions", "4-5 6")
    )

    assert [Position(1, 2, 3), Position(4, 5, 6)] == given.merged


def test_the_last_restore_is_known_in_whatever_order_the_log_is_read() -> None:
    first, second = restore(row(), archive="one", seq=7), restore(row(), archive="two", seq=8)

    assert (second.position, "two") == branch(first, second).restored == branch(second, first).restored


# -- which history is this ------------------------------------------------------------------------

MINE = Position(3, 100, 1_000_000_000)
OLD, NEW, SKEWED = 900_000_000, 1_100_000_000, 950_000_000
JUDGED = [
    # (first, last, is_known, is_same_set), verdict
    ((None, False, True), Verdict.LOST),  # emptied
    ((None, False, False), Verdict.LOST),
    ((Position(1, 1, OLD), True, True), Verdict.LOST),  # rolled back
    ((Position(9, 200, OLD), True, False), Verdict.LOST),  # a merged entry names it
    ((Position(0, 1, NEW), False, True), Verdict.LOST),  # emptied, and went on
    ((Position(0, 1, NEW), False, False), Verdict.LOST),  # under another name
    ((Position(1, 1, OLD), False, False), Verdict.UNRELATED),
    ((Position(1, 1, SKEWED), False, False), Verdict.LOST),  # clocks may differ
    ((Position(1, 1, OLD), False, True), Verdict.LOST),
    ((Position(3, 200, NEW), False, True), Verdict.LEFT_BEHIND),  # trimmed past it
    ((Position(3, 50, OLD), False, True), Verdict.LOST),
    ((Position(2, 200, OLD), False, True), Verdict.LOST),  # of an earlier term
    ((Position(3, 200, OLD), False, False), Verdict.UNRELATED),
    ((Position(3, 50, OLD), False, False), Verdict.UNRELATED),
]


@pytest.mark.parametrize(("given", "verdict"), JUDGED)
def test_what_happened_to_the_log_is_judged_by_its_ends(given: tuple[Any, ...], verdict: Verdict) -> None:
    first, is_known, is_same_set = given

    assert verdict is judge(MINE, first, is_known=is_known, is_same_set=is_same_set)


# -- what is the same -----------------------------------------------------------------------------


def test_what_changes_as_time_goes_by_does_not_make_a_difference() -> None:
    aged = [*FIELDS, b"status", b"scheduled", b"created_at", b"2026", b"enqueued_at", b"2026"]

    assert one_shot().is_same(one_shot(record=aged))
    assert rule().is_same(
        rule(record=[*FIELDS[:6], *OWN[:4], b"schedule:version", b"3-9", b"schedule:updated_at", b"6"])
    )


@pytest.mark.parametrize(
    "other",
    [
        one_shot("paused"), one_shot(run=LATER), one_shot(lane="high"), one_shot(due_ms=None), one_shot(note="5 why"),
        one_shot(record=FIELDS[:-2]), one_shot(record=[*FIELDS[:-1], b"f"]), rule(),
    ],
)  # fmt: skip
def test_a_one_shot_that_differs_is_not_the_same(other: Held) -> None:
    assert not one_shot().is_same(other)
    assert not other.is_same(one_shot())


@pytest.mark.parametrize(
    "other",
    [
        rule(nominal_ms=DUE_MS + 1), rule(last=None), rule(last="a-6"), rule(place="ended", due_ms=None),
        rule(record=[*FIELDS[:6], *OWN[:1], b"every 6", *OWN[2:]]), rule(record=[*FIELDS[:4], *OWN]),
    ],
)  # fmt: skip
def test_a_rule_that_differs_is_not_the_same(other: Held) -> None:
    assert not rule().is_same(other)


# -- what is lacking ------------------------------------------------------------------------------

NOTHING: list[Restored] = []


def mine(schedule: Held | None = None, *runs: Known, gone_us: int | None = None) -> Mine:
    return Mine("a", Known(schedule, 50) if schedule else None, gone_us, runs)


def rows(mine: Mine, there: Held | None = None, jobs: tuple[str, ...] = (), *since: Entry) -> list[tuple[str, str]]:
    """Place and run of what is put back."""
    return [(one.place, one.run) for one in lacking(mine, there, jobs, branch(*since))]


@pytest.mark.parametrize(
    ("schedule", "there", "expected"),
    [
        (one_shot(), None, [("due", RUN)]),
        (one_shot(), one_shot(), NOTHING),
        (one_shot(), one_shot(run=LATER), [("due", RUN)]),
        (one_shot(), one_shot("paused", note="5 why"), [("due", RUN)]),
        (one_shot("paused", note="5 why"), one_shot(), [("paused", RUN)]),
        (one_shot("quarantine", note="5 why"), None, [("quarantine", RUN)]),
        (one_shot(), rule(), [("due", RUN)]),
        (rule(), None, [("due", "")]),
        (rule(), rule(), NOTHING),
        (rule(), rule(nominal_ms=DUE_MS - 1), [("due", "")]),
        (rule(), one_shot(), [("due", "")]),
        (rule(place="ended", due_ms=None, nominal_ms=None), None, [("ended", "")]),
    ],
)
def test_a_schedule_that_is_not_as_it_was_is_put_back(
    schedule: Held, there: Held | None, expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(mine(schedule), there)


@pytest.mark.parametrize(
    ("there", "gone_us", "expected"),
    [
        (None, 50, NOTHING),
        (one_shot(), None, NOTHING),  # it is no matter here
        (one_shot(), 50, [("gone", RUN)]),
        (one_shot("paused", note="5 why"), 50, [("gone", RUN)]),
        (rule(), 50, [("gone", "")]),
    ],
)
def test_a_schedule_that_was_over_is_taken_out(
    there: Held | None, gone_us: int | None, expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(mine(gone_us=gone_us), there)


def test_a_one_shot_that_fired_and_was_not_over_waits_on_where_it_waits() -> None:
    assert NOTHING == rows(mine(None, opened(), gone_us=50), one_shot(), (RUN,))


def test_another_time_of_a_one_shot_that_fired_is_taken_out_and_its_run_pushed_again() -> None:
    assert [("gone", LATER), ("open", RUN)] == rows(mine(None, opened(), gone_us=50), one_shot(run=LATER), (LATER,))


@pytest.mark.parametrize(
    ("run", "jobs", "expected"),
    [
        (opened(), (), [("open", RUN)]),
        (opened(), (RUN,), NOTHING),
        (opened(flags=b"s"), (), [("skipped", RUN)]),
        (opened(flags=b"fs"), (), [("skipped", RUN)]),
        (opened(flags=b"s"), (RUN,), NOTHING),
        (opened(flags=b"f"), (), [("open", RUN)]),
    ],
)
def test_a_run_that_was_not_over_is_pushed_again_or_its_schedule_says_not(
    run: Known, jobs: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(mine(None, run), None, jobs)


@pytest.mark.parametrize(("flags", "place"), [(b"", "open"), (b"f", "open"), (b"s", "skipped")])
def test_a_run_of_a_rule_goes_by_the_rules_flags(flags: bytes, place: str) -> None:
    run = Known(one_shot("open", record=[*FIELDS[:6], b"schedule:flags", flags]), 50)

    [found] = lacking(mine(rule(), run), rule(), (), branch())

    assert (place, FIELDS[:6]) == (found.place, found.job)
    assert ([b"flags", flags] if flags else []) == found.own


def test_the_run_of_a_schedule_that_is_replaced_is_pushed_again_though_its_job_is_there_still() -> None:
    given = mine(one_shot(run=LATER), opened())

    assert [("due", LATER), ("open", RUN)] == rows(given, one_shot(), (RUN,))


UNTOUCHED = replace(opened(), is_touched=False)  # another archive said that nothing of it is missing


def test_the_run_of_a_schedule_that_is_replaced_is_pushed_again_though_another_archive_left_it_waiting() -> None:
    assert [("due", LATER), ("open", RUN)] == rows(mine(one_shot(run=LATER), UNTOUCHED), one_shot(), (RUN,))
    assert [("due", LATER)] == rows(mine(one_shot(run=LATER), UNTOUCHED), None, ())
    assert NOTHING == rows(mine(None, UNTOUCHED, gone_us=50), one_shot(), (RUN,))


def test_the_runs_of_a_rule_that_is_put_back_stay() -> None:
    assert [("due", "")] == rows(mine(rule(), opened()), rule(last=None), (RUN,))


PAUSE = entry("pause", "id", "a", "due", "-", "note", "")


@pytest.mark.parametrize(
    ("given", "there", "since", "expected"),
    [
        (mine(one_shot()), None, PAUSE, NOTHING),
        (mine(rule()), one_shot(), PAUSE, NOTHING),
        (mine(None, gone_us=50), one_shot(), PAUSE, NOTHING),
        (mine(one_shot()), None, restore(row("gone", t_us=50)), NOTHING),
        (mine(one_shot()), None, restore(row("gone", t_us=49)), [("due", RUN)]),
        (mine(None, gone_us=50), one_shot(), restore(row(t_us=50)), NOTHING),
        (mine(None, gone_us=50), one_shot(), restore(row(t_us=49)), [("gone", RUN)]),
        (mine(None, opened()), None, restore(row("open", t_us=50)), NOTHING),
        (mine(None, opened()), None, restore(row("skipped", t_us=50)), NOTHING),
        (mine(None, opened()), None, PAUSE, [("open", RUN)]),  # of the schedule, not of the run
        (mine(None, opened()), None, entry("end", "rows", f"a-{RUN} succeeded {{}}"), NOTHING),
        (mine(one_shot(), opened(LATER)), None, PAUSE, [("open", LATER)]),
    ],
)
def test_what_the_new_history_says_stands(
    given: Mine, there: Held | None, since: Entry, expected: list[tuple[str, str]]
) -> None:
    assert expected == rows(given, there, (), since)


# -- rows -----------------------------------------------------------------------------------------


def test_a_one_shot_is_put_back_as_it_was_asked_for() -> None:
    found = row_of(Known(one_shot(record=[*FIELDS, b"status", b"canceled", b"created_at", b"2026"]), 50))

    assert Restored("a", RUN, "due", "normal", DUE_MS, 50, None, FIELDS, []) == found


def test_a_rule_is_put_back_with_where_it_was_and_without_its_version() -> None:
    own = [
        *OWN,
        b"schedule:version",
        b"3-4",
        b"schedule:nominal",
        b"1",
        b"schedule:last",
        b"a-1",
        b"schedule:updated_at",
        b"6",
    ]

    found = row_of(Known(rule(record=[*FIELDS[:6], *own]), 50))

    expected = {
        b"trigger": b"every 60000",
        b"lane": b"high",
        b"created_at": b"5",
        b"updated_at": b"6",
        b"nominal": b"%d" % DUE_MS,
        b"last": b"a-5",
    }
    assert (FIELDS[:6], expected) == (found.job, dict(zip(found.own[::2], found.own[1::2], strict=True)))


def test_a_rule_that_had_ended_says_since_when() -> None:
    found = row_of(Known(rule(place="ended", due_ms=None, nominal_ms=None, last=None), T_US))

    own = dict(zip(found.own[::2], found.own[1::2], strict=True))
    assert (b"%d" % (T_US // 1000), False) == (own[b"ended_at"], b"nominal" in own or b"last" in own)


@pytest.mark.parametrize("place", ["paused", "quarantine"])
def test_one_without_a_note_has_one_that_says_since_when(place: str) -> None:
    assert f"{T_US // 1000} " == row_of(Known(one_shot(place), T_US)).note


def test_one_that_is_due_at_no_time_is_put_back_where_people_see_it() -> None:
    found = row_of(Known(one_shot(due_ms=None), T_US))

    assert ("quarantine", f"{T_US // 1000} its due time is none") == (found.place, found.note)


def test_what_an_archive_put_back_itself_is_not_lacking_again() -> None:
    since = branch()
    given = mine(one_shot(run=LATER), opened(flags=b"s"))
    put_back = list(lacking(given, None, (), since))

    since.take(put_back)

    assert (["due", "skipped"], []) == ([one.place for one in put_back], list(lacking(given, None, (), since)))
    assert since.restored is None
