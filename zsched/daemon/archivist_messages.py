"""
Messages between a daemon and its archivist: ``Orders`` one way, ``State`` the other way.

Each message is one datagram with the whole state of its sender, and replaces the message before. So a lost datagram
does no harm: the archivist names the last orders that it received, and the daemon repeats newer ones; the archivist
repeats its state every second. Sending never waits, because a process that hangs must not stop the other one. A process
that dies never leaves half a datagram (SOCK_SEQPACKET).

Datagrams contain pickles: only a daemon and the processes that it forked have the two ends.
"""

from __future__ import annotations

import math
import pickle
import select
import socket
from dataclasses import dataclass, field
from typing import Any, Final

from zsched.config.settings import LogSettings
from zsched.errors import ZschedError
from zsched.storage.lease import Term
from zsched.storage.questions import Knowledge

_LARGEST: Final = 262_144  # bytes; Linux sends no datagram as large as this (net.core.wmem_default, 212,992)


@dataclass(frozen=True, slots=True)
class Orders:
    """The daemon's state, as far as its archivist needs it. *number* rises with each change."""

    number: int
    log: LogSettings
    is_started: bool = False  # follow the log
    is_stopping: bool = False  # archive the log up to now, and end
    term: Term | None = None  # of a leader, for its chores
    objection: str | None = None  # why the daemon may not lead
    failing: dict[str, str] = field(default_factory=dict)  # what fails in the daemon's process, for reports


@dataclass(frozen=True, slots=True)
class State:
    """The archivist's state. *heard*: number of the last orders that it received. The others: from the archiver."""

    pid: int
    heard: int = 0
    was_opened: bool = False  # the archive, or the attempt failed with *refusal*
    refusal: ZschedError | None = None
    knowledge: Knowledge | None = None
    has_looked: bool = False
    is_trusted: bool = True
    looked_ms: float = -math.inf
    failing: dict[str, str] = field(default_factory=dict)
    counts: Any = None  # of the log, by its meter, once a second at most; None: as before


class Datagrams:
    """One end of the connection. Any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end, self._poll = end, select.poll()
        self._poll.register(end, select.POLLIN)

    @classmethod
    def pair(cls) -> tuple[Datagrams, Datagrams]:
        """Return both ends."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the file descriptor, for poll."""
        return self._end.fileno()

    def send(self, message: Orders | State) -> bool:
        """Send *message*. Return False if the other end is gone, or does not receive."""
        try:
            self._end.send(pickle.dumps(message))
        except (BlockingIOError, ConnectionError):
            return False
        return True

    def receive(self, within_s: float | None = None) -> Any:
        """
        Return the next message, or None after *within_s*. Raises EOFError when no process has the other end any more.
        """
        if not self._poll.poll(None if within_s is None else within_s * 1000):
            return None
        try:
            message = self._end.recv(_LARGEST)
        except BlockingIOError:
            return None
        except ConnectionError:  # it was closed with unread messages
            message = b""
        if not message:
            raise EOFError
        return pickle.loads(message)  # written by a process of this program

    def end(self) -> None:
        """Shut both ends down, in all processes: nothing more is received."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end is gone
            return

    def close(self) -> None:
        """Close this end in this process."""
        self._end.close()
