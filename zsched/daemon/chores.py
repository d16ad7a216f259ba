"""
A leader's chores: the background thread with a leader's work besides firing, mostly based on its archive.

The daemon gives it the term. The thread opens its own wire and does its chores in turn, each in small steps. Chores
that need the archive run only while it follows the log. Firing never waits for this thread. It writes only through a
leader's scripts, so the end of a term stops it (the fence), and it waits for the next term.

The fence compares ``meta.server`` with the server on which the term was won. That does not identify the server at the
other end of *this* wire: a freshly promoted replica holds the same meta and the same lease. So the wire is used only if
it leads to the server of the term.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, Protocol

from zsched.core.clock import Clock
from zsched.daemon.archiver import Archiver
from zsched.daemon.loop import Failures, Loop
from zsched.errors import RedisUnavailable, ServerChanged, Stale
from zsched.storage.connection import Link, Wire
from zsched.storage.lease import Term
from zsched.storage.server import Server

_RETRY_MS: Final = 1000.0  # before another attempt after a failure
_HEALTH_MS: Final = 500.0  # between checks of an archive that does not follow
_TOGETHER_MS: Final = 20.0  # chores that are due so soon are done now: most of a short step's cost is the wake-up


class Chore(Protocol):
    """A periodic task of a leader, over its latest wire."""

    name: str  # for events
    every_ms: float  # before the next step if no work is left

    def step(self, term: Term) -> bool:
        """
        Do a part, in a second at most. Return True if work is left.

        Raises:
            Stale, ServerChanged: the term is over. RedisUnavailable, RedisRefused, ArchiveError: later again.
        """


class ChoreThread(Loop):
    """
    Does *chores* from ``start`` to ``stop``, while there is a term to ``serve`` and the archive follows; and the
    chores *without_archive* even if the archive does not follow.
    """

    def __init__(
        self,
        link: Link,
        archiver: Archiver,
        clock: Clock,
        chores: Sequence[Callable[[Wire], Chore]],
        without_archive: Sequence[Callable[[Wire], Chore]] = (),
        failures: Failures | None = None,
    ) -> None:
        super().__init__("chores", self._serve_once, failures, retry_s=_RETRY_MS / 1000, clock=clock)
        self._link, self._archiver = link, archiver
        # Of the makers, those from index _needing on need the archive.
        self._makers, self._needing = (*without_archive, *chores), len(without_archive)
        self._term: Term | None = None
        self._over: Term | None = None  # the term that a script found to be over
        self._news = threading.Event()  # of the term, or the stop

    def stop(self) -> None:
        """Start no more steps. The thread ends after the script in flight; this call does not wait for it."""
        super().stop()
        self._news.set()

    def serve(self, term: Term | None) -> None:
        """Serve *term* from now on, until another is given; None: this daemon does not lead."""
        self._term = term
        self._news.set()

    # -- the thread -------------------------------------------------------------------------------

    def _serve_once(self) -> None:
        """Serve over one connection, until the term is over or it breaks; without a term, wait for one."""
        term = self._term
        if term is None or term is self._over:
            self._failures.forget("chore")
            self._wait(None)
            return
        try:
            with closing(self._link.open()) as wire:
                if Server.of(wire).id == term.server_id:
                    self._serve(wire, term)
                    return
        except (Stale, ServerChanged):  # the main loop will notice and report it
            self._over = term
        except RedisUnavailable:  # the main loop reports it
            pass
        self._wait(_RETRY_MS)

    def _serve(self, wire: Wire, term: Term) -> None:
        """Do the chores over *wire* until the term changes or ends."""
        chores = [make(wire) for make in self._makers]
        next_ms = [self._clock.monotonic_ms()] * len(chores)
        while not self.is_stopping and self._term is term:
            is_healthy = self._archiver.is_healthy
            for number, chore in enumerate(chores):
                if self._clock.monotonic_ms() >= next_ms[number] - _TOGETHER_MS:
                    pause_ms = self._work(chore, term) if is_healthy or number < self._needing else _HEALTH_MS
                    next_ms[number] = self._clock.monotonic_ms() + pause_ms
            self.well()
            self._wait(min(next_ms, default=float("inf")) - self._clock.monotonic_ms())

    def _work(self, chore: Chore, term: Term) -> float:
        """Do a step of *chore*; return the ms until the next one."""
        try:
            has_more = chore.step(term)
        except (Stale, ServerChanged, RedisUnavailable):
            raise
        except Exception as error:  # only this chore fails, the others continue
            self._failures.begin("chore", chore.name, error)
            return _RETRY_MS
        self._failures.end("chore", chore.name)
        return 0.0 if has_more else chore.every_ms

    def _wait(self, ms: float | None) -> None:
        """Wait for a change: another term, or the stop."""
        if ms is None or ms > 0:
            self._news.wait(None if ms is None else min(ms, _RETRY_MS) / 1000)
        self._news.clear()
