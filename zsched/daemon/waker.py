"""
Sleep until a schedule is due, or until a message announces an earlier due time.

The daemon sleeps on local file descriptors, because a blocking command inside Redis has a resolution of 100 ms. A
background thread listens on the wake channel and ends the sleep. A lost message costs a leader one idle tick, and a
standby the rest of the lease. So best effort is enough: if the connection breaks, or a PING stays unanswered, the
thread opens another connection. It also asks Sentinels for the present master, for the whole daemon, because this
thread may wait for their answer.
"""

import contextlib
import select
from contextlib import closing

from zsched.core.clock import Clock
from zsched.daemon.loop import Bell, Failures, Loop
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

_RETRY_S = 0.5  # between attempts to listen again
_LOOK_S = 1.0  # between two questions to the Sentinels for the present master
_SILENCE_S = 10.0  # without a message: PING; as long again without an answer: the connection is dead


class Waker(Loop):
    """Listens from ``start`` to ``stop``. ``wait`` is for one thread, ``wake`` for any."""

    def __init__(self, link: Link, keys: Keys, clock: Clock, failures: Failures | None = None) -> None:
        super().__init__("waker", self._listen, failures, retry_s=_RETRY_S, clock=clock)
        self._link, self._channel = link, keys.wake()
        self._alarm, self._news = Bell(), Bell()  # the sleep is over; it may have become shorter
        self._earliest_ms: float = float("inf")  # earliest due time put since the last wait, server's time
        self._was_woken = False  # the last sleep, by ``wake``

    def stop(self) -> None:
        """Stop listening. The thread ends within ten seconds, or with the process; this call does not wait for it."""
        super().stop()
        self._alarm.close()
        self._news.close()

    def wake(self) -> None:
        """End the present sleep, or the next one."""
        self._alarm.ring()

    def wait(self, for_ms: float) -> None:
        """Sleep *for_ms*, or until woken by ``wake`` or because the lease was released."""
        self._sleep(self._clock.monotonic_ms() + for_ms, [self._alarm])

    def wait_until_due(self, due_ms: float, server_offset_ms: float, most_ms: float) -> bool:
        """
        Sleep until *due_ms* of the server's clock, which is the monotonic one plus *server_offset_ms*, but at most
        *most_ms*. An earlier due time that is put meanwhile is waited for instead. Return False if *most_ms* ended the
        sleep: the next one still knows the earlier due time.
        """
        limit_ms = self._clock.monotonic_ms() + most_ms
        while True:
            at_ms = min(due_ms, self._earliest_ms) - server_offset_ms
            if self._sleep(min(at_ms, limit_ms), [self._alarm, self._news]):
                break
            self._news.hush()
        if self._was_woken or at_ms <= limit_ms:
            self._earliest_ms = float("inf")  # the following tick reads the present state
            return True
        return False

    def _sleep(self, until_ms: float, bells: list[Bell]) -> bool:
        """Sleep until *until_ms* or a bell. Return True when the sleep is over, False to check again."""
        left_ms = until_ms - self._clock.monotonic_ms()
        rung = select.select(bells, (), (), max(left_ms, 0.0) / 1000)[0]
        self._was_woken = self._alarm in rung
        if self._was_woken:
            self._alarm.hush()
            return True
        return not rung or left_ms <= 0

    def _listen(self) -> None:
        """Listen over one connection, until stopped, or until it breaks or no longer answers."""
        with closing(self._link.open()) as wire:
            wire.send("SUBSCRIBE", self._channel)
            heard_ms, is_asked = self._clock.monotonic_ms(), False
            looked_ms, wait_s = heard_ms, _LOOK_S if self._link.finds_master else _SILENCE_S
            while not self.is_stopping:
                if wire.wait_for_data(wait_s):
                    self._hear(wire.hear())
                    heard_ms, is_asked = self._clock.monotonic_ms(), False
                elif self._clock.monotonic_ms() - heard_ms >= _SILENCE_S * 1000:
                    if is_asked:
                        return
                    wire.send("PING")
                    heard_ms, is_asked = self._clock.monotonic_ms(), True
                if self._clock.monotonic_ms() - looked_ms > _LOOK_S * 1000:
                    self._link.look_for_master()
                    looked_ms = self._clock.monotonic_ms()
                self.well()

    def _hear(self, message: list[bytes]) -> None:
        if message[0] == b"subscribe" or message[2:] == [b"lease"]:  # an earlier put woke nobody
            self._alarm.ring()
        elif message[0] == b"message":
            with contextlib.suppress(ValueError):  # anybody may publish anything there
                self._earliest_ms = min(self._earliest_ms, float(message[2]))
                self._news.ring()
