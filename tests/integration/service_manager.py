"""A service manager for tests: a socket as NOTIFY_SOCKET names it, and the messages of daemons there."""

import socket
import threading
import time
from pathlib import Path

import pytest

from tests.builders.daemons import DaemonProcess, Telling
from tests.waiting import eventually
from zsched.embedded.guard import Guard


class Manager(Telling):
    """A service manager of one daemon: each ``NAME=value`` that it receives is an event, with its time ``at_s``."""

    def __init__(self, folder: Path, guard: Guard) -> None:
        super().__init__()
        folder.mkdir()
        self._guard, self.address = guard, str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def start(self, url: str, watchdog_s: float | None = None, **settings: str) -> DaemonProcess:
        """Start the daemon of this manager."""
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("NOTIFY_SOCKET", self.address)
            if watchdog_s is not None:
                environment.setenv("WATCHDOG_USEC", f"{watchdog_s * 1_000_000:.0f}")
            return DaemonProcess(self._guard, url, **settings)

    def wait_for_status(self, text: str) -> None:
        """Wait for a status that contains *text*."""
        eventually(lambda: any(text in one["value"] for one in self.of("STATUS")))

    def wait_for_beats(self, number: int = 3) -> None:
        """Wait for *number* more heartbeats."""
        self.wait_for("WATCHDOG", len(self.of("WATCHDOG")) + number)

    def names(self, *of: str) -> list[str]:
        """Return the received names that are among *of*, in order, as far as they have arrived."""
        return [one["event"] for one in self.events if one["event"] in of]

    def close(self) -> None:
        """Stop listening."""
        self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while data := self._socket.recv(65536):
            at_s = time.monotonic()
            for line in data.decode().split("\n"):
                name, _, value = line.partition("=")
                self.add({"event": name, "value": value, "at_s": at_s})
