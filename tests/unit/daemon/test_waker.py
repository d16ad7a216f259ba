from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from zsched.core.clock import SystemClock
from zsched.daemon.waker import Waker
from zsched.errors import RedisUnavailable
from zsched.storage.keys import Keys

LONG_MS = 20_000.0  # a sleep that a test must end
PROMPT_MS = 5_000.0  # ended long before LONG_MS, on a machine however busy


class FakeWire:
    """A subscribed connection with given messages; an exception among them is raised."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.messages: queue.Queue[Any] = queue.Queue()
        self.is_closed = threading.Event()

    def send(self, *command: Any) -> None:
        self.sent.append(command)

    def wait_for_data(self, timeout_s: float) -> bool:
        try:
            self._next = self.messages.get(timeout=min(timeout_s, 0.05))
        except queue.Empty:
            return False
        return True

    def receive(self) -> Any:
        if isinstance(self._next, Exception):
            raise self._next
        return self._next

    def close(self) -> None:
        self.is_closed.set()


class FakeLink:
    """A link that opens one fake wire after the other and reports each."""

    def __init__(self) -> None:
        self.opened: queue.Queue[FakeWire] = queue.Queue()

    def open(self) -> FakeWire:
        wire = FakeWire()
        self.opened.put(wire)
        return wire

    def look_for_master(self) -> None:
        """Do nothing: there are no Sentinels."""


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def waker(link: FakeLink) -> Iterator[Waker]:
    waker = Waker(link, Keys("default"), SystemClock())  # type: ignore[arg-type]
    waker.start()
    yield waker
    waker.stop()
    assert waker._loop.join(5)
    waker.wake()  # a late signal finds nothing to ring


def message(text: str) -> list[bytes]:
    return [b"message", b"zsched:{default}:wake", text.encode()]


def slept_ms(sleep: Callable[[], None]) -> float:
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    sleep()
    return clock.monotonic_ms() - began_ms


def test_the_waker_sleeps_until_the_due_time_of_the_servers_clock(waker: Waker) -> None:
    clock = SystemClock()
    due_ms = clock.monotonic_ms() + 1_000_000 + 30

    waker.wait_until_due(due_ms, 1_000_000, LONG_MS)

    assert 0 <= clock.monotonic_ms() + 1_000_000 - due_ms < PROMPT_MS


def test_the_waker_sleeps_no_longer_than_its_maximum(waker: Waker) -> None:
    assert 20 <= slept_ms(lambda: waker.wait_until_due(float("inf"), 0, 20)) < PROMPT_MS


def test_a_sleep_reports_if_a_due_time_ended_it(waker: Waker) -> None:
    assert waker.wait_until_due(SystemClock().monotonic_ms() + 20, 0, LONG_MS)
    assert not waker.wait_until_due(SystemClock().monotonic_ms() + LONG_MS, 0, 20)


def test_a_wake_up_counts_as_a_reason_for_a_pass(waker: Waker) -> None:
    waker.wake()

    assert waker.wait_until_due(float("inf"), 0, LONG_MS)


def test_an_earlier_due_time_is_still_known_after_a_sleep_that_its_maximum_ended(waker: Waker) -> None:
    due_ms = SystemClock().monotonic_ms() + 60
    waker._hear(message(f"{due_ms}"))

    assert not waker.wait_until_due(float("inf"), 0, 10)
    assert waker.wait_until_due(float("inf"), 0, LONG_MS)
    assert 0 <= SystemClock().monotonic_ms() - due_ms < PROMPT_MS


def test_the_waker_does_not_sleep_until_a_past_time(waker: Waker) -> None:
    assert slept_ms(lambda: waker.wait_until_due(SystemClock().monotonic_ms() - 5, 0, LONG_MS)) < PROMPT_MS


def test_the_waker_listens_on_the_channel_of_its_namespace(waker: Waker, link: FakeLink) -> None:
    wire = link.opened.get(timeout=5)
    wire.messages.put(message("lease"))
    waker.wait(LONG_MS)

    assert ("SUBSCRIBE", "zsched:{default}:wake") == wire.sent[0]


def test_an_earlier_due_time_ends_the_sleep_at_that_time(waker: Waker, link: FakeLink) -> None:
    wire, clock = link.opened.get(timeout=5), SystemClock()
    earlier_ms = clock.monotonic_ms() + 60
    wire.messages.put(message(f"{earlier_ms:.0f}"))

    waker.wait_until_due(earlier_ms + LONG_MS, 0, LONG_MS)

    assert -1 <= clock.monotonic_ms() - earlier_ms < PROMPT_MS


def test_a_later_due_time_does_not_lengthen_the_sleep(waker: Waker, link: FakeLink) -> None:
    wire, clock = link.opened.get(timeout=5), SystemClock()
    due_ms = clock.monotonic_ms() + 60
    wire.messages.put(message(f"{due_ms + LONG_MS:.0f}"))

    waker.wait_until_due(due_ms, 0, LONG_MS)

    assert 0 <= clock.monotonic_ms() - due_ms < PROMPT_MS


def test_a_put_between_a_tick_and_the_sleep_ends_the_sleep(waker: Waker) -> None:
    waker._hear(message("1"))

    assert slept_ms(lambda: waker.wait_until_due(float("inf"), 0, LONG_MS)) < PROMPT_MS


def test_a_released_lease_ends_a_standbys_sleep(waker: Waker, link: FakeLink) -> None:
    link.opened.get(timeout=5).messages.put(message("lease"))

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS


def test_an_earlier_due_time_does_not_end_a_standbys_sleep(waker: Waker) -> None:
    waker._hear(message("1"))

    assert 30 <= slept_ms(lambda: waker.wait(30))


def test_wake_ends_the_current_sleep(waker: Waker) -> None:
    other = threading.Timer(0.02, waker.wake)
    other.start()

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    other.join()


def test_wake_before_the_sleep_is_not_lost_and_counts_once(waker: Waker) -> None:
    waker.wake()
    waker.wake()

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    assert 30 <= slept_ms(lambda: waker.wait(30))


def test_a_signal_handler_wakes_the_interrupted_sleep(waker: Waker) -> None:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: waker.wake())
    other = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        other.start()
        assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)


class _Interrupting(SystemClock):
    """A clock that lets a signal arrive at each reading by the sleeper, in the sleeper's own thread."""

    def __init__(self, at: int) -> None:
        self.looks, self._at = 0, at

    def monotonic_ms(self) -> float:
        now_ms = super().monotonic_ms()
        self.looks += 1
        if self.looks == self._at:
            signal.raise_signal(signal.SIGUSR1)
        return now_ms


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("method", ["wait", "wait_until_due"])
def test_a_signal_between_check_and_sleep_is_not_lost(link: FakeLink, method: str, at: int) -> None:
    clock = _Interrupting(at)
    waker = Waker(link, Keys("default"), clock)  # type: ignore[arg-type]
    before = signal.signal(signal.SIGUSR1, lambda number, frame: waker.wake())
    sleep = {"wait": lambda: waker.wait(LONG_MS), "wait_until_due": lambda: waker.wait_until_due(1e15, 0, LONG_MS)}

    try:
        assert slept_ms(sleep[method]) < PROMPT_MS
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.slow
def test_the_waker_listens_again_after_its_connection_was_lost(waker: Waker, link: FakeLink) -> None:
    first = link.opened.get(timeout=5)

    first.messages.put(RedisUnavailable("reset"))
    second = link.opened.get(timeout=5)
    second.messages.put(message("lease"))

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    assert first.is_closed.is_set()


@pytest.mark.parametrize("garbage", ["", "soon", "nan", "-inf", "\x00"])
def test_garbage_on_the_channel_does_not_stop_the_waker(waker: Waker, link: FakeLink, garbage: str) -> None:
    wire = link.opened.get(timeout=5)
    wire.messages.put([b"subscribe", b"zsched:{default}:wake", 1])
    wire.messages.put(message(garbage))
    wire.messages.put(message("lease"))

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    assert not waker._loop.join(0)


def test_a_connection_that_does_not_answer_a_ping_is_replaced(link: FakeLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.daemon.waker._SILENCE_S", 0.05)
    waker = Waker(link, Keys("default"), SystemClock())  # type: ignore[arg-type]
    waker.start()
    half_open = link.opened.get(timeout=5)

    second = link.opened.get(timeout=5)
    second.messages.put(message("lease"))

    assert slept_ms(lambda: waker.wait(LONG_MS)) < PROMPT_MS
    assert ("PING",) in half_open.sent
    waker.stop()


def test_a_connection_that_answers_pings_is_kept(link: FakeLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.daemon.waker._SILENCE_S", 0.05)
    waker = Waker(link, Keys("default"), SystemClock())  # type: ignore[arg-type]
    waker.start()
    wire = link.opened.get(timeout=5)
    pings = threading.Semaphore(0)

    def answer(*command: Any) -> None:
        wire.messages.put([b"pong", b""])
        pings.release()

    wire.send = answer  # type: ignore[method-assign]
    for _ in range(5):
        assert pings.acquire(timeout=5)

    assert not wire.is_closed.is_set()
    assert link.opened.empty()
    waker.stop()
