"""The story of a schedule: a line for every kind of change, reasons for being late, gaps, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from zsched.core.changes import Change, What
from zsched.core.clock import LAST_MS
from zsched.core.model import Priority, Schedule, ScheduleState
from zsched.core.runs import GONE, Run, RunStatus, pushed, row_of
from zsched.core.sentences import duration_text, local_text, sentence
from zsched.core.story import Chronicle, Source, Story, tell

DUE_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
DUE = "2026-01-01 00:00:00+00:00"
MINUTE_MS = 60_000
RUN = f"a-{DUE_MS}"
COMPLETE = Source("host:/a.db", None, "1-9")
PARTIAL = Source("host:/a.db", DUE_MS, "1-9")
REDIS = Source(None, DUE_MS, "1-9", "no archive answered within 2 s")


def change(what: What, at_ms: float = DUE_MS, entry: str = "", **more: Any) -> Change:
    """A change of schedule a; an entry of its own, unless *entry* says which."""
    return Change("a", what, int(at_ms * 1000), entry or f"1-{int(at_ms * 1000)}", **more)


def put(at_ms: float, due_ms: int | None = DUE_MS, **more: Any) -> Change:
    return change(What.PUT, at_ms, nominal_ms=due_ms, run_id=RUN, **more)


def ended(status: RunStatus = RunStatus.SUCCEEDED, **more: Any) -> Run:
    """A run that waited for 3 ms and took 1.2 s."""
    return Run(RUN, status, DUE_MS * 1000, DUE_MS, DUE_MS + 3, DUE_MS + 1203, worker="w", **more)


def run_ended(run: Run) -> Change:
    _, status, record = row_of(run).split(" ", 2)
    return change(What.RUN_ENDED, run_id=run.id, why=status, record=record)


def story(
    *changes: Change, schedule: Schedule | None = None, tz: str | None = None, runs: Sequence[Run] = (), **known: Any
) -> Story:
    return tell(Chronicle("a", known.pop("source", COMPLETE), changes, **known), schedule, DUE_MS, tz, runs)


def texts(*changes: Change, **known: Any) -> list[str]:
    return [text for _, text in story(*changes, **known).lines]


def held(state: ScheduleState = ScheduleState.ACTIVE, **more: Any) -> Schedule:
    """Schedule a as Redis holds it."""
    given = {"next_ms": DUE_MS + MINUTE_MS, "tz": "UTC"} | more
    return Schedule("a", state, "once", "app.run", "default", Priority.NORMAL, **given)


# -- a line for every kind ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (put(0), f"created for {DUE}"),
        (put(0, by="me"), f"created for {DUE}, by me"),
        (put(0, None), "created for no time: it has ended"),
        (
            change(What.FOUND, nominal_ms=DUE_MS, why="due"),
            f"found in Redis (active, due {DUE}): what was before is not in this archive",
        ),
        (
            change(What.FOUND, run_id=RUN, why="open"),
            f"found in Redis: run {RUN} was not over; what was before is not in this archive",
        ),
        (change(What.PAUSED), "paused"),
        (change(What.PAUSED, why="until May"), 'paused: "until May"'),
        (change(What.RESUMED, nominal_ms=DUE_MS + 1), "resumed; next 2026-01-01 00:00:00.001+00:00"),
        (change(What.RESUMED, nominal_ms=DUE_MS), f"resumed; it was due {DUE}"),
        (change(What.FIRED, DUE_MS + 0.4, nominal_ms=DUE_MS, run_id=RUN), f"fired for {DUE}, 0.4 ms late; run {RUN}"),
        (
            change(What.FIRED, nominal_ms=DUE_MS, run_id=RUN, why="uncertain"),
            f"fired for {DUE}, 0.0 ms late; run {RUN}; uncertain: a lost Redis may have pushed this run already",
        ),
        (
            change(What.FIRED, nominal_ms=DUE_MS, run_id=RUN, why="waits for a-1"),
            f"fired for {DUE}, 0.0 ms late; run {RUN}; it waits for a-1",
        ),
        (change(What.ENQUEUED, run_id=RUN, by="me"), f"enqueued, by me; run {RUN}"),
        (change(What.ENQUEUED, run_id=f"{RUN}-r1", why=f"retry of {RUN}"), f"retry of {RUN}, on request; run {RUN}-r1"),
        (change(What.ENQUEUED, run_id=RUN, why="run now"), f"run now, on request; run {RUN}"),
        (
            change(What.SKIPPED, nominal_ms=DUE_MS, why="uncertain"),
            f"skipped {DUE}: a lost Redis may have pushed it already",
        ),
        (
            change(What.SKIPPED, nominal_ms=DUE_MS, why="overlap: a-1 was still open"),
            f"skipped {DUE}: overlap: a-1 was still open",
        ),
        (
            change(What.SKIPPED, first_ms=DUE_MS, last_ms=DUE_MS, why="paused"),
            f"skipped the occurrence of {DUE}: it was paused",
        ),
        (
            change(What.SKIPPED, first_ms=DUE_MS, last_ms=DUE_MS + MINUTE_MS, count=1234, why="paused"),
            f"skipped 1,234 occurrences, {DUE} to 2026-01-01 00:01:00+00:00: it was paused",
        ),
        (
            change(What.COALESCED, first_ms=DUE_MS, last_ms=DUE_MS, nominal_ms=DUE_MS + MINUTE_MS),
            f"left out the occurrence of {DUE} in favour of 2026-01-01 00:01:00+00:00: all had passed by then",
        ),
        (
            change(What.DUPLICATE, nominal_ms=DUE_MS, run_id=RUN),
            f"not pushed again for {DUE}: run {RUN} was there already",
        ),
        (change(What.CANCELLED, nominal_ms=DUE_MS), f"cancelled; it was for {DUE}"),
        (change(What.CANCELLED, why="RQ has it as canceled"), "cancelled (RQ has it as canceled)"),
        (change(What.QUARANTINED, nominal_ms=DUE_MS, why="its hash is gone"), "quarantined: its hash is gone"),
        (
            change(What.REPLANNED, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS, why="tzdata 2025b → 2026a"),
            f"its zone's rules changed (tzdata 2025b → 2026a): next 2026-01-01 00:01:00+00:00 instead of {DUE}",
        ),
        (change(What.ENDED), "ended: its rule gives no more occurrences"),
    ],
)
def test_every_kind_of_change_has_its_words(told: Change, expected: str) -> None:
    assert [expected] == texts(told)


def test_there_is_a_sentence_for_every_kind_also_by_itself() -> None:
    for what in What:
        assert sentence(change(what, DUE_MS + 5000, nominal_ms=DUE_MS, run_id=RUN), "UTC")


def test_a_change_by_itself_claims_nothing_about_what_was_before() -> None:
    late = change(What.FIRED, DUE_MS + 5000, nominal_ms=DUE_MS, run_id=RUN)

    assert f"put for {DUE}" == sentence(put(0), "UTC")
    assert f"fired for {DUE}, 5.0 s late; run {RUN}" == sentence(late, "UTC")


def test_times_are_local_in_the_zone_asked_for_else_in_the_schedules_own() -> None:
    seoul, new_york = held(tz="Asia/Seoul"), "America/New_York"

    assert ["created for 2026-01-01 09:00:00+09:00"] == texts(put(0), schedule=seoul)
    assert ["created for 2025-12-31 19:00:00-05:00"] == texts(put(0), schedule=seoul, tz=new_york)
    assert "Asia/Seoul" == story(put(0), schedule=seoul).tz


def test_a_time_that_a_foreign_hand_wrote_is_brought_into_range() -> None:
    assert "9999-12-31 23:59:59.999+00:00" == local_text(10**30 + 1, "Asia/Seoul")
    assert "1970-01-01 00:00:00.000+00:00" == local_text(-5, "UTC", has_ms=True)
    assert "9999-12-31T23:59:59.999Z" == change(What.PUT, nominal_ms=LAST_MS * 1000).shown()["nominal_at"]


# -- created or changed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "verb"),
    [
        ([put(1)], "changed: now"),
        ([put(1), change(What.PAUSED, 2)], "changed: now"),
        ([put(1), change(What.QUARANTINED, 2)], "changed: now"),
        ([put(1), change(What.CANCELLED, 2)], "created"),
        ([put(1), change(What.FIRED, 2, nominal_ms=1)], "created"),
        ([put(1), change(What.ENQUEUED, 2, why="run now")], "created"),
        ([put(1), change(What.ENQUEUED, 2)], "created"),
        ([put(1), change(What.FIRED, 2, nominal_ms=1), change(What.ENQUEUED, 3, why=f"retry of {RUN}")], "created"),
        ([put(1), change(What.ENQUEUED, 2, why=f"retry of {RUN}")], "changed: now"),
        ([put(1), change(What.SKIPPED, 2, nominal_ms=1, why="uncertain")], "created"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.FIRED, 2, nominal_ms=1, next_ms=3)], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.ENQUEUED, 2, why="run now")], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.SKIPPED, 2, first_ms=1, last_ms=1)], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.FIRED, 2), change(What.ENDED, 2)], "changed: now"),
        ([change(What.FOUND, 1, why="due"), change(What.FIRED, 2)], "changed: now"),
        ([change(What.REPLANNED, 1, nominal_ms=1, next_ms=2), change(What.FIRED, 2)], "changed: now"),
        ([change(What.FOUND, 1, run_id=RUN, why="open")], "created"),
    ],
)
def test_a_put_creates_what_is_not_there_and_changes_what_is(before: list[Change], verb: str) -> None:
    assert f"{verb} for {DUE}" == texts(*before, put(9))[-1]


# -- gaps ---------------------------------------------------------------------------------------------


def test_what_was_left_out_is_said_behind_the_first_entry_whole() -> None:
    first = [change(What.COALESCED, 1, first_ms=1, last_ms=1, nominal_ms=2), change(What.FIRED, 1, nominal_ms=2)]
    last = [change(What.FIRED, 9, nominal_ms=9), change(What.ENDED, 9)]

    found = texts(*first, *last, left_out=1200)

    assert ["left", "fired", "… 1,200", "fired", "ended:"] == [
        " ".join(text.split(" ")[: 2 if text.startswith("…") else 1]) for text in found
    ]


def test_nothing_is_said_when_nothing_was_left_out() -> None:
    assert not [text for text in texts(put(0), change(What.PAUSED), left_out=0) if text.startswith("…")]


# -- now ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (held(), "active; next 2026-01-01 00:01:00+00:00, in 1 min"),
        (
            held(next_ms=DUE_MS - 5000),
            "active; next 2025-12-31 23:59:55+00:00, overdue by 5.0 s; it waits for a daemon that leads: "
            "see zsched status",
        ),
        (
            held(ScheduleState.PAUSED, next_ms=DUE_MS, since_ms=DUE_MS - 1000, note="sale"),
            f'paused since 2025-12-31 23:59:59+00:00: "sale"; it would be due {DUE}; zsched resume a lets it go on',
        ),
        (
            held(ScheduleState.QUARANTINED, since_ms=DUE_MS, note="its hash is gone"),
            f'quarantined since {DUE}: "its hash is gone"; schedule it again, or cancel it',
        ),
        (
            held(ScheduleState.ENDED, next_ms=None, since_ms=DUE_MS),
            f"ended since {DUE}: its rule gives no more occurrences",
        ),
    ],
)
def test_where_it_stands_is_what_redis_says(schedule: Schedule, expected: str) -> None:
    assert expected == story(schedule=schedule).now


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), "it fired; that its run ended is not recorded yet"),
        (change(What.FOUND, run_id=RUN, why="open"), "it had fired; that its run ended is not recorded yet"),
        (change(What.ENQUEUED, run_id=RUN), "it was pushed on request; that its run ended is not recorded yet"),
        (change(What.CANCELLED), "it was cancelled"),
        (change(What.SKIPPED, nominal_ms=DUE_MS, why="uncertain"), "its occurrence was skipped"),
        (change(What.PAUSED), "nothing here says why, so Redis lost it, or a foreign hand removed it"),
    ],
)
def test_what_redis_does_not_hold_any_more_has_a_reason(last: Change, expected: str) -> None:
    assert f"it is not scheduled any more: {expected}" == story(put(0), last).now


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ended(), "succeeded after 1.2 s, having waited 3 ms for a worker, by worker w"),
        (
            ended(attempt=2, note={"sent": 123, "city": "Séoul"}),
            "succeeded after 1.2 s, having waited 3 ms for a worker, attempt 2, by worker w; "
            'it noted sent=123, city="Séoul"',
        ),
        (
            ended(RunStatus.FAILED, error="ZeroDivisionError: division by zero"),
            "failed after 1.2 s, having waited 3 ms for a worker, by worker w: ZeroDivisionError: division by zero",
        ),
        (Run(RUN, RunStatus.FAILED), "failed"),
        (Run(RUN, RunStatus.CANCELLED, worker="w"), "was cancelled"),
        (Run(RUN, RunStatus.EXPIRED), "expired in its queue"),
        (Run(RUN, RunStatus.EXPIRED, ended_ms=DUE_MS, error="too late"), f"expired in its queue at {DUE}: too late"),
        (ended(RunStatus.LOST, attempt=3, error="worker w died"), "is lost, attempt 3: worker w died"),
        (ended(RunStatus.LOST, error=GONE), f"is lost: {GONE}"),
        (Run(RUN, RunStatus.FAILED, error="x" * 300), f"failed: {'x' * 199}…"),
    ],
)
def test_of_a_one_shot_that_fired_it_is_told_how_its_run_ended(run: Run, expected: str) -> None:
    fired, over = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), run_ended(run)

    told = story(put(0), fired, over)

    assert f"it is not scheduled any more: it fired, and its run {expected}" == told.now
    assert f"run {RUN} {expected}" == told.lines[-1][1]


def test_an_end_of_a_later_version_is_told_as_lost() -> None:
    over = change(What.RUN_ENDED, run_id=RUN, why="enchanted", record="{}")

    assert [f"run {RUN} is lost: what was recorded of its end cannot be read"] == texts(over)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (pushed(RUN, DUE_MS * 1000), f"is queued since {DUE}"),
        (Run(RUN, RunStatus.QUEUED, attempt=2), "is queued, attempt 2"),
        (Run(RUN, RunStatus.RUNNING, started_ms=DUE_MS, worker="w"), f"is running since {DUE} on worker w"),
        (Run(RUN, RunStatus.RUNNING, attempt=2), "is running, attempt 2"),
        (Run(RUN, RunStatus.LOST, error=GONE), f"is lost: {GONE}"),
    ],
)
def test_of_a_run_that_was_not_over_rq_is_asked(run: Run, expected: str) -> None:
    fired = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS)
    one_shot, rule = story(put(0), fired, runs=[run]), story(fired, schedule=held(), runs=[run])

    assert f"it is not scheduled any more: it fired, and its run {expected}" == one_shot.now
    assert f"active; next 2026-01-01 00:01:00+00:00, in 1 min; its run {RUN} {expected}" == rule.now


def test_of_several_open_runs_the_last_is_told_and_the_others_are_counted() -> None:
    runs = [pushed(f"a-{number}", DUE_MS * 1000) for number in (3, 2, 1)]

    two, three = story(schedule=held(), runs=runs[:2]), story(schedule=held(), runs=runs)

    assert two.now.endswith(f"; its run a-3 is queued since {DUE} (1 more of its runs is not over)")
    assert three.now.endswith(f"; its run a-3 is queued since {DUE} (2 more of its runs are not over)")


def test_a_run_whose_worker_died_is_told_to_be_pushed_again() -> None:
    died = change(What.RUN_AGAIN, run_id=RUN, count=2, why="worker w died")
    unknown = change(What.RUN_AGAIN, run_id=RUN, count=3)

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), died, unknown)

    assert [
        f"run {RUN}: worker w died: pushed again, attempt 2",
        f"run {RUN}: its worker died: pushed again, attempt 3",
    ] == [text for _, text in told.lines[2:]]
    assert "it is not scheduled any more: it fired; that its run ended is not recorded yet" == told.now


def test_a_run_that_a_leader_released_is_told_with_the_reason_and_leaves_the_schedule_where_it_was() -> None:
    released = change(What.RELEASED, run_id=RUN, why=f"a-{DUE_MS - 5} was stopped")

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), released)

    line = f"run {RUN} waits no more for those before it, and is in its queue: a-{DUE_MS - 5} was stopped"
    assert line == told.lines[-1][1]
    assert told.now.startswith("it is not scheduled any more: it fired")


def test_of_a_one_shot_that_was_pushed_again_that_is_told() -> None:
    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), change(What.PUSHED_AGAIN, run_id=RUN))

    assert "it is not scheduled any more: it was pushed again; that its run ended is not recorded yet" == told.now


def test_the_end_of_another_run_is_not_that_of_the_last_one() -> None:
    first, last = change(What.ENQUEUED, run_id="a-1"), change(What.ENQUEUED, run_id="a-2")

    now = story(first, last, run_ended(Run("a-1", RunStatus.SUCCEEDED))).now

    assert now == "it is not scheduled any more: it was pushed on request; that its run ended is not recorded yet"


def test_a_rule_was_cancelled_whatever_became_of_its_last_run_then() -> None:
    fired = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS)

    told = story(fired, change(What.CANCELLED), run_ended(Run(RUN, RunStatus.SUCCEEDED)))

    assert "it is not scheduled any more: it was cancelled" == told.now


def test_where_all_but_the_end_is_forgotten_that_is_told() -> None:
    told = story(run_ended(Run(RUN, RunStatus.FAILED)))

    assert "it is not scheduled any more: it had fired, and its run failed" == told.now


def test_a_past_explains_an_absence_or_does_not() -> None:
    fire = change(What.FIRED, nominal_ms=DUE_MS)

    assert Chronicle("a", COMPLETE, []).explains_absence
    assert Chronicle("a", COMPLETE, [put(0), fire]).explains_absence
    assert not Chronicle("a", COMPLETE, [put(0)]).explains_absence


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (COMPLETE, "never heard of it: no schedule of this id was ever put here"),
        (PARTIAL, f"never heard of it: nothing is known of this id since {DUE}; what was before is not in reach"),
        (REDIS, f"never heard of it: nothing is known of this id since {DUE}; what was before is not in reach"),
    ],
)
def test_of_an_unknown_id_it_is_said_how_far_that_goes(source: Source, expected: str) -> None:
    unknown = story(source=source)

    assert (False, expected) == (unknown.is_known, unknown.now)


# -- where it comes from ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (COMPLETE, "from the archive host:/a.db, complete since the beginning, up to log entry 1-9"),
        (PARTIAL, f"from the archive host:/a.db, complete since {DUE}, up to log entry 1-9"),
        (REDIS, f"from Redis alone, whose log goes back to {DUE}: no archive answered within 2 s"),
        (Source(None, None, None), "from Redis alone, whose log is empty"),
    ],
)
def test_a_source_says_what_it_is_and_how_far_it_goes(source: Source, expected: str) -> None:
    assert expected == str(source)


def test_a_story_in_json_has_readable_instants() -> None:
    told = story(put(DUE_MS + 1), source=REDIS).to_dict()

    assert {"archive": None, "complete_since": "2026-01-01T00:00:00.000Z", "as_of": "1-9"} == {
        name: value for name, value in told["source"].items() if name != "problem"
    }
    assert ["2026-01-01T00:00:00.001Z"] == [line["at"] for line in told["story"]]
    assert ("2026-01-01T00:00:00.000Z", "put", None) == tuple(
        told["changes"][0][name] for name in ("nominal_at", "what", "late_ms")
    )


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0.44, "0.4 ms"),
        (999.9, "999.9 ms"),
        (3200, "3.2 s"),
        (60_000, "1 min"),
        (725_000, "12 min 5 s"),
        (7_380_000, "2 h 3 min"),
        (349_200_000, "4 d 1 h"),
    ],
)
def test_durations_are_told_in_their_two_largest_units(ms: float, expected: str) -> None:
    assert expected == duration_text(ms)


# -- a backfill ---------------------------------------------------------------------------------------


def backfilled(*hours: int, entry: str = "1-5") -> list[Change]:
    times = [DUE_MS + hour * 60 * MINUTE_MS for hour in hours]
    return [
        change(What.ENQUEUED, entry=entry, run_id=f"a-{ms}", nominal_ms=ms, why="backfill") for ms in times
    ]  # fmt: skip


def test_a_backfill_is_one_line_however_many_runs_it_pushed() -> None:
    told = texts(put(0), *backfilled(-3, -2), *backfilled(-1, entry="1-6"), change(What.PAUSED, why="backfill"))

    assert [
        f"created for {DUE}",
        "backfilled 3 occurrences, 2025-12-31 21:00:00+00:00 to 2025-12-31 23:00:00+00:00",
        'paused: "backfill"',
    ] == told


def test_a_backfill_of_one_names_its_run() -> None:
    [one] = backfilled(0)

    assert [f"created for {DUE}", f"backfilled the occurrence of {DUE}; run a-{DUE_MS}"] == texts(put(0), one)


def test_what_was_left_out_is_not_hidden_in_a_backfill() -> None:
    told = texts(*backfilled(0, 1), *backfilled(6, 7, entry="1-9"), left_out=3)

    assert ["backfilled 2", "… 3 more changes lie before this …", "backfilled 2"] == [
        text if text.startswith("…") else text[:12] for text in told
    ]


def test_what_is_backfilled_was_there() -> None:
    [_, told] = texts(*backfilled(0), change(What.PUT, nominal_ms=DUE_MS))

    assert f"changed: now for {DUE}" == told
