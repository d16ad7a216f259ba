"""The daemon's sleep and what ends it, by a clock that only passes while the waker sleeps."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import WITHIN_S, eventually
from zsched.core.clock import ManualClock, SystemClock
from zsched.daemon import waker as module
from zsched.daemon.waker import Waker
from zsched.errors import RedisUnavailable
from zsched.storage.keys import Keys

CHANNEL = "zsched:{default}:wake"
FOREVER = float("inf")
OFFSET_MS = 1_000_000.0  # the server's clock is so far ahead
LONG_MS = 20_000.0


def message(text: str) -> list[bytes]:
    return [b"message", CHANNEL.encode(), text.encode()]


class Sleep:
    """
    The waker's sleep on its bells, by a virtual clock: it passes until the timeout, or until the next of *events*
    (``at``), each of which happens at its time.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.events = clock, list[tuple[float, Callable[[], None]]]()

    def at(self, ms: float, event: Callable[[], None]) -> None:
        self.events = sorted([*self.events, (ms, event)], key=lambda each: each[0])

    def select(self, bells: Sequence[Any], _: Any, __: Any, timeout_s: float) -> tuple[list[Any], None, None]:
        until_ms = self.clock.elapsed_ms + timeout_s * 1000
        while not (rung := [bell for bell in bells if bell.is_rung]):
            if not self.events or self.events[0][0] > until_ms:
                self.clock.elapsed_ms = until_ms
                break
            at_ms, event = self.events.pop(0)
            self.clock.elapsed_ms = max(self.clock.elapsed_ms, at_ms)
            event()
        return rung, None, None


class FakeWire:
    """A subscribed connection that receives *messages*; None is a wait without one, and an exception is raised."""

    def __init__(self, clock: ManualClock, messages: Sequence[Any], at_end: Callable[[], None]) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.is_closed, self.waits = False, 0
        self._clock, self._messages, self._at_end = clock, list(messages), at_end

    def send(self, *command: Any) -> None:
        self.sent.append(command)

    def wait_for_data(self, timeout_s: float) -> bool:
        self.waits += 1
        if not self._messages:
            self._at_end()
        self._next = self._messages.pop(0) if self._messages else None
        if self._next is None:
            self._clock.advance(timeout_s * 1000)
        return self._next is not None

    def hear(self) -> Any:
        if isinstance(self._next, Exception):
            raise self._next
        return self._next

    def close(self) -> None:
        self.is_closed = True


class Stage:
    """A waker, its clock and its sleep; ``listen`` gives it a connection with these messages, in this thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.looks, self.finds_master = ManualClock(), 0, False
        self.sleep = Sleep(self.clock)
        monkeypatch.setattr(module, "select", self.sleep)
        self.waker = Waker(self, Keys("default"), self.clock)  # type: ignore[arg-type]

    def listen(self, *messages: Any) -> FakeWire:
        self.wire = FakeWire(self.clock, messages, self.waker.stop)
        self.waker._listen()
        return self.wire

    # -- as a Link --

    def open(self) -> FakeWire:
        return self.wire

    def look_for_master(self) -> None:
        self.looks += 1


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.fixture
def waker(stage: Stage) -> Iterator[Waker]:
    yield stage.waker
    stage.waker.stop()
    stage.waker.wake()  # a late call finds nothing to ring


# -- the sleep ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("due_ms", "most_ms", "is_due", "slept_ms"),
    [
        (OFFSET_MS + 30, LONG_MS, True, 30),
        (OFFSET_MS + 30, 30, True, 30),
        (OFFSET_MS + 31, 30, False, 30),
        (FOREVER, 20, False, 20),
        (OFFSET_MS - 5, LONG_MS, True, 0),  # a past time
    ],
)
def test_the_waker_sleeps_until_the_due_time_of_the_servers_clock_or_its_maximum(
    stage: Stage, waker: Waker, due_ms: float, most_ms: float, is_due: bool, slept_ms: float
) -> None:
    assert is_due is waker.wait_until_due(due_ms, OFFSET_MS, most_ms)
    assert slept_ms == stage.clock.elapsed_ms


@pytest.mark.parametrize(
    ("put", "due_ms", "slept_ms"),
    [
        ("60", 90, 60),  # earlier
        ("10", 90, 40),  # it was due when it was put
        ("95", 90, 90),  # later
        ("nan", 90, 90),
    ],
)
def test_a_put_during_the_sleep_ends_it_at_the_earlier_due_time(
    stage: Stage, waker: Waker, put: str, due_ms: float, slept_ms: float
) -> None:
    stage.sleep.at(40, lambda: waker._hear(message(put)))

    assert waker.wait_until_due(due_ms, 0, LONG_MS)
    assert slept_ms == stage.clock.elapsed_ms


def test_a_put_between_a_tick_and_the_sleep_ends_the_sleep(stage: Stage, waker: Waker) -> None:
    waker._hear(message("1"))

    assert waker.wait_until_due(FOREVER, 0, LONG_MS)
    assert 1 == stage.clock.elapsed_ms


def test_an_earlier_due_time_is_still_known_after_a_sleep_that_its_maximum_ended(stage: Stage, waker: Waker) -> None:
    waker._hear(message("60"))

    assert not waker.wait_until_due(FOREVER, 0, 10)
    assert waker.wait_until_due(FOREVER, 0, LONG_MS)
    assert 60 == stage.clock.elapsed_ms
    assert not waker.wait_until_due(FOREVER, 0, 10), "after a pass it is forgotten"


def test_the_earliest_of_several_puts_ends_the_sleep(stage: Stage, waker: Waker) -> None:
    for due_ms in (70, 60, 80):
        waker._hear(message(str(due_ms)))

    assert waker.wait_until_due(90, 0, LONG_MS)
    assert 60 == stage.clock.elapsed_ms


def test_an_earlier_due_time_does_not_end_a_standbys_sleep(stage: Stage, waker: Waker) -> None:
    waker._hear(message("1"))

    waker.wait(30)

    assert 30 == stage.clock.elapsed_ms


@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("event", ["wake", "lease"])
def test_a_wake_and_a_released_lease_end_the_sleep(stage: Stage, waker: Waker, event: str, is_leader: bool) -> None:
    stage.sleep.at(20, waker.wake if event == "wake" else lambda: waker._hear(message("lease")))

    assert waker.wait_until_due(FOREVER, 0, LONG_MS) if is_leader else waker.wait(LONG_MS) is None
    assert 20 == stage.clock.elapsed_ms


def test_a_subscription_ends_the_sleep_as_an_earlier_put_woke_nobody(stage: Stage, waker: Waker) -> None:
    stage.sleep.at(20, lambda: waker._hear([b"subscribe", CHANNEL.encode(), b"1"]))

    assert waker.wait_until_due(FOREVER, 0, LONG_MS)
    assert 20 == stage.clock.elapsed_ms


def test_a_wake_before_the_sleep_is_not_lost_and_counts_once(stage: Stage, waker: Waker) -> None:
    waker.wake()
    waker.wake()

    waker.wait(LONG_MS)
    assert 0 == stage.clock.elapsed_ms
    waker.wait(30)
    assert 30 == stage.clock.elapsed_ms


# -- another thread, which ends a true sleep ----------------------------------------------------------


class _Waking(SystemClock):
    """A clock that lets another thread wake *waker* at the *at*-th reading."""

    waker: Waker

    def __init__(self, at: int) -> None:
        self.looks, self._at = 0, at

    def monotonic_ms(self) -> float:
        now_ms = super().monotonic_ms()
        self.looks += 1
        if self.looks == self._at:
            other = threading.Thread(target=self.waker.wake)
            other.start()
            other.join()
        return now_ms


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("method", ["wait", "wait_until_due"])
def test_a_wake_between_check_and_sleep_is_not_lost(method: str, at: int) -> None:
    clock = _Waking(at)
    waker = clock.waker = Waker(None, Keys("default"), clock)  # type: ignore[arg-type]

    waker.wait(1e9) if method == "wait" else waker.wait_until_due(1e15, 0, 1e9)

    assert 2 == clock.looks, "it was woken, and looked at no clock again"


def test_another_thread_ends_a_sleep_that_has_begun() -> None:
    waker = Waker(None, Keys("default"), SystemClock())  # type: ignore[arg-type]
    sleeper = threading.Thread(target=waker.wait, args=(1e9,))  # for 11 days
    sleeper.start()

    eventually(lambda: " S " in Path(f"/proc/self/task/{sleeper.native_id}/stat").read_text())
    waker.wake()

    sleeper.join(WITHIN_S)
    assert not sleeper.is_alive()


# -- the channel --------------------------------------------------------------------------------------


def test_the_waker_listens_on_the_channel_of_its_namespace(stage: Stage) -> None:
    wire = stage.listen()

    assert ("SUBSCRIBE", CHANNEL) == wire.sent[0]
    assert wire.is_closed


@pytest.mark.parametrize("garbage", ["", "soon", "nan", "-inf", "\x00"])
def test_garbage_on_the_channel_does_not_stop_the_waker(stage: Stage, garbage: str) -> None:
    wire = stage.listen([b"subscribe", CHANNEL.encode(), 1], message(garbage), message("lease"))

    assert 4 == wire.waits, "it went on to the end"


def test_a_connection_that_does_not_answer_a_ping_is_given_up(stage: Stage) -> None:
    wire = stage.listen(*[None] * 100)

    assert [("SUBSCRIBE", CHANNEL), ("PING",)] == wire.sent
    assert 2 == wire.waits, "10 s without a message, and 10 s more without an answer"
    assert wire.is_closed


def test_a_connection_that_answers_pings_is_kept(stage: Stage) -> None:
    wire = stage.listen(None, [b"pong", b""], None, [b"pong", b""], None)

    assert [("SUBSCRIBE", CHANNEL), *[("PING",)] * 3] == wire.sent
    assert 6 == wire.waits, "all of it was read"


def test_sentinels_are_asked_for_the_master_every_second_at_most(stage: Stage) -> None:
    stage.finds_master = True

    stage.listen(message("1"), None, message("1"), message("1"), None, None, None)

    assert 2 == stage.looks


def test_the_waker_listens_again_after_its_connection_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    opened: queue.Queue[FakeWire] = queue.Queue()
    ends = threading.Event()

    class Link:
        finds_master = False

        def open(self) -> FakeWire:
            given = [RedisUnavailable("reset")] if opened.empty() else [message("lease")]
            wire = FakeWire(ManualClock(), given, lambda: ends.wait(WITHIN_S))
            opened.put(wire)
            return wire

        def look_for_master(self) -> None:
            """Do nothing: there are no Sentinels."""

    waker = Waker(Link(), Keys("default"), SystemClock())  # type: ignore[arg-type]
    waker.start()

    waker.wait(1e9)

    waker.stop()
    ends.set()
    assert waker.join(WITHIN_S)
    assert 2 == opened.qsize()
    assert all(wire.is_closed for wire in opened.queue)
