"""
Messages to the service manager that started the daemon: it is ready, it lives, what it does, it goes.

The protocol is sd_notify(3): datagrams of ``NAME=value`` lines to the socket that ``NOTIFY_SOCKET`` names; without that
variable nobody listens, and nothing is said. Not guaranteed: that it is heard; a socket that is gone or full is no
reason to stop firing.

**Watchdog** (sd_watchdog_enabled(3)). ``beat`` is called after each pass of the main loop, whatever came of it: led,
stood by, held, or found no Redis, since to end a daemon for its Redis would help nobody. Only a loop that is stuck is
silent. So that no sleep looks like that, none is longer than ``longest_sleep_ms``; and so that no wait for Redis does,
the manager has to be patient enough (``impatience``).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from zsched.core.clock import Clock
from zsched.health.facts import TIMEOUTS

# Of the time after which the manager gives up: a tenth may pass from one beat to the next that is said, a quarter in
# sleep, and the rest in waiting: for Redis (health.facts), and for what finds the address of its name.
_BEATS, _SLEEPS = 10, 4


class Supervisor:
    """The service manager, or nobody. Any thread may call anything."""

    def __init__(self, clock: Clock, address: str | None = None, watchdog_ms: float | None = None) -> None:
        """*address*: of the socket, "@…" for an abstract one. *watchdog_ms*: how long it waits for a beat."""
        self._clock, self.watchdog_ms = clock, watchdog_ms
        self._address = "\0" + address[1:] if address is not None and address.startswith("@") else address
        self._is_ready, self._owes_ready = False, False
        self._status, self._beat_ms = "", float("-inf")
        self._speaking, self._has_failed = threading.Lock(), False

    @classmethod
    def of(cls, env: Mapping[str, str], clock: Clock) -> Supervisor:
        """Read the variables of sd_notify(3) and sd_watchdog_enabled(3); an invalid value counts as absent."""
        address, limit_us, pid = env.get("NOTIFY_SOCKET"), env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID")
        is_watched = limit_us.isdecimal() and int(limit_us) > 0 and pid in (None, str(os.getpid()))
        is_address = address is not None and address[:1] in ("/", "@")
        return cls(clock, address if is_address else None, int(limit_us) / 1000 if is_watched else None)

    @property
    def listens(self) -> bool:
        """True if there is a service manager."""
        return self._address is not None

    @property
    def longest_sleep_ms(self) -> float:
        """Milliseconds that the main loop may sleep without a beat."""
        return float("inf") if self.watchdog_ms is None else self.watchdog_ms / _SLEEPS

    def impatience(self, timeout_s: float) -> str | None:
        """
        Say why a daemon that is well may be ended, where Redis has *timeout_s* for each reply; None if it is not.
        Looking up names knows no such limit: the unit gives it one, and time for it.
        """
        needed_s = TIMEOUTS * timeout_s
        if self.watchdog_ms is None or self.watchdog_ms >= needed_s * 1000:
            return None
        given = f"WatchdogSec is {self.watchdog_ms / 1000:g} s and [redis] timeout_s is {timeout_s:g}"
        return f"{given}: a Redis that hangs may look like a daemon that does; give WatchdogSec {needed_s:g} s or more"

    def ready(self) -> None:
        """It works; counts once."""
        if not self._is_ready:
            self._is_ready = True
            self._say_ready()

    def beat(self) -> None:
        """A pass of the main loop has ended."""
        now_ms = self._clock.monotonic_ms()
        if self._owes_ready:
            self._say_ready()
        if self.watchdog_ms is not None and now_ms - self._beat_ms >= self.watchdog_ms / _BEATS:
            self._beat_ms = now_ms
            self._say("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows. After ``failed`` nothing more is said."""
        with self._speaking:
            if text != self._status and not self._has_failed:
                self._say_status(text)

    def failed(self, reason: str) -> None:
        """It ends, and why: its last status, which is shown until it is started again."""
        with self._speaking:
            self._has_failed = True
            self._say_status(reason)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Inside the block it reads its settings again. Before it is ready that is nobody's business."""
        if self._is_ready:
            self._say(f"RELOADING=1\nMONOTONIC_USEC={self._clock.monotonic_ms() * 1000:.0f}")
        yield
        if self._is_ready:
            self._say_ready()

    def stopping(self) -> None:
        """It ends, as it was asked to."""
        self._say("STOPPING=1")

    def _say_status(self, text: str) -> None:
        self._status = text
        line = " ".join(text.splitlines())  # each line of a datagram says something else
        self._say(f"STATUS={line}")

    def _say_ready(self) -> None:
        """Without it the unit starts, or reloads, for ever; so one that was not taken is said again after a pass."""
        self._owes_ready = not self._say("READY=1")

    def _say(self, lines: str) -> bool:
        """Send *lines*; return True if they were taken, or nobody listens."""
        if self._address is not None:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:  # as the module says
                sender.setblocking(False)
                sender.sendto(lines.encode(errors="backslashreplace"), self._address)
                return True
            return False
        return True
