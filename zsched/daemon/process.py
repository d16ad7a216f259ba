"""The daemon as a process: signals, the service manager, its archivist, settings of logging, exit code."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon.about import facts, versions
from zsched.daemon.archivist import run_child
from zsched.daemon.child import ArchivistChild
from zsched.daemon.daemon import Daemon
from zsched.daemon.host import Hosted, keep_seat
from zsched.daemon.loop import Failures
from zsched.daemon.meter import Meter
from zsched.daemon.reload import reload
from zsched.daemon.running import DONE, exit_code_of, prepare
from zsched.daemon.signals import Signals
from zsched.daemon.status_line import StatusLine
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ConfigError, ZschedError
from zsched.health.facts import DaemonHealth
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder
from zsched.storage.seats import Seats

log = structlog.get_logger(__name__)


def run_daemon(read: Callable[[], Settings], env: Mapping[str, str] | None = None, hosted: Hosted | None = None) -> int:
    """
    Run a daemon with the settings that *read* returns, until SIGTERM or SIGINT; a second signal ends it at once. SIGHUP
    reads the settings again, and applies those that can change. Return the exit code: UNUSABLE if the archive or
    namespace is not for this daemon; an operator must upgrade it, or name another archive or namespace. The reason of a
    failure is also its last status.

    *env*: changes to the environment by which an archivist that is started later reads the same settings. *hosted*: it
    is inside a worker; then it ends when it has lost its seat.

    Raises:
        ConfigError: the settings are invalid, now or after a reload; an operator must correct them.
    """
    clock = SystemClock()
    supervisor = Supervisor.from_environment(os.environ, clock)
    try:
        settings = read()
        prepare(settings.log)
        link = link_of(settings)  # before another process starts, so that only one reports a wrong setting
        signals = Signals()  # before its start: it inherits the signals that are held back
        health, id = DaemonHealth(clock), uuid.uuid4().hex if hosted is None else hosted.daemon
        about = facts(id, clock, None if hosted is None else hosted.worker)
        with (
            ArchivistChild(about, health, clock, partial(run_child, read, is_first=True), env or {}) as child,
            _metered(settings, clock, health, child) as child.meter,
        ):

            def reload_all(before: Settings) -> Settings:
                child.reload()
                return reload(before, read)

            daemon = Daemon(settings, link, clock, supervisor, child.meter, health, reload_all, child.watch, id)
            child.wake, child.end = daemon.wake, daemon.stop
            reader = Reader(link, keys_of(settings), Encoder(settings.rq.serializer))
            line = StatusLine(supervisor, reader, health, daemon.id)
            if (impatience := supervisor.impatience(link.timeout_s)) is not None:
                log.warning("watchdog_too_short", reason=impatience)
            signals.start(daemon.stop, daemon.reload, Failures(health.failing))
            if hosted is not None:
                keep_seat(Seats(link, keys_of(settings)), id, daemon.stop, Failures(health.failing))
            line.start()
            try:
                child.wait_until_open()
                daemon.run()
                child.check()
            finally:
                line.stop()
    except ConfigError as error:
        supervisor.failed(str(error))
        raise
    except ZschedError as error:
        supervisor.failed(str(error))
        log.error("daemon_failed", reason=str(error))
        return exit_code_of(error)
    return DONE


def _metered(
    settings: Settings, clock: Clock, health: DaemonHealth, child: ArchivistChild
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
    return serving(settings, clock, health, versions(), lambda: child.pid)
