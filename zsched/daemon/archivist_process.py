"""
The archivist in a process of its own: the daemon's side.

::

    daemon ──fork──► keeper ──fork──► archivist        three processes, one program
       └──────────── messages ───────────┘

In one process, what fires and what archives would share Python's interpreter lock. So the daemon forks the ``keeper``,
before it has threads or connections. The keeper does nothing but start the archivist, and start it again when it dies:
a process without threads may fork at any time. Fork, not exec: the modules are loaded once, and shared in memory.

==================== ==============================================================================================
who dies             what happens
==================== ==============================================================================================
the archivist        the keeper starts another within a second; meanwhile the daemon fires, and knows its last state
the keeper           the archivist ends within a second; then the daemon stops in order and fails, to be started again
the daemon           the keeper kills the archivist at once: the archive is free for the next daemon
==================== ==============================================================================================

Keeper and archivist ignore SIGTERM, SIGINT and SIGHUP, which a service manager or a terminal sends to all processes:
the daemon gets them too, and tells the archivist what to do. Not guaranteed: that an archivist which does not end
within some seconds has archived the last entries; the next daemon does that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from zsched.config import LogSettings, Settings
from zsched.core.clock import SystemClock
from zsched.daemon.about import facts
from zsched.daemon.archivist_messages import Datagrams, Orders, State
from zsched.daemon.failures import Failures
from zsched.daemon.keeper import keep
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter, NoMeter
from zsched.errors import ArchiveFailed, ZschedError
from zsched.storage.lease import Term
from zsched.storage.questions import Knowledge

log = structlog.get_logger(__name__)

_OPEN_S: Final = 10.0  # for an archive to be opened, before the daemon goes on without
_STOP_S: Final = 7.0  # for an archivist to end in order; its archiver alone may take 5


class ArchivistProcess:
    """
    The archivist of the daemon called *daemon*. Make it before there are threads and connections; call ``share`` before
    ``open``. *meter*: what counts in the archivist's process.
    """

    def __init__(self, settings: Settings, daemon: str, meter: Meter | None = None) -> None:
        self.daemon = daemon
        self._datagrams, theirs = Datagrams.pair()
        about = facts(daemon, SystemClock())
        self._keeper = os.fork()
        if self._keeper == 0:
            self._datagrams.close()
            keep(theirs, settings, about, meter or NoMeter())
        theirs.close()
        self._failures, self._meter = Failures(), meter or NoMeter()
        self._on_end: Callable[[], None] = lambda: None
        self._loop = Loop("archivist", self._hear)
        self._orders, self._ordering = Orders(1, settings.log), threading.Lock()
        self._state = State(self._keeper)
        self._was_opened = threading.Event()
        self._failure: ZschedError | None = None

    def share(self, failures: Failures, meter: Meter, on_end: Callable[[], None]) -> None:
        """
        Let *failures* have the archivist's, too, and *meter* what it counts. *on_end*: called when the daemon has to
        end for its archivist; ``check`` knows why.
        """
        self._failures, self._meter, self._on_end = failures, meter, on_end
        self._loop = Loop("archivist", self._hear, failures)

    def check(self) -> None:
        """Raise what ``open`` raises, also if that was found out later; and ArchiveFailed if the keeper died."""
        if self._failure is not None:
            raise self._failure

    def open(self) -> None:
        """Let the archivist open its archive, and wait until it has. Raises as ``Archiver.open``."""
        self._loop.start()
        if not self._was_opened.wait(_OPEN_S):
            log.warning("archive_awaited", waited_s=_OPEN_S)
        if self._failure is not None:
            self.stop()
        self.check()

    def start(self) -> None:
        """Let it follow the log."""
        self._order(is_started=True)

    def stop(self) -> None:
        """Let it archive the log up to now, if that is quick, and end."""
        self._order(is_stopping=True)
        self._loop.join(_STOP_S)  # it ends with the archivist
        self._datagrams.end()  # the keeper kills whoever is still there
        with suppress(ChildProcessError):
            os.waitpid(self._keeper, 0)

    def serve(self, term: Term | None) -> None:
        """Hand the term over."""
        self._order(term=term)

    def objected(self, reason: str | None) -> None:
        """Leave it to the archiver's report."""
        self._order(objection=reason)

    def log_as(self, settings: LogSettings) -> None:
        """Let it log as its daemon."""
        self._order(log=settings)

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._state.pid

    @property
    def gen(self) -> str | None:
        """Return what the archivist said last."""
        knowledge = self._state.knowledge
        return knowledge.gen if knowledge else None

    @property
    def has_looked(self) -> bool:
        """Return what the archivist said last."""
        return self._state.has_looked

    def has_looked_since(self, since_ms: float) -> bool:
        """Return what the archivist said last."""
        return self._state.looked_ms > since_ms or not self._state.is_trusted

    def knowledge(self) -> Knowledge | None:
        """Return what the archivist said last."""
        return self._state.knowledge

    # -- messages -------------------------------------------------------------------------------

    def _order(self, **changes: Any) -> None:
        with self._ordering:
            orders = replace(self._orders, **changes)
            if orders != self._orders:
                self._orders = replace(orders, number=orders.number + 1)
                self._datagrams.send(self._orders)

    def _hear(self) -> None:
        """Wait for a message and note what it says; without a sender, end."""
        try:
            state = self._datagrams.receive()
        except EOFError:
            self._loop.stop()
            if not self._orders.is_stopping:
                reason = "the processes that archive have died"
                self._fail(ArchiveFailed(f"{reason}; the daemon ends, so that all are started again"))
            return
        if state is not None:
            self._take(state)

    def _take(self, state: State) -> None:
        if state.was_opened:  # until then what the archivist before it said is better
            self._state = state
            self._failures.show_others(state.failing)
            if state.counts is not None:
                self._meter.counted(state.counts)
            if not self._was_opened.is_set():
                if state.refusal is not None:
                    self._fail(state.refusal)
                self._was_opened.set()
        self._order(failing=self._failures.own)
        with self._ordering:
            if state.heard != self._orders.number:
                self._datagrams.send(self._orders)

    def _fail(self, error: ZschedError) -> None:
        self._failure = error
        self._was_opened.set()
        self._on_end()
