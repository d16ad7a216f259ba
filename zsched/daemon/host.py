"""
The daemon inside a worker: ``zsched worker --with-daemon``.

::

    zsched worker ── spawn ──► zsched daemon ── fork ──► zsched archive keep      and a work-horse per task

It is an ordinary daemon, with its lease, fence and archive. Only its start and end differ.

**Seats.** Any number of workers may run with a daemon; two of them have a seat (``storage.lease``), and a daemon. The
others wait, and cost one look a second. The worker takes the seat. Its daemon keeps it: a seat belongs to the process
that fires, so a worker that hangs, or a task that holds its interpreter, changes nothing. A daemon that was stopped or
cut off for longer than its seat lasts finds both taken when it returns. It ends then (``keep_seat``), and its worker
waits. Until it knows, the fence of each script makes it harmless, as any former leader.

A worker that waited takes a free seat only after some seconds. When Redis lost its data, the seats are gone, too. Then
those daemons get them again whose archives restore the rest.

**The end.** The daemon asks for SIGKILL at the death of its worker (``child.end_with``), as its archivist does at its
own. A worker that ends in order stops its daemon after its last task. The daemon has a process group of its own, so
Ctrl-C in a terminal reaches the worker alone. A daemon that ends by itself is started again, with growing pauses;
another worker may take the seat meanwhile.

Not guaranteed: an archive is on the disk of a worker's machine, and is at work only while that worker has a seat. If
all workers and Redis lose everything at once, a schedule is restored only if a worker with its archive gets a seat.
"""

import os
import signal
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Self

import structlog

from zsched.daemon.child import ChildProcess, spawn
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.running import DONE
from zsched.errors import ZschedError
from zsched.storage.lease import KEEP_S, Seats

log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0  # between two looks at the daemon, or for a free seat
_RETURN_S: Final = 5.0  # for the daemons that had the seats: attempts to keep them, also over a new connection
_STOP_S: Final = 10.0  # for a daemon to end in order; its archivist alone may take 7


class Hosted(NamedTuple):
    """A daemon inside a worker: the *pid* of the worker, the id of the *daemon*, and RQ's name of the *worker*."""

    pid: int
    daemon: str
    worker: str


class DaemonHost:
    """The daemon inside the worker called *worker*: the worker's side. *env*: the variables of its settings."""

    def __init__(self, seats: Seats, env: Mapping[str, str], worker: str) -> None:
        self._seats, self._env, self._worker = seats, env, worker
        self._id, self._waits = uuid.uuid4().hex, False
        self._daemon: ChildProcess | None = None
        self._loop = Loop("daemon", self._step, finishes=True)  # a thread of its own starts it, and outlives it

    def __enter__(self) -> Self:
        """Start a daemon as soon as it gets a seat."""
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the daemon, and free its seat."""
        self._loop.stop()
        self._loop.join(2 * _STOP_S)

    def _step(self) -> float:
        """Do what is next. The loop repeats it; after an error, with growing pauses."""
        if self._loop.is_stopping:
            self._end()
        elif self._daemon is not None:
            self._check(self._daemon)
        elif self._gets_seat():
            hosted = map(str, Hosted(os.getpid(), self._id, self._worker))
            no_stdin = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            self._daemon = ChildProcess(spawn(("daemon", "--host", *hosted), self._env, [no_stdin], setpgroup=0))
        return _LOOK_S

    def _gets_seat(self) -> bool:
        """Take a seat, if one is free; after a wait, those who had it come first."""
        if self._waits:
            if not self._seats.is_free():
                return False
            self._loop.pause(_RETURN_S)
        has_seat = not self._loop.is_stopping and self._seats.take(self._id)
        if not (has_seat or self._waits):
            log.info("daemon_waits", reason="two other workers run the daemons of this namespace")
        self._waits = not has_seat
        return has_seat

    def _check(self, daemon: ChildProcess) -> None:
        """Free the seat of a daemon that has ended. Raises ZschedError if it failed."""
        if (code := daemon.exit_code()) is not None:
            self._leave()
            if code != DONE:
                raise ZschedError(f"the daemon inside this worker ended with exit code {code}; its events say why")

    def _end(self) -> None:
        if self._daemon is not None:
            self._daemon.send(signal.SIGTERM)
            self._daemon.end(_STOP_S)
        self._leave()

    def _leave(self) -> None:
        with suppress(ZschedError):  # a seat lapses by itself
            self._seats.leave(self._id)
        self._id, self._daemon = uuid.uuid4().hex, None


def keep_seat(seats: Seats, daemon: str, end: Callable[[], None], failures: Failures) -> None:
    """Keep the seat of *daemon*, in a thread. Call *end* when others have all seats."""

    def keep() -> float:
        if not seats.take(daemon):
            log.error(
                "seat_lost", reason="it lapsed while this daemon was stopped or cut off, and another worker took it"
            )
            loop.stop()
            end()
        return KEEP_S

    loop = Loop("seat", keep, failures)
    loop.start()
