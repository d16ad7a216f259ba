"""The daemon as a process: signals, the service manager, settings of logging, exit code."""

from __future__ import annotations

import gc
import os
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon import heap
from zsched.daemon.about import versions
from zsched.daemon.archivist_process import ArchivistProcess
from zsched.daemon.daemon import Daemon
from zsched.daemon.failures import Failures
from zsched.daemon.meter import Meter
from zsched.daemon.reload import reload
from zsched.daemon.signals import Signals
from zsched.daemon.status_line import StatusLine
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ArchiveForeign, ConfigError, OlderFormat, OtherPrefix, ZschedError
from zsched.events import configure
from zsched.health.facts import DaemonHealth
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

log = structlog.get_logger(__name__)

DONE, FAILED, UNUSABLE = 0, 1, 2  # systemd restarts the unit after FAILED, not after UNUSABLE
# Seconds for which a thread may keep the interpreter while other threads wait. Firing must not wait for a page of
# metrics, nor archiving for the audit. Python's default is 0.005.
_SWITCH_S = 0.0001


def run_daemon(read: Callable[[], Settings]) -> int:
    """
    Run a daemon with the settings that *read* returns, until SIGTERM or SIGINT; a second signal ends it at once. SIGHUP
    reads the settings again, and applies those that can change. Return the exit code: UNUSABLE if the archive or
    namespace is not for this daemon; an operator must upgrade it, or name another archive or namespace. The reason of a
    failure is also its last status.

    Raises:
        ConfigError: the settings are invalid, now or after a reload; an operator must correct them.
    """
    clock = SystemClock()
    supervisor = Supervisor.from_environment(os.environ, clock)
    try:
        settings = read()
        sys.setswitchinterval(_SWITCH_S)
        heap.share_one()
        gc.freeze()  # the collector skips objects that stay, such as modules: every thread waits for it
        configure(settings.log.level, settings.log.format)
        _run(settings, read, clock, supervisor)
    except ConfigError as error:
        supervisor.failed(str(error))
        raise
    except ZschedError as error:
        supervisor.failed(str(error))
        log.error("daemon_failed", reason=str(error))
        return UNUSABLE if isinstance(error, ArchiveForeign | OlderFormat | OtherPrefix) else FAILED
    return DONE


def _run(settings: Settings, read: Callable[[], Settings], clock: Clock, supervisor: Supervisor) -> None:
    daemon_id = uuid.uuid4().hex
    link = link_of(settings)  # before the fork, so that only one process reports a wrong setting
    archivist = ArchivistProcess(settings, daemon_id, _tally(settings, daemon_id))
    signals = Signals()  # after the fork: the archivist's process ignores them
    health = DaemonHealth(clock)
    with _metered(settings, clock, health, archivist) as meter:
        daemon = Daemon(settings, link, clock, supervisor, meter, health, partial(reload, read=read), archivist)
        reader = Reader(link, keys_of(settings), Encoder(settings.rq.serializer))
        line = StatusLine(supervisor, reader, health, daemon.id)
        if (impatience := supervisor.impatience(link.timeout_s)) is not None:
            log.warning("watchdog_too_short", reason=impatience)
        signals.start(daemon.stop, daemon.reload, Failures(health.failing))
        line.start()
        try:
            daemon.run()
            archivist.check()
        finally:
            line.stop()


def _tally(settings: Settings, daemon: str) -> Meter:
    """Return the meter of the archivist's process."""
    if settings.metrics.listen is None:
        return Meter()
    from zsched.metrics.meter import LogTally, Names

    return LogTally(keys_of(settings).run_suffix, Names(), daemon)


def _metered(
    settings: Settings, clock: Clock, health: DaemonHealth, archivist: ArchivistProcess
) -> AbstractContextManager[Meter]:
    """Return the meter of the daemon. It notes nothing unless ``[metrics] listen`` has an address."""
    if settings.metrics.listen is None:
        return nullcontext(Meter())
    try:
        from zsched.metrics.serving import serving  # its library comes with an extra
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        place, remedy = f"[metrics] listen={settings.metrics.listen!r}", "install it: pip install 'zsched[ops]'"
        raise ConfigError(f"{place}: prometheus_client is not installed; {remedy}") from error
    return serving(settings, clock, health, versions(), lambda: archivist.pid)
