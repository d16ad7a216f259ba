"""One pass of the leader: its calls, its reaction to the replies, and the time of the next pass. No Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from tests.prefix import RQ
from tests.unit.daemon.leading import BOOTED_MS, HOUR_MS, NOTHING, NOW_MS, TERM, Events, TickingLeader, hourly
from zsched.core.occurrences.outcomes import Outcome
from zsched.daemon.releases import AT_ONCE
from zsched.daemon.tick import JUMP_MS, STEADY_MS, Tick
from zsched.storage.dispatch import FireResult, Stopped


@pytest.fixture
def leader() -> TickingLeader:
    return TickingLeader()


@pytest.fixture(autouse=True)
def events() -> Events:
    capture = LogCapture()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    return capture.entries


def _names(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(event["log_level"], event["event"]) for event in events if event["log_level"] != "debug"]


def test_a_sleep_until_a_due_time_ends_when_the_servers_clock_shows_it(leader: TickingLeader) -> None:
    ticked = leader.tick(replace(NOTHING, next_ms=NOW_MS + 700))

    assert ticked.next_ms == NOW_MS + 700
    wakes_at_ms = ticked.next_ms - ticked.server_offset_ms  # of the monotonic clock
    assert wakes_at_ms == pytest.approx(BOOTED_MS + 700, abs=1)


SOON_MS, LATER_MS = NOW_MS + 100, NOW_MS + 900


NEXT = [(SOON_MS, LATER_MS, SOON_MS), (LATER_MS, SOON_MS, SOON_MS), (SOON_MS, None, SOON_MS), (None, SOON_MS, SOON_MS)]


@pytest.mark.parametrize(("next_ms", "rqs_next_ms", "expected"), [*NEXT, (None, None, None)])
def test_a_sleep_ends_with_the_earlier_of_zscheds_and_rqs_jobs(
    leader: TickingLeader, next_ms: int | None, rqs_next_ms: int | None, expected: int | None
) -> None:
    leader.rq.look = rqs_next_ms

    ticked = leader.tick(replace(NOTHING, next_ms=next_ms))

    assert (False, None, expected) == (ticked.has_more, ticked.wait_ms, ticked.next_ms)
    assert [(NOW_MS, False)] == leader.rq.asked


@pytest.mark.parametrize(
    ("fired", "has_more"),
    [
        (replace(NOTHING, next_ms=NOW_MS - 1), True),
        (replace(NOTHING, next_ms=NOW_MS), True),
        (replace(NOTHING, next_ms=NOW_MS + 1), False),
        (replace(NOTHING, next_ms=NOW_MS + 1, recurring=[hourly(1)]), True),  # its next time may be earlier
    ],
)
def test_a_pass_with_runs_left_is_followed_at_once(leader: TickingLeader, fired: FireResult, has_more: bool) -> None:
    assert has_more is leader.tick(fired).has_more
    assert [(NOW_MS, has_more)] == leader.rq.asked, "RQ's jobs have patience while zsched's are due"


def test_limits_are_set_once_per_term_and_when_they_change(leader: TickingLeader) -> None:
    leader.tick()
    leader.tick()
    leader.ticker.limit({"mail": 9.0})
    leader.tick()
    leader.tick()
    leader.ticker.begin(TERM)
    leader.tick()

    assert [{"mail": 5.0}, {"mail": 9.0}, {"mail": 9.0}] == leader.scripts.limits


def test_native_begins_and_ends_with_the_term(leader: TickingLeader) -> None:
    leader.ticker.end(TERM)

    assert ["begin", "end"] == leader.rq.terms


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_fire_is_held_for_some_time_after_a_clock_jump(leader: TickingLeader, events: Events, by_ms: int) -> None:
    jumped = leader.tick(Stopped("JUMPED", NOW_MS + by_ms))
    waiting = leader.tick()

    assert 0 < (jumped.wait_ms or 0) < 10, "it looks again at once"
    assert STEADY_MS == waiting.wait_ms
    assert 1 == len(leader.scripts.fired)
    assert [("error", "clock_jumped")] == _names(events)
    assert [("jumped", pytest.approx(by_ms, abs=2))] == leader.meter.told


def test_fire_is_called_with_the_window_of_possible_server_times(leader: TickingLeader) -> None:
    leader.clock.advance(10_000)
    leader.tick(replace(NOTHING, now_us=(NOW_MS + 10_000) * 1000))

    [(window, _)] = leader.scripts.fired
    expected = (NOW_MS + 10_000 - JUMP_MS, NOW_MS + 10_000 + JUMP_MS)
    assert (window.from_ms, window.until_ms) == pytest.approx(expected, abs=10)


HELD = Stopped("HELD", NOW_MS, NOW_MS + 500)


@pytest.mark.parametrize(
    ("rqs_next_ms", "wait_ms"), [(None, 500), (NOW_MS + 900, 500), (NOW_MS + 200, 200), (NOW_MS - 5, 1)]
)
def test_rqs_jobs_continue_during_a_hold(leader: TickingLeader, rqs_next_ms: int | None, wait_ms: float) -> None:
    leader.rq.look = rqs_next_ms

    assert Tick(wait_ms=wait_ms) == leader.tick(HELD)
    assert [(NOW_MS, False)] == leader.rq.asked


@pytest.mark.parametrize("answer", [NOTHING, HELD])
def test_remaining_jobs_of_rq_are_moved_at_once_also_during_a_hold(leader: TickingLeader, answer: Any) -> None:
    leader.rq.look = AT_ONCE

    assert Tick(has_more=True) == leader.tick(answer)


@pytest.mark.parametrize(("for_ms", "look_ms", "wait_ms"), [(400.2, 1000, 401), (400, 50, 50)])
def test_a_leader_that_may_not_fire_yet_moves_rqs_jobs_and_looks_again_in_time(
    leader: TickingLeader, for_ms: float, look_ms: float, wait_ms: float
) -> None:
    held = leader.ticker.hold(TERM, for_ms, look_ms)

    assert wait_ms == held.wait_ms
    assert [] == leader.scripts.fired
    assert 1 == len(leader.rq.asked)
    leader.rq.look = AT_ONCE
    assert Tick(has_more=True) == leader.ticker.hold(TERM, for_ms, look_ms)


def test_a_hold_is_logged_at_its_start_and_its_end(leader: TickingLeader, events: Events) -> None:
    for answer in (HELD, HELD, NOTHING, NOTHING, HELD):
        leader.tick(answer)

    assert ["fire_held", "hold_ended", "fire_held"] == [event for _, event in _names(events)]
    assert 500 == events[0]["for_ms"]


def test_recurring_schedules_are_advanced_in_portions_of_half_a_batch(leader: TickingLeader) -> None:
    leader = TickingLeader(batch_max=100)

    leader.tick(replace(NOTHING, recurring=[hourly(number) for number in range(120)]))

    assert [100] == [limit for _, limit in leader.scripts.fired]
    assert [50, 50, 20] == [len(part) for part in leader.scripts.advanced]
    assert [f"s{number}".encode() for number in range(120)] == [id for part in leader.scripts.advanced for id in part]


def test_held_back_recurring_schedules_are_not_advanced(leader: TickingLeader) -> None:
    leader.kept_back = {b"s1"}

    leader.tick(replace(NOTHING, recurring=[hourly(1), hourly(2)]))

    assert [[b"s2"]] == leader.scripts.advanced


def test_advance_is_called_with_the_patience_of_the_settings() -> None:
    leader = TickingLeader(overlap_patience_s=7)

    leader.tick(replace(NOTHING, recurring=[hourly(1)]))

    assert 7000 == leader.scripts.patience_ms


def test_a_rule_that_cannot_be_planned_is_quarantined_and_the_others_fire(
    leader: TickingLeader, events: Events
) -> None:
    leader.tick(replace(NOTHING, recurring=[hourly(1), hourly(2, "no rule"), hourly(3)]))

    assert [b"s2"] == leader.scripts.bad
    assert [[b"s1", b"s3"]] == leader.scripts.advanced
    assert [("error", "schedule_quarantined")] == _names(events)


@pytest.mark.parametrize("stops", [HELD, Stopped("JUMPED", NOW_MS)])
def test_a_stopped_advance_leaves_the_rest_to_a_later_pass(stops: Stopped) -> None:
    leader = TickingLeader(batch_max=100)
    leader.scripts.stops = stops

    ticked = leader.tick(replace(NOTHING, recurring=[hourly(number) for number in range(120)]))

    assert 1 == len(leader.scripts.advanced)
    assert (False, None) == (ticked.has_more, ticked.next_ms)
    assert ticked.wait_ms


@pytest.mark.parametrize(
    ("words", "goes_on"), [(["fired"], True), (["overlap"], True), (["changed", "fired"], True), (["changed"], False)]
)
def test_a_pass_whose_due_schedules_all_changed_is_followed_by_a_short_wait(
    leader: TickingLeader, words: list[str], goes_on: bool
) -> None:
    leader.scripts.words = words

    ticked = leader.tick(replace(NOTHING, recurring=[hourly(number) for number in range(len(words))]))

    assert (goes_on, not goes_on) == (ticked.has_more, 0 < (ticked.wait_ms or 0) < 100)


def test_a_rule_that_cannot_be_quarantined_is_tried_again_and_not_logged(leader: TickingLeader, events: Events) -> None:
    leader.scripts.takes_bad = False

    ticked = leader.tick(replace(NOTHING, recurring=[hourly(1, "no rule")]))

    assert (False, []) == (ticked.has_more, _names(events))
    assert 0 < (ticked.wait_ms or 0) < 100


@pytest.mark.parametrize(
    ("has_more", "expected"), [(False, Tick(wait_ms=20)), (True, Tick(has_more=True))], ids=["few", "many"]
)
def test_rules_that_stay_do_not_keep_rqs_jobs_waiting(leader: TickingLeader, has_more: bool, expected: Tick) -> None:
    leader.scripts.words = ["changed"]
    leader.rq.look = AT_ONCE if has_more else None

    ticked = leader.tick(replace(NOTHING, next_ms=NOW_MS, recurring=[hourly(1)]))

    assert expected == ticked
    assert [(NOW_MS, False)] == leader.rq.asked


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_is_logged_by_its_event_and_level(leader: TickingLeader, events: Events, outcome: Outcome) -> None:
    leader.scripts.word = outcome.word

    leader.tick(replace(NOTHING, recurring=[hourly(1)]))

    expected = [(outcome.level, outcome.event)] if outcome.event else []
    assert [*expected, ("debug", "schedules_advanced")] == [(event["log_level"], event["event"]) for event in events]


def test_an_unknown_answer_is_an_error_of_its_schedule_and_the_pass_continues(
    leader: TickingLeader, events: Events
) -> None:
    leader.scripts.words, leader.rq.look = ["teleported", "fired"], NOW_MS + 5

    ticked = leader.tick(replace(NOTHING, recurring=[hourly(1), hourly(2)]))

    assert Tick(has_more=True) == ticked
    assert [(NOW_MS, True)] == leader.rq.asked
    assert [("error", "answer_unknown")] == _names(events)
    assert ("s1", "teleported") == (events[0]["schedule_id"], events[0]["reason"])
    assert {"event": "schedules_advanced", "log_level": "debug", "unknown": 1, "fired": 1} == events[1]


def test_a_run_that_fire_did_not_push_is_logged_with_its_reason(leader: TickingLeader, events: Events) -> None:
    not_pushed = {"skipped": ["a-1"], "expired": ["b-1"], "cancelled": ["c-1=canceled"]}
    leader.tick(replace(NOTHING, runs=7, uncertain=2, quarantined=[("d", "no such queue")], **not_pushed))

    told = [{key: value for key, value in event.items() if key != "log_level"} for event in events]
    assert [
        {"event": "runs_fired", "count": 7},
        {"event": "runs_uncertain", "count": 2},
        {"event": "run_skipped", "run_id": "a-1", "reason": "uncertain"},
        {"event": "run_expired", "run_id": "b-1", "reason": Outcome.EXPIRED.text},
        {"event": "run_cancelled", "run_id": "c-1", "reason": "its status in RQ is canceled"},
        {"event": "schedule_quarantined", "schedule_id": "d", "reason": "no such queue"},
    ] == told


def test_a_meter_receives_duration_and_runs_of_each_script(leader: TickingLeader) -> None:
    leader.scripts.takes_ms = 3.0
    leader.tick(replace(NOTHING, runs=7, recurring=[hourly(1), hourly(2)]))
    leader.scripts.word = "overlap"
    leader.tick(replace(NOTHING, recurring=[hourly(1)]))

    assert [("fire", 3.0, 7), ("advance", 3.0, 2), ("fire", 3.0, 0), ("advance", 3.0, 0)] == leader.meter.told


def test_a_key_of_a_wrong_type_is_logged_once_per_term(leader: TickingLeader, events: Events) -> None:
    for wrong in ([f"{RQ}:queues"], [f"{RQ}:queues", "other"], []):
        leader.tick(replace(NOTHING, wrong=wrong))
    assert [f"{RQ}:queues", "other"] == [event["key"] for event in events]
    assert all(event["key"] in event["remedy"] for event in events)

    leader.ticker.begin(TERM)
    leader.tick(replace(NOTHING, wrong=["other"]))
    assert [("error", "key_of_wrong_type")] * 3 == _names(events)
