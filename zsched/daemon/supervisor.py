"""
Messages to the service manager: ready, alive, status, stopping.

The protocol is sd_notify(3): datagrams of ``NAME=value`` lines to the socket that ``NOTIFY_SOCKET`` names; without that
variable nothing is sent. Not guaranteed: messages may be lost; a socket that is gone or full does not stop
firing.

**Watchdog** (sd_watchdog_enabled(3)). ``beat`` is called after each pass of the main loop, whatever its result:
leading, standby, hold, or no Redis. Ending a daemon because of its Redis would not help. Only a stuck loop sends
nothing. No sleep is longer than ``longest_sleep_ms``, so that it does not look stuck. The manager's timeout must be
longer than a wait for Redis (``impatience``).

**Containers** have no such manager, but a probe that may run a command. ``ZSCHED_ALIVE_FILE`` names a file, which each
beat touches. The probe looks at its age, and at no port, so that no other program can keep it from its answer.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from zsched.core.clock import Clock
from zsched.health.facts import TIMEOUTS

# Shares of the manager's timeout: a tenth may pass between two messages of a beat, a quarter in a sleep. The rest is
# for waiting: for Redis (health.facts), and for the look-up of its address.
_BEATS, _SLEEPS = 10, 4


class Supervisor:
    """The service manager, or none. Thread-safe."""

    def __init__(
        self, clock: Clock, address: str | None = None, watchdog_ms: float | None = None, file: str = ""
    ) -> None:
        """
        Make a sender. *address*: of the socket, "@…" for an abstract one. *watchdog_ms*: the manager's timeout for a
        beat, or the age at which a probe gives up *file*.
        """
        self._clock, self.watchdog_ms, self._file = clock, watchdog_ms, file
        self.listens = address is not None  # there is a service manager
        self.longest_sleep_ms = float("inf") if watchdog_ms is None else watchdog_ms / _SLEEPS  # without a beat
        self._address = "\0" + address[1:] if address is not None and address.startswith("@") else address
        self._is_ready, self._owes_ready = False, False
        self._status, self._beat_ms = "", float("-inf")
        self._speaking, self._has_failed = threading.Lock(), False

    @classmethod
    def from_environment(cls, env: Mapping[str, str], clock: Clock) -> Supervisor:
        """Read the variables of sd_notify(3) and sd_watchdog_enabled(3); an invalid value counts as absent."""
        address, limit_us, pid = env.get("NOTIFY_SOCKET"), env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID")
        is_watched = limit_us.isdecimal() and int(limit_us) > 0 and pid in (None, str(os.getpid()))
        is_address = address is not None and address[:1] in ("/", "@")
        limit_ms = int(limit_us) / 1000 if is_watched else None
        return cls(clock, address if is_address else None, limit_ms, env.get("ZSCHED_ALIVE_FILE", ""))

    def impatience(self, timeout_s: float) -> str | None:
        """
        Return a warning if the manager may end a healthy daemon, given *timeout_s* for each reply of Redis; else None.
        Name lookups have no such limit: the unit sets one, and allows time for it.
        """
        needed_s = TIMEOUTS * timeout_s
        if self.watchdog_ms is None or self.watchdog_ms >= needed_s * 1000:
            return None
        given = f"WatchdogSec is {self.watchdog_ms / 1000:g} s and [redis] timeout_s is {timeout_s:g}"
        return f"{given}: a hanging Redis may look like a hanging daemon; give WatchdogSec {needed_s:g} s or more"

    def ready(self) -> None:
        """Report that the daemon is ready; only the first call counts."""
        if not self._is_ready:
            self._is_ready = True
            self._say_ready()

    def beat(self) -> None:
        """Report that a pass of the main loop has ended."""
        now_ms = self._clock.monotonic_ms()
        if self._owes_ready:
            self._say_ready()
        if self.watchdog_ms is not None and now_ms - self._beat_ms >= self.watchdog_ms / _BEATS:
            self._beat_ms = now_ms
            self._say("WATCHDOG=1")
            if self._file:
                with suppress(OSError):
                    Path(self._file).touch()

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows. After ``failed`` it does not change."""
        with self._speaking:
            if text != self._status and not self._has_failed:
                self._say_status(text)

    def failed(self, reason: str) -> None:
        """Report the end and its reason: the last status, shown until the next start."""
        with self._speaking:
            self._has_failed = True
            self._say_status(reason)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report a reload inside the block. Before the daemon is ready, nothing is reported."""
        if self._is_ready:
            self._say(f"RELOADING=1\nMONOTONIC_USEC={self._clock.monotonic_ms() * 1000:.0f}")
        yield
        if self._is_ready:
            self._say_ready()

    def stopping(self) -> None:
        """Report that the daemon stops as requested."""
        self._say("STOPPING=1")

    def _say_status(self, text: str) -> None:
        self._status = text
        line = " ".join(text.splitlines())  # each line of a datagram is a separate message
        self._say(f"STATUS={line}")

    def _say_ready(self) -> None:
        """
        Send READY. Without it the unit starts, or reloads, forever; so a failed message is sent again after a pass.
        """
        self._owes_ready = not self._say("READY=1")

    def _say(self, lines: str) -> bool:
        """Send *lines*; return True if they were accepted, or if there is no manager."""
        if self._address is not None:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:  # as the module says
                sender.setblocking(False)
                sender.sendto(lines.encode(errors="backslashreplace"), self._address)
                return True
            return False
        return True
