"""
The archivist: the work besides firing. It follows the log into an archive, answers questions about history, restores
what Redis lost, and does a leader's chores.

It has a process of its own (``archivist_main``), which a daemon starts as a child (``child`` has the rules). Without a
daemon, an archivist does no chores: these need the term of a daemon that leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.daemon.answerer import Answerer
from zsched.daemon.archiver import Archiver
from zsched.daemon.auditor import Auditor
from zsched.daemon.chores import ChoreThread
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.lost import LostRuns
from zsched.daemon.meter import Meter
from zsched.daemon.pauses import PauseEnder
from zsched.daemon.slots import SlotKeeper
from zsched.daemon.tracker import Tracker
from zsched.storage.connection import Link
from zsched.storage.keys import keys_of
from zsched.storage.lease import Term, term_of

_LOOK_S: Final = 1.0  # between two looks at the lease, and for the present master


class Archivist:
    """
    An archivist in threads of this process. *facts*: of its daemon, for reports (``about``). *on_pass*: called in the
    archiver's thread when a pass over the log has ended, or failed.
    """

    def __init__(
        self,
        settings: Settings,
        link: Link,
        clock: Clock,
        facts: dict[str, Any],
        meter: Meter | None = None,
        failures: Failures | None = None,
        on_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._link, self._keys, self._daemon = link, keys_of(settings), facts["daemon"]
        self._meter, failures = meter or Meter(), failures or Failures()
        self.archiver = Archiver(settings, link, clock, facts, self._meter, failures, on_pass)
        self._answerer = Answerer(self.archiver, link, self._keys, failures)
        tracebacks = settings.rq.tracebacks
        tracker = Tracker(self.archiver, self._keys, tracebacks=tracebacks)
        lost = LostRuns(self.archiver, self._keys, tracker, tracebacks=tracebacks)
        auditor, slots = Auditor(self.archiver, self._keys), SlotKeeper(self._keys, clock)
        self._chores = ChoreThread(
            link,
            self.archiver,
            clock,
            [tracker.over, lost.over, auditor.over],
            without_archive=[slots.over, PauseEnder(self._keys).over],
            failures=failures,
        )
        self._lookout = Loop("lookout", self._look, failures)
        self._term: Term | None = None

    def open(self) -> None:
        """Open the archive. Raises as ``Archiver.open``."""
        self.archiver.open()

    def start(self) -> None:
        """Start the threads."""
        self._lookout.start()
        self.archiver.start()
        self._answerer.start()
        self._chores.start()

    def stop(self) -> None:
        """Archive the log up to now, if that is quick, and end all threads; wait for the archiver."""
        self._lookout.stop()
        self._chores.stop()
        self._answerer.stop()
        self.archiver.stop()

    def _look(self) -> float:
        """See whether the daemon leads, and serve its term; and ask Sentinels for the present master."""
        self._link.look_for_master()
        term = None if self._daemon is None else term_of(self._daemon, self._link, self._keys, self._term)
        if term != self._term:
            self._term, self.archiver.leads = term, term is not None
            if term is not None:
                self._meter.began(term.epoch)
            self._chores.serve(term)
        return _LOOK_S
