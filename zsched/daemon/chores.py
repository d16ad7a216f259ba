"""
A leader's chores: the thread that does what a leader does besides firing, mostly from what its archive knows.

The daemon hands it the term; it opens a wire of its own and does its chores in turn, each in small steps: those that
need the archive while it follows, the others always. Nothing that fires waits for it. What it writes goes through
leader's scripts, so a term that is over stops it (the fence), and it waits for the next one.

The fence compares ``meta.server`` with the server on which the term was won. That says nothing of the server at the
other end of *this* wire: a replica that was promoted a moment ago holds the same meta and the same lease. So the
wire is used only when it leads to the very server of the term.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final, Protocol

from zsched.core.clock import Clock
from zsched.daemon.archiver import Archiver
from zsched.daemon.failures import Failures
from zsched.daemon.loop import Loop
from zsched.errors import RedisUnavailable, ServerChanged, Stale
from zsched.storage.connection import Link, Wire
from zsched.storage.lease import Server, Term

_RETRY_MS: Final = 1000.0  # before trying again what went wrong
_HEALTH_MS: Final = 500.0  # between looks at an archive that does not follow


class Chore(Protocol):
    """Something that a leader does every so often, over the wire that it was given last."""

    @property
    def name(self) -> str:
        """For events."""

    @property
    def every_ms(self) -> float:
        """From one step to the next, when there is no more to do at once."""

    def step(self, term: Term) -> bool:
        """
        Do a part, in a second at most. Return True when there is more to do at once.

        Raises:
            Stale, ServerChanged: the term is over. RedisUnavailable, RedisRefused, ArchiveError: later again.
        """


class ChoreThread:
    """
    Does *chores* from ``start`` to ``stop``, while the daemon is ``serving`` a term and the archive follows; and those
    *without_archive* whether it does or not.
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
        self._link, self._archiver, self._clock = link, archiver, clock
        self._makers, self._needing = (*without_archive, *chores), len(without_archive)  # these need it, from there on
        self._term: Term | None = None
        self._changing = threading.Lock()  # of the term
        self._news, self._failures = threading.Event(), failures or Failures()
        self._loop = Loop("chores", self._serve_once, self._failures, retry_s=_RETRY_MS / 1000)

    def start(self) -> None:
        """Begin to wait for a term."""
        self._loop.start()

    def stop(self) -> None:
        """Begin nothing more. The thread ends by itself, after the script in flight."""
        self._loop.stop()
        self._news.set()

    @contextmanager
    def serving(self, term: Term | None) -> Iterator[None]:
        """Inside the block this daemon leads, in *term*."""
        self._hand_over(term)
        try:
            yield
        finally:
            self._hand_over(None)

    def _hand_over(self, term: Term | None) -> None:
        with self._changing:
            self._term = term
        self._news.set()

    # -- the thread -------------------------------------------------------------------------------

    def _serve_once(self) -> None:
        """Serve over one connection, until the term is over or it breaks; without a term, wait for one."""
        term = self._term
        if term is None:
            self._failures.forget("chore")
            self._wait(None)
            return
        try:
            with closing(self._link.open()) as wire:
                if Server.of(wire).id == term.server_id:
                    self._serve(wire, term)
                    return
        except (Stale, ServerChanged):  # the main loop will notice, and say so
            self._give_up(term)
        except RedisUnavailable:  # the main loop says so
            pass
        self._wait(_RETRY_MS)

    def _serve(self, wire: Wire, term: Term) -> None:
        """Do the chores over *wire* until the daemon has another term, or none."""
        chores = [make(wire) for make in self._makers]
        next_ms = [self._clock.monotonic_ms()] * len(chores)
        while not self._loop.is_stopping and self._term is term:
            is_healthy = self._archiver.is_healthy
            for number, chore in enumerate(chores):
                if self._clock.monotonic_ms() >= next_ms[number]:
                    pause_ms = self._do(chore, term) if is_healthy or number < self._needing else _HEALTH_MS
                    next_ms[number] = self._clock.monotonic_ms() + pause_ms
            self._loop.well()
            self._wait(min(next_ms, default=float("inf")) - self._clock.monotonic_ms())

    def _do(self, chore: Chore, term: Term) -> float:
        """A step of *chore*; after how many ms the next."""
        try:
            has_more = chore.step(term)
        except (Stale, ServerChanged, RedisUnavailable):
            raise
        except Exception as error:  # one chore's, and the others go on
            self._failures.begin("chore", chore.name, error)
            return _RETRY_MS
        self._failures.end("chore", chore.name)
        return 0.0 if has_more else chore.every_ms

    def _give_up(self, term: Term) -> None:
        with self._changing:
            if self._term is term:
                self._term = None

    def _wait(self, ms: float | None) -> None:
        """For news: another term, the end."""
        if ms is None or ms > 0:
            self._news.wait(None if ms is None else min(ms, _RETRY_MS) / 1000)
        self._news.clear()
