"""The times at which the leader looks for runs that wait for others, and its events: no Redis, a clock by hand."""

from dataclasses import dataclass, field

import pytest
import structlog
from structlog.testing import LogCapture

from tests.unit.daemon.leading import Events
from zsched.core.clock import ManualClock
from zsched.daemon.releases import AT_ONCE, WaitingRuns
from zsched.errors import RedisUnavailable, ServerChanged, Stale
from zsched.storage.dispatch import Stopped, Unblocked, Window
from zsched.storage.lease import Term

TERM = Term("token", 1, "server", 2000, 1e12, 0, 0)
WINDOW = Window(5, 6)
NOW_MS = 1_800_000_000_250


@dataclass
class _Dispatch:
    """A source of parts of rounds with given answers, which remembers the cursors that it was asked for."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS, elapsed_ms=60_000.0))
    parts: int = 1  # of each round
    takes_ms: float = 0.0  # each part
    waits: bool = True  # of the last part of each round
    launched: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    stopped: Stopped | None = None
    asked: list[str] = field(default_factory=list)

    def unblock(self, term: Term, window: Window, cursor: str) -> Unblocked | Stopped:
        assert (TERM, WINDOW) == (term, window)
        self.asked.append(cursor)
        self.clock.advance(self.takes_ms)
        if self.error:
            raise self.error
        if self.stopped:
            return self.stopped
        part = int(cursor) + 1
        is_last = part == self.parts
        launched, self.launched = self.launched, []
        return Unblocked("0" if is_last else f"{part}", self.waits and is_last, launched)


@pytest.fixture(autouse=True)
def events() -> Events:
    capture = LogCapture()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    return capture.entries


def waiting_runs(dispatch: _Dispatch) -> WaitingRuns:
    return WaitingRuns(dispatch, dispatch.clock)  # type: ignore[arg-type]  # the fake


def look(runs: WaitingRuns, dispatch: _Dispatch, *after_ms: float, is_busy: bool = False) -> list[int | None]:
    """Look after each of these times, by a server whose clock is ours."""
    found = []
    for ms in after_ms:
        dispatch.clock.advance(ms)
        found.append(runs.look_if_due(TERM, WINDOW, NOW_MS, is_busy=is_busy))
    return found


def test_a_term_begins_with_a_round() -> None:
    runs = waiting_runs(dispatch := _Dispatch(waits=False))

    look(runs, dispatch, 0)
    runs.begin()
    look(runs, dispatch, 0)

    assert ["0", "0"] == dispatch.asked


def test_the_next_round_is_a_quarter_of_a_second_later_while_runs_wait() -> None:
    runs = waiting_runs(dispatch := _Dispatch())

    [first] = look(runs, dispatch, 0)

    assert NOW_MS + 251 == first
    assert NOW_MS + 251 == look(runs, dispatch, 250)[0]
    assert 2 == len(dispatch.asked)


def test_an_idle_pass_before_that_is_a_ring_and_begins_a_round_at_once() -> None:
    runs = waiting_runs(dispatch := _Dispatch())

    look(runs, dispatch, 0, 3, 4)

    assert 3 == len(dispatch.asked)


def test_a_leader_without_waiting_runs_sets_no_time_for_the_next_round() -> None:
    runs = waiting_runs(dispatch := _Dispatch(waits=False))

    assert [None] * 2 == look(runs, dispatch, 0, 4999)
    assert 1 == len(dispatch.asked)
    assert [None] == look(runs, dispatch, 1)
    assert 2 == len(dispatch.asked)


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_leader_without_waiting_runs_does_a_round_in_five_seconds_however_many_passes_it_makes(is_busy: bool) -> None:
    runs = waiting_runs(dispatch := _Dispatch(waits=False))

    look(runs, dispatch, *[10] * 1250, is_busy=is_busy)

    assert 3 == len(dispatch.asked)


def test_a_run_that_begins_to_wait_brings_the_next_round_forward() -> None:
    runs = waiting_runs(dispatch := _Dispatch(waits=False))
    look(runs, dispatch, 0)

    dispatch.waits = True
    runs.expect()

    assert NOW_MS + 251 == look(runs, dispatch, 1)[0]
    assert 2 == len(dispatch.asked)


def test_a_run_that_begins_to_wait_delays_no_round() -> None:
    runs = waiting_runs(dispatch := _Dispatch())
    look(runs, dispatch, 0, 100)
    asked = len(dispatch.asked)

    runs.expect()

    assert NOW_MS + 251 == look(runs, dispatch, 150)[0]
    assert asked + 1 == len(dispatch.asked)


def test_a_busy_leader_looks_forty_times_a_second_at_most() -> None:
    runs = waiting_runs(dispatch := _Dispatch(parts=3))

    looks = look(runs, dispatch, *[5] * 200, is_busy=True)

    assert len(dispatch.asked) in (40, 41)
    assert ["0", "1", "2", "0"] == dispatch.asked[:4]
    assert {True, False} == {one == AT_ONCE for one in looks}


def test_an_idle_leader_does_the_parts_of_a_round_one_after_the_other() -> None:
    runs = waiting_runs(dispatch := _Dispatch(parts=3))

    looks = look(runs, dispatch, 0, 0, 0)

    assert [True, True, False] == [one == AT_ONCE for one in looks]
    assert ["0", "1", "2"] == dispatch.asked


def test_runs_that_wait_in_any_part_of_a_round_bring_the_next_round_forward() -> None:
    class FirstWaits(_Dispatch):
        def unblock(self, term: Term, window: Window, cursor: str) -> Unblocked | Stopped:
            found = super().unblock(term, window, cursor)
            return found._replace(waits=cursor == "0") if isinstance(found, Unblocked) else found

    runs = waiting_runs(dispatch := FirstWaits(parts=2))

    _, last = look(runs, dispatch, 0, 0)

    assert NOW_MS + 251 == last


@pytest.mark.parametrize(("parts", "takes_ms", "rest_ms"), [(1, 20.0, 200), (1, 100.0, 1000), (4, 30.0, 1200)])
def test_a_round_is_followed_by_a_rest_of_ten_times_its_length(parts: int, takes_ms: float, rest_ms: int) -> None:
    runs = waiting_runs(dispatch := _Dispatch(parts=parts, takes_ms=takes_ms))

    *_, last = look(runs, dispatch, *[0] * parts)
    assert last == NOW_MS + max(rest_ms, 250 - int(takes_ms)) + 1
    look(runs, dispatch, rest_ms - 1)
    assert parts == len(dispatch.asked)
    look(runs, dispatch, 1)

    assert parts + 1 == len(dispatch.asked)


def test_a_busy_leader_rests_too() -> None:
    runs = waiting_runs(dispatch := _Dispatch(takes_ms=100.0))

    look(runs, dispatch, 0, *[100] * 9, is_busy=True)
    assert 1 == len(dispatch.asked)
    look(runs, dispatch, 100, is_busy=True)

    assert 2 == len(dispatch.asked)


def test_a_stop_is_ignored_and_the_part_is_asked_for_again() -> None:
    runs = waiting_runs(dispatch := _Dispatch(parts=2))
    look(runs, dispatch, 0)

    dispatch.stopped = Stopped("HELD", NOW_MS, NOW_MS + 1000)
    look(runs, dispatch, 0)
    dispatch.stopped = None
    look(runs, dispatch, 0)

    assert ["0", "1", "1"] == dispatch.asked


@pytest.mark.parametrize("error", [Stale("t"), ServerChanged("s"), RedisUnavailable("gone")])
def test_the_end_of_a_term_and_a_lost_redis_are_raised(error: Exception) -> None:
    runs = waiting_runs(dispatch := _Dispatch(error=error))

    with pytest.raises(type(error)):
        look(runs, dispatch, 0)


def test_a_new_term_begins_a_round_from_its_start() -> None:
    runs = waiting_runs(dispatch := _Dispatch(parts=3))
    look(runs, dispatch, 0, 0)

    runs.begin()
    look(runs, dispatch, 0)

    assert ["0", "1", "0"] == dispatch.asked


def test_a_launched_run_is_logged_with_its_reason(events: Events) -> None:
    runs = waiting_runs(dispatch := _Dispatch(launched=[("a-1", "a-0 finished"), ("b-1", "b-0 failed")]))

    look(runs, dispatch, 0, 300)

    assert [
        {"event": "run_released", "log_level": "info", "run_id": run, "reason": why}
        for run, why in (("a-1", "a-0 finished"), ("b-1", "b-0 failed"))
    ] == events
