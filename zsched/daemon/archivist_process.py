"""
The archivist in a separate process: the daemon's side.

::

    daemon ──fork──► keeper ──fork──► archivist        three processes, one program
       └──────────── messages ───────────┘

In one process, firing and archiving would share Python's interpreter lock. So the daemon forks the ``keeper``, before
it has threads or connections. The keeper only starts the archivist, and starts another one when it dies: a process
without threads may fork at any time. Fork, not exec: the modules are loaded once, and shared in memory.

==================== ==============================================================================================
who dies             what happens
==================== ==============================================================================================
the archivist        the keeper starts another within a second; meanwhile the daemon fires, and knows its last state
the keeper           the archivist ends within a second; then the daemon stops in order and fails, to be started again
the daemon           the keeper kills the archivist at once: the archive is free for the next daemon
==================== ==============================================================================================

Keeper and archivist ignore SIGTERM, SIGINT and SIGHUP, which a service manager or a terminal sends to all processes:
the daemon gets them too, and sends the archivist its orders. Not guaranteed: an archivist that does not end within some
seconds may not have archived the last entries; the next daemon archives them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from zsched.config.settings import LogSettings, Settings
from zsched.core.clock import SystemClock
from zsched.daemon.about import facts
from zsched.daemon.archivist_messages import Datagrams, Orders, State
from zsched.daemon.failures import Failures
from zsched.daemon.keeper import keep
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter
from zsched.errors import ArchiveFailed, ZschedError
from zsched.storage.lease import Term
from zsched.storage.questions import Knowledge

log = structlog.get_logger(__name__)

_OPEN_S: Final = 10.0  # for an archive to be opened, before the daemon continues without it
_STOP_S: Final = 7.0  # for an archivist to end in order; its archiver alone may take 5


class ArchivistProcess:
    """
    The archivist of the daemon called *daemon*. Make it before there are threads and connections; call ``share`` before
    ``open``. *meter*: the meter of the archivist's process.
    """

    def __init__(self, settings: Settings, daemon: str, meter: Meter | None = None) -> None:
        self.daemon = daemon
        self._datagrams, theirs = Datagrams.pair()
        about = facts(daemon, SystemClock())
        self._keeper = os.fork()
        if self._keeper == 0:
            self._datagrams.close()
            keep(theirs, settings, about, meter or Meter())
        theirs.close()
        self._failures, self._meter = Failures(), meter or Meter()
        self._on_end: Callable[[], None] = lambda: None
        self._loop = Loop("archivist", self._hear)
        self._orders, self._ordering = Orders(1, settings.log), threading.Lock()
        self._state = State(self._keeper)
        self._was_opened = threading.Event()
        self._failure: ZschedError | None = None

    def share(self, failures: Failures, meter: Meter, on_end: Callable[[], None]) -> None:
        """
        Add the archivist's failures to *failures*, and its counts to *meter*. *on_end*: called when the daemon must end
        because of its archivist; ``check`` then raises the reason.
        """
        self._failures, self._meter, self._on_end = failures, meter, on_end
        self._loop = Loop("archivist", self._hear, failures)

    def check(self) -> None:
        """Raise the error of ``open``, also if it was found later; or ArchiveFailed if the keeper died."""
        if self._failure is not None:
            raise self._failure

    def open(self) -> None:
        """Order the archivist to open its archive, and wait until it is open. Raises as ``Archiver.open``."""
        self._loop.start()
        if not self._was_opened.wait(_OPEN_S):
            log.warning("archive_awaited", waited_s=_OPEN_S)
        if self._failure is not None:
            self.stop()
        self.check()

    def start(self) -> None:
        """Order it to follow the log."""
        self._order(is_started=True)

    def stop(self) -> None:
        """Order it to archive the log up to now, if that is quick, and to end."""
        self._order(is_stopping=True)
        self._loop.join(_STOP_S)  # it ends with the archivist
        self._datagrams.end()  # the keeper kills an archivist that still runs
        with suppress(ChildProcessError):
            os.waitpid(self._keeper, 0)

    def serve(self, term: Term | None) -> None:
        """Send the term to the archivist."""
        self._order(term=term)

    def objected(self, reason: str | None) -> None:
        """Put the reason into the archiver's report."""
        self._order(objection=reason)

    def log_as(self, settings: LogSettings) -> None:
        """Send the daemon's log settings."""
        self._order(log=settings)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._state.pid

    @property
    def gen(self) -> str | None:
        """Return the value of the archivist's last message."""
        knowledge = self._state.knowledge
        return knowledge.gen if knowledge else None

    @property
    def has_looked(self) -> bool:
        """Return the value of the archivist's last message."""
        return self._state.has_looked

    def has_looked_since(self, since_ms: float) -> bool:
        """Return the answer by the archivist's last message."""
        return self._state.looked_ms > since_ms or not self._state.is_trusted

    def knowledge(self) -> Knowledge | None:
        """Return the value of the archivist's last message."""
        return self._state.knowledge

    # -- messages -------------------------------------------------------------------------------

    def _order(self, **changes: Any) -> None:
        with self._ordering:
            orders = replace(self._orders, **changes)
            if orders != self._orders:
                self._orders = replace(orders, number=orders.number + 1)
                self._datagrams.send(self._orders)

    def _hear(self) -> None:
        """Wait for a message and note its contents. End when there is no sender any more."""
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
        if state.was_opened:  # until then the last message of the archivist before it is better
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
