"""
The archivist: the work of a daemon besides firing. It follows the log, answers questions, and does a leader's chores.

``Threads`` is an archivist in threads of this process. A daemon runs it in a separate process (``archivist_process``),
so that firing does not wait for Python's interpreter lock while the archivist works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from zsched.config.settings import LogSettings, Settings
from zsched.core.clock import Clock
from zsched.daemon.answerer import Answerer
from zsched.daemon.archiver import Archiver
from zsched.daemon.auditor import Auditor
from zsched.daemon.chores import ChoreThread
from zsched.daemon.failures import Failures
from zsched.daemon.lost import LostRuns
from zsched.daemon.meter import Meter
from zsched.daemon.slots import SlotKeeper
from zsched.daemon.tracker import Tracker
from zsched.storage.connection import Link
from zsched.storage.keys import keys_of
from zsched.storage.lease import Term
from zsched.storage.questions import Knowledge


class Archivist(Protocol):
    """The archivist, as the main loop uses it. Only ``open`` and ``stop`` wait."""

    def open(self) -> None:
        """Open the archive. Raises as ``Archiver.open``."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Archive the log up to now, if that is quick, and end."""

    def serve(self, term: Term | None) -> None:
        """Do a leader's chores in *term* from now on. None: this daemon does not lead."""

    def objected(self, reason: str | None) -> None:
        """Report *reason*, why this daemon may not lead. None: it may lead."""

    def log_as(self, settings: LogSettings) -> None:
        """Use the daemon's log *settings* from now on."""

    @property
    def gen(self) -> str | None:
        """Return what ``Archiver.gen`` returns."""

    @property
    def has_looked(self) -> bool:
        """Return what ``Archiver.has_looked`` returns."""

    def has_looked_since(self, since_ms: float) -> bool:
        """Return what ``Archiver.has_looked_since`` returns."""

    def knowledge(self) -> Knowledge | None:
        """Return what ``Archiver.knowledge`` returns."""


class Threads:
    """An archivist in threads of this process. *about* and *on_pass* as for the ``archiver``."""

    def __init__(
        self,
        settings: Settings,
        link: Link,
        clock: Clock,
        daemon: str,
        meter: Meter,
        failures: Failures,
        about: dict[str, Any] | None = None,
        on_pass: Callable[[], None] = lambda: None,
    ) -> None:
        keys = keys_of(settings)
        self.archiver = Archiver(settings, link, clock, daemon, meter, failures, about, on_pass)
        self._answerer = Answerer(self.archiver, link, keys, failures)
        tracebacks = settings.rq.tracebacks
        tracker = Tracker(self.archiver, keys, tracebacks=tracebacks)
        lost = LostRuns(self.archiver, keys, tracker, tracebacks=tracebacks)
        auditor, slots = Auditor(self.archiver, keys), SlotKeeper(keys, clock)
        self._chores = ChoreThread(
            link,
            self.archiver,
            clock,
            [tracker.over, lost.over, auditor.over],
            without_archive=[slots.over],
            failures=failures,
        )

    def open(self) -> None:
        """Open the archive."""
        self.archiver.open()

    def start(self) -> None:
        """Start the threads."""
        self.archiver.start()
        self._answerer.start()
        self._chores.start()

    def stop(self) -> None:
        """Stop all threads; wait for the archiver."""
        self._chores.stop()
        self._answerer.stop()
        self.archiver.stop()

    def serve(self, term: Term | None) -> None:
        """Pass the term to the chores, and report that the daemon leads, or not."""
        self.archiver.leads = term is not None
        self._chores.serve(term)

    def objected(self, reason: str | None) -> None:
        """Put the reason into the archiver's report."""
        self.archiver.may_not_lead = reason

    def log_as(self, settings: LogSettings) -> None:
        """Do nothing: this process has one log."""

    @property
    def gen(self) -> str | None:
        """Ask the archiver."""
        return self.archiver.gen

    @property
    def has_looked(self) -> bool:
        """Ask the archiver."""
        return self.archiver.has_looked

    def has_looked_since(self, since_ms: float) -> bool:
        """Ask the archiver."""
        return self.archiver.has_looked_since(since_ms)

    def knowledge(self) -> Knowledge | None:
        """Ask the archiver."""
        return self.archiver.knowledge()
