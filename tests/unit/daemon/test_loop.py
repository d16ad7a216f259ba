"""A daemon's thread: it continues whatever its step raises, logs it once, and counts as failing until it is well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.faults.processes import WITHIN_S
from zsched.core.clock import ManualClock
from zsched.daemon.failures import Failures
from zsched.daemon.loop import Loop
from zsched.errors import RedisRefused, RedisUnavailable


class Step:
    """A step that raises the given errors, each once; at the tenth success, ``is_done`` is set."""

    def __init__(self, *raises: Exception) -> None:
        self.raises, self.done, self.is_done = list(raises), 0, threading.Event()

    def __call__(self) -> float:
        if self.raises:
            raise self.raises.pop(0)
        self.done += 1
        if self.done == 10:
            self.is_done.set()
        return 0.001


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    return ManualClock()


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def run(clock: ManualClock, failures: Failures) -> Iterator[Callable[[Step], Loop]]:
    """A function that starts a loop, which is stopped in the end."""
    loops: list[Loop] = []

    def started(step: Step) -> Loop:
        loop = Loop("worker", step, failures, retry_s=0.001, clock=clock)
        loops.append(loop)
        loop.start()
        return loop

    yield started
    for loop in loops:
        loop.stop()
        assert loop.join(WITHIN_S)


Run = Callable[[Step], Loop]


def events(told: list[Any]) -> list[str]:
    return [each["event"] for each in told]


def test_a_step_that_raises_is_logged_once_with_its_traceback_and_repeated(run: Run, failures: Failures) -> None:
    step = Step(*[KeyError("a bug")] * 5)

    with capture_logs() as told:
        run(step)
        assert step.is_done.wait(WITHIN_S)

    assert [("thread_failed", "worker", "'a bug'")] == [
        (each["event"], each["thread"], each["reason"]) for each in told
    ]
    assert isinstance(told[0]["exc_info"], KeyError)


def test_a_thread_counts_as_failing_until_it_was_well_for_a_while(
    run: Run, clock: ManualClock, failures: Failures
) -> None:
    step = Step(KeyError("a bug"))
    with capture_logs() as told:
        loop = run(step)
        assert step.is_done.wait(WITHIN_S)
        assert {"thread worker": "'a bug'"} == failures.shown

        clock.advance(10_000)
        loop.stop()
        loop.well()

    assert ["thread_failed", "thread_back"] == events(told)
    assert {} == failures.shown


def test_a_thread_that_fails_now_and_then_is_not_logged_each_time(run: Run) -> None:
    step = Step(KeyError("a bug"))
    with capture_logs() as told:
        run(step)
        for _ in range(5):
            assert step.is_done.wait(WITHIN_S)
            step.done = 0
            step.is_done.clear()
            step.raises = [KeyError("a bug")]
        assert step.is_done.wait(WITHIN_S)

    assert ["thread_failed"] == events(told)


def test_a_lost_redis_does_not_count_as_a_failure_of_the_thread(run: Run, failures: Failures) -> None:
    step = Step(*[RedisUnavailable("gone")] * 3)

    with capture_logs() as told:
        run(step)
        assert step.is_done.wait(WITHIN_S)

    assert ([], {}) == (told, failures.shown)


def test_a_refusal_of_redis_is_logged_without_a_traceback(run: Run) -> None:
    step = Step(RedisRefused("NOPERM"))

    with capture_logs() as told:
        run(step)
        assert step.is_done.wait(WITHIN_S)

    assert [("NOPERM", None)] == [(each["reason"], each["exc_info"]) for each in told]


def test_pauses_grow_while_a_step_goes_on_failing(clock: ManualClock) -> None:
    pauses: list[float] = []
    loop = Loop("worker", Step(*[KeyError("a bug")] * 7), retry_s=1.0, clock=clock)
    loop.pause = pauses.append  # type: ignore[method-assign]

    with capture_logs():
        for _ in range(7):
            loop._do()

    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] == pauses


def test_a_loop_without_a_pause_of_its_own_waits_a_second_after_a_failure(clock: ManualClock) -> None:
    pauses: list[float] = []
    loop = Loop("worker", Step(KeyError("a bug")), clock=clock)
    loop.pause = pauses.append  # type: ignore[method-assign]

    with capture_logs():
        loop._do()

    assert [1.0] == pauses


def test_a_finishing_loop_does_a_last_step_when_it_is_stopped() -> None:
    step = Step()
    loop = Loop("worker", step, finishes=True)
    loop.stop()

    loop.start()

    assert loop.join(WITHIN_S)
    assert 1 == step.done
