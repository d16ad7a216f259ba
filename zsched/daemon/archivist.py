"""
The archivist: the work besides firing. It follows the log into an archive, answers questions about history, restores
what Redis lost, and does a leader's chores.

It has a process of its own (``run_child``), which a daemon starts as a child (``child`` has the rules). Without a
daemon (``run_archivist``), an archivist does no chores: these need the term of a daemon that leads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon.answerer import Answerer
from zsched.daemon.archiver import Archiver
from zsched.daemon.auditor import Auditor
from zsched.daemon.child import Parent
from zsched.daemon.chores import ChoreThread
from zsched.daemon.data_set import DoubtEnder
from zsched.daemon.deadlines import DeadlineWatch
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.lost import LostRuns
from zsched.daemon.meter import Meter
from zsched.daemon.running import DONE, Signals, exit_code_of, facts, prepare
from zsched.daemon.tracker import Tracker
from zsched.daemon.upkeep import PauseEnder, SlotKeeper
from zsched.errors import ArchiveInUse, ConfigError, ZschedError
from zsched.events import configure
from zsched.storage.connection import Link, link_of
from zsched.storage.keys import keys_of
from zsched.storage.lease import Term, term_of

if TYPE_CHECKING:
    from zsched.daemon.notifier import Notifier

log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0  # between two looks at the lease, and for the present master
_NAME: Final = "zsched-archive"  # for ps and top: 15 characters at most
_TELL_MS: Final = 1000.0  # between two looks for news for the daemon
_LOCKED_MS: Final = 1000.0  # for the archivist of a daemon that was killed to leave the archive
_LOOK_AGAIN_S: Final = 0.02  # between two attempts meanwhile


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
        self._notifier: Notifier | None = None
        if settings.notify:
            from zsched.daemon.notifier import Notifier  # with the checks of health and more

            self._notifier = Notifier(settings, link, clock, self.archiver, failures)
        self._answerer = Answerer(
            self.archiver, link, self._keys, failures, self._notifier.test if self._notifier else None
        )
        tracebacks = settings.rq.tracebacks
        tracker = Tracker(self.archiver, self._keys, tracebacks=tracebacks)
        lost = LostRuns(self.archiver, self._keys, tracker, tracebacks=tracebacks)
        auditor, slots = Auditor(self.archiver, self._keys), SlotKeeper(self._keys, clock)
        deadlines = DeadlineWatch(self.archiver, self._keys)
        chores = ChoreThread(
            link,
            self.archiver,
            clock,
            [tracker.over, deadlines.over, lost.over, auditor.over],
            without_archive=[slots.over, PauseEnder(self._keys).over, DoubtEnder(self._keys).over],
            failures=failures,
        )
        self._leaders = (chores,) if self._notifier is None else (chores, self._notifier)
        self._lookout = Loop("lookout", self._look, failures)
        self._term: Term | None = None

    def start(self) -> None:
        """Start the threads."""
        for one in (self._lookout, self.archiver, self._answerer, *self._leaders):
            one.start()

    def stop(self) -> None:
        """Archive the log up to now, if that is quick, and end all threads; wait for the archiver."""
        for one in (self._lookout, *self._leaders, self._answerer, self.archiver):
            one.stop()

    def _look(self) -> float:
        """See whether the daemon leads, and serve its term; and ask Sentinels for the present master."""
        self._link.look_for_master()
        term = None if self._daemon is None else term_of(self._daemon, self._link, self._keys, self._term)
        if term != self._term:
            self._term, self.archiver.leads = term, term is not None
            if term is not None:
                self._meter.began(term.epoch)
            for one in self._leaders:
                one.serve(term)
        if self._notifier is not None:
            self.archiver.sinks = self._notifier.about()
        return _LOOK_S


def run_archivist(read: Callable[[], Settings]) -> int:
    """
    Run an archivist without a daemon until SIGTERM or SIGINT, with the settings that *read* returns. Return the exit
    code: UNUSABLE if the archive is not for this Redis or namespace.

    Raises:
        ConfigError: the settings are invalid.
    """
    settings, clock, failures = _begin(read), SystemClock(), Failures()
    signals, stopping = Signals(), threading.Event()
    archivist = Archivist(settings, link_of(settings), clock, facts(None, clock), failures=failures)
    signals.start(stopping.set, partial(_reload, read), failures)
    try:
        _open(archivist, clock)
    except ZschedError as error:
        log.error("archivist_failed", reason=str(error))
        return exit_code_of(error)
    archivist.start()
    stopping.wait()
    archivist.stop()
    return DONE


def run_child(read: Callable[[], Settings], *, is_first: bool = False) -> int:
    """
    Run the archivist of the daemon that started this process, until that ends or says so. Return the exit code, and
    raise, as ``run_archivist``. *is_first*: of this daemon, so that a refused archive ends both.
    """
    parent = Parent()
    settings, clock, failures = _begin(read), SystemClock(), Failures()
    signals, meter = Signals(has_parent=True), _tally(settings, parent.facts["daemon"])
    news = _News(parent, meter, failures, clock)
    try:
        archivist = Archivist(settings, link_of(settings), clock, parent.facts, meter, failures, news.count)
        signals.start(archivist.stop, partial(_reload, read), failures)
        if is_first:
            _open(archivist, clock)
    except ZschedError as error:
        parent.tell({}, None, refused=str(error))
        return exit_code_of(error)
    archivist.start()
    Loop("news", news.tell, failures).start()
    while (part := parent.hear()) is not None:
        archivist.archiver.daemon = part
    archivist.stop()
    return DONE


class _News:
    """News of the archivist for its daemon: what fails, and the counts of *meter*."""

    def __init__(self, parent: Parent, meter: Meter, failures: Failures, clock: Clock) -> None:
        self._parent, self._meter, self._failures, self._clock = parent, meter, failures, clock
        self._counts, self._counted_ms = meter.counts(), clock.monotonic_ms()

    def count(self) -> None:
        """Copy the counts, once a second at most. Only the thread that counts may call this."""
        if self._clock.monotonic_ms() - self._counted_ms >= _TELL_MS:
            self._counts, self._counted_ms = self._meter.counts(), self._clock.monotonic_ms()

    def tell(self) -> float:
        """Tell the news. This waits while the daemon hangs, so it has a thread."""
        self._parent.tell(self._failures.shown, self._counts)
        return _TELL_MS / 1000


def _begin(read: Callable[[], Settings]) -> Settings:
    """Return the settings, and set up this process by them."""
    settings = read()
    prepare(settings.log)
    with suppress(OSError):
        Path("/proc/self/comm").write_text(_NAME)
    return settings


def _tally(settings: Settings, daemon: str) -> Meter:
    """Return the meter of an archivist: it counts only for ``[metrics] listen``."""
    if settings.metrics.listen is None:
        return Meter()
    from zsched.metrics.meter import LogTally, Names

    return LogTally(keys_of(settings).run_suffix, Names(), daemon)


def _open(archivist: Archivist, clock: Clock) -> None:
    """Open the archive. Raises as ``Archiver.open``."""
    until_ms = clock.monotonic_ms() + _LOCKED_MS
    while True:
        try:
            return archivist.archiver.open()
        except ArchiveInUse:
            if clock.monotonic_ms() >= until_ms:
                raise
            threading.Event().wait(_LOOK_AGAIN_S)


def _reload(read: Callable[[], Settings]) -> None:
    """Use the log settings of now. The daemon reports invalid ones."""
    with suppress(ConfigError):
        settings = read().log
        configure(settings.level, settings.format)
