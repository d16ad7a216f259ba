"""The last line of a story: the present state of the schedule, the reason of its absence, and the ends of its runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.stories import (
    COMPLETE,
    DUE,
    DUE_MS,
    MINUTE_MS,
    PARTIAL,
    REDIS,
    RUN,
    change,
    held,
    put,
    story,
    texts,
)
from zsched.core.attempts import Attempt
from zsched.core.changes import Change, What
from zsched.core.model import Schedule, ScheduleState
from zsched.core.runs import GONE, Run, RunStatus, facts_text, pushed
from zsched.core.story import Chronicle, Source


def ended(status: RunStatus = RunStatus.SUCCEEDED, **more: Any) -> Run:
    """Return a run that waited for 3 ms and took 1.2 s."""
    return Run(RUN, status, DUE_MS * 1000, DUE_MS, DUE_MS + 3, DUE_MS + 1203, worker="w", **more)


def run_ended(run: Run) -> Change:
    return change(What.RUN_ENDED, run_id=run.id, why=run.status.value, record=facts_text(run))


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
def test_the_current_state_of_a_schedule_comes_from_redis(schedule: Schedule, expected: str) -> None:
    assert expected == story(schedule=schedule).now


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), "it fired; that its run ended is not recorded yet"),
        (change(What.FOUND, run_id=RUN, why="open"), "it had fired; that its run ended is not recorded yet"),
        (change(What.ENQUEUED, run_id=RUN), "it was pushed on request; that its run ended is not recorded yet"),
        (change(What.CANCELLED), "it was cancelled"),
        (change(What.SKIPPED, nominal_ms=DUE_MS, why="uncertain"), "its occurrence was skipped"),
        (change(What.PAUSED), "nothing here says why, so Redis lost it, or another writer removed it"),
    ],
)
def test_a_schedule_that_redis_no_longer_holds_has_a_reason(last: Change, expected: str) -> None:
    assert f"it is not scheduled any more: {expected}" == story(put(0), last).now


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ended(), "succeeded after 1.2 s, having waited 3 ms for a worker, by worker w"),
        (
            ended(attempt=2, note={"sent": 123, "city": "Séoul"}),
            'succeeded after 1.2 s, attempt 2, by worker w; it noted sent=123, city="Séoul"',
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
def test_a_fired_one_shot_is_shown_with_the_end_of_its_run(run: Run, expected: str) -> None:
    fired, over = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), run_ended(run)

    told = story(put(0), fired, over)

    assert f"it is not scheduled any more: it fired, and its run {expected}" == told.now
    assert f"run {RUN} {expected}" == told.lines[-1][1]


def test_an_end_of_a_later_version_is_shown_as_lost() -> None:
    over = change(What.RUN_ENDED, run_id=RUN, why="enchanted", record="{}")

    assert [f"run {RUN} is lost: what was recorded of its end cannot be read"] == texts(over)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (pushed(RUN, DUE_MS * 1000), f"is queued since {DUE}"),
        (Run(RUN, RunStatus.QUEUED, attempt=2), "is queued, attempt 2"),
        (Run(RUN, RunStatus.QUEUED, limit="mail (3)"), "is queued; it waits for a slot of RQ's limit mail (3)"),
        (Run(RUN, RunStatus.RUNNING, started_ms=DUE_MS, worker="w"), f"is running since {DUE} on worker w"),
        (Run(RUN, RunStatus.RUNNING, attempt=2), "is running, attempt 2"),
        (Run(RUN, RunStatus.LOST, error=GONE), f"is lost: {GONE}"),
    ],
)
def test_the_state_of_an_open_run_comes_from_rq(run: Run, expected: str) -> None:
    fired = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS)
    one_shot, rule = story(put(0), fired, runs=[run]), story(fired, schedule=held(), runs=[run])

    assert f"it is not scheduled any more: it fired, and its run {expected}" == one_shot.now
    assert f"active; next 2026-01-01 00:01:00+00:00, in 1 min; its run {RUN} {expected}" == rule.now


def test_the_last_of_several_open_runs_is_shown_and_the_others_are_counted() -> None:
    runs = [pushed(f"a-{number}", DUE_MS * 1000) for number in (3, 2, 1)]

    two, three = story(schedule=held(), runs=runs[:2]), story(schedule=held(), runs=runs)

    assert two.now.endswith(f"; its run a-3 is queued since {DUE} (1 more of its runs is not over)")
    assert three.now.endswith(f"; its run a-3 is queued since {DUE} (2 more of its runs are not over)")


def test_a_run_of_a_dead_worker_is_shown_as_to_be_pushed_again() -> None:
    died = change(What.RUN_AGAIN, run_id=RUN, count=2, why="worker w died")
    unknown = change(What.RUN_AGAIN, run_id=RUN, count=3)

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), died, unknown)

    assert [
        f"run {RUN}: worker w died: pushed again, attempt 2",
        f"run {RUN}: its worker died: pushed again, attempt 3",
    ] == [text for _, text in told.lines[2:]]
    assert "it is not scheduled any more: it fired; that its run ended is not recorded yet" == told.now


def failed(number: int, at_ms: int, next_ms: int | None) -> Attempt:
    return Attempt(number, "w", at_ms, at_ms, at_ms + 200, "ValueError: no", next_ms, "Traceback:\nValueError: no")


def test_a_story_has_a_line_for_each_failed_attempt_at_its_time() -> None:
    first, second = failed(1, DUE_MS, DUE_MS + 10_200), failed(2, DUE_MS + 10_300, DUE_MS + 10_500)
    run = ended(RunStatus.FAILED, attempt=3, attempts=(first, second, failed(3, DUE_MS + 20_000, None)))
    changes = (
        put(0),
        at(DUE_MS, change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS)),
        at(DUE_MS + 5000, change(What.SKIPPED, nominal_ms=DUE_MS + 5000, why="missed")),
        at(DUE_MS + 30_000, run_ended(run)),
    )

    told = story(*changes)

    next_try = "next try at 2026-01-01 00:00:10.200+00:00"
    assert [
        (DUE_MS + 200, f"run {RUN}: attempt 1 failed after 200 ms on worker w: ValueError: no; {next_try}"),
        (DUE_MS + 10_500, f"run {RUN}: attempt 2 failed after 200 ms on worker w: ValueError: no; tried again at once"),
    ] == [told.lines[2], told.lines[4]]
    assert [at_ms for at_ms, _ in told.lines] == sorted(at_ms for at_ms, _ in told.lines)
    assert all("Traceback" not in text for _, text in told.lines)
    assert 6 == len(told.lines)


def at(at_ms: int, change: Change) -> Change:
    return replace(change, at_us=at_ms * 1000)


def test_an_attempt_of_a_dead_worker_has_one_line() -> None:
    lost = Attempt(1, "w", DUE_MS, DUE_MS, None, "worker w died", DUE_MS + 90_000)
    again = change(What.RUN_AGAIN, run_id=RUN, count=2, why="worker w died")

    run = Run(RUN, RunStatus.QUEUED, attempt=2, attempts=(lost,))

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), again, runs=[run])

    assert [f"run {RUN}: worker w died: pushed again, attempt 2"] == [text for _, text in told.lines if "died" in text]


def test_an_open_run_has_a_line_for_its_failed_attempt() -> None:
    run = Run(RUN, RunStatus.QUEUED, attempt=2, attempts=(failed(1, DUE_MS, DUE_MS + 600_000),))

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), runs=[run])

    assert f"run {RUN}: attempt 1 failed after 200 ms on worker w" in told.lines[-1][1]


def test_a_released_run_is_shown_with_the_reason_of_its_release() -> None:
    released = change(What.RELEASED, run_id=RUN, why=f"a-{DUE_MS - 5} was stopped")

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), released)

    line = f"run {RUN} waits no more for those before it, and is in its queue: a-{DUE_MS - 5} was stopped"
    assert line == told.lines[-1][1]
    assert told.now.startswith("it is not scheduled any more: it fired")


def test_a_one_shot_that_was_pushed_again_is_shown_as_such() -> None:
    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), change(What.PUSHED_AGAIN, run_id=RUN))

    assert "it is not scheduled any more: it was pushed again; that its run ended is not recorded yet" == told.now


def test_a_one_shot_that_rq_held_after_a_loss_is_shown_as_possibly_run() -> None:
    told = story(change(What.HELD, run_id=RUN, why="uncertain"), run_ended(Run(RUN, RunStatus.FAILED)))

    doubt = "which Redis had lost before it was over; uncertain: it may have run, so it was not pushed again"
    assert f"found in RQ: run {RUN}, {doubt}" == told.lines[0][1]
    assert told.now.startswith("it is not scheduled any more: it had fired, and its run failed")


def test_the_end_of_an_earlier_run_is_not_shown_as_the_end_of_the_last_run() -> None:
    first, last = change(What.ENQUEUED, run_id="a-1"), change(What.ENQUEUED, run_id="a-2")

    now = story(first, last, run_ended(Run("a-1", RunStatus.SUCCEEDED))).now

    assert now == "it is not scheduled any more: it was pushed on request; that its run ended is not recorded yet"


def test_a_cancelled_rule_is_shown_as_cancelled_whatever_the_end_of_its_last_run() -> None:
    fired = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS)

    told = story(fired, change(What.CANCELLED), run_ended(Run(RUN, RunStatus.SUCCEEDED)))

    assert "it is not scheduled any more: it was cancelled" == told.now


def test_a_schedule_of_which_only_an_end_is_known_is_shown_with_that_end() -> None:
    told = story(run_ended(Run(RUN, RunStatus.FAILED)))

    assert "it is not scheduled any more: it had fired, and its run failed" == told.now


def test_an_absence_is_explained_unless_the_last_change_left_a_schedule() -> None:
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
def test_an_unknown_id_is_reported_with_the_reach_of_the_source(source: Source, expected: str) -> None:
    unknown = story(source=source)

    assert (False, expected) == (unknown.is_known, unknown.now)
