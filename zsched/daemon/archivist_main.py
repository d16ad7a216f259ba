"""
The archivist as a process: a child of a daemon, or one without a daemon. Signals, settings of logging, exit code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon.about import facts
from zsched.daemon.archivist import Archivist
from zsched.daemon.child import Parent
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.meter import Meter
from zsched.daemon.running import DONE, exit_code_of, prepare
from zsched.daemon.signals import Signals
from zsched.errors import ArchiveInUse, ConfigError, ZschedError
from zsched.events import configure
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of

log = structlog.get_logger(__name__)

_NAME: Final = "zsched-archive"  # for ps and top: 15 characters at most
_TELL_MS: Final = 1000.0  # between two looks for news for the daemon
_LOCKED_MS: Final = 1000.0  # for the archivist of a daemon that was killed to leave the archive
_LOOK_AGAIN_S: Final = 0.02  # between two attempts meanwhile


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
    archivist = Archivist(settings, link_of(settings), clock, parent.facts, meter, failures, news.count)
    signals.start(archivist.stop, partial(_reload, read), failures)
    if is_first:
        try:
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
            return archivist.open()
        except ArchiveInUse:
            if clock.monotonic_ms() >= until_ms:
                raise
            threading.Event().wait(_LOOK_AGAIN_S)


def _reload(read: Callable[[], Settings]) -> None:
    """Use the log settings of now. The daemon reports invalid ones."""
    with suppress(ConfigError):
        settings = read().log
        configure(settings.level, settings.format)
