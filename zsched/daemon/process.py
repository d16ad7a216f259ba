"""
The daemon as a process: signals, settings and their reload, the service manager and the line that it shows, the
archivist, the exit code.
"""

import dataclasses
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.core.wording import duration_text
from zsched.daemon.archivist import run_child
from zsched.daemon.child import ArchivistChild
from zsched.daemon.daemon import Daemon
from zsched.daemon.host import Hosted, keep_seat
from zsched.daemon.loop import Failures, Loop
from zsched.daemon.meter import Meter
from zsched.daemon.running import DONE, Signals, exit_code_of, facts, prepare, versions
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ConfigError, RedisUnavailable, ZschedError, needing
from zsched.events import configure
from zsched.health.checks_daemons import check_no_leader
from zsched.health.facts import DaemonHealth
from zsched.health.verdict import judge_health
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.lease import Seats
from zsched.storage.overview import Overview
from zsched.storage.reader import Reader

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
            reader = Reader.by_settings(settings, link)
            line = status_line(supervisor, reader, health, daemon.id)
            if (impatience := supervisor.impatience(link.timeout_s)) is not None:
                log.warning("watchdog_too_short", reason=impatience)
            signals.start(daemon.stop, daemon.reload, Failures(health.failing))
            if hosted is not None:
                keep_seat(Seats(link, keys_of(settings)), id, daemon.stop, Failures(health.failing))
            if supervisor.listens:
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
    with needing("ops", f"[metrics] listen={settings.metrics.listen!r}"):
        from zsched.metrics.serving import serving
    return serving(settings, clock, health, versions(), lambda: child.pid)


_AT_ONCE = ("log", "queues")  # sections
_OTHERS = ("urgencies", "limits", "web")  # also the sections that no daemon reads


def reload(before: Settings, read: Callable[[], Settings]) -> Settings:
    """
    Return the settings after SIGHUP: *before*, with the sections of *read* that can change in a running daemon.

    The log's level and format, and the limits of queues, apply from the next pass on. Connections, archives and terms
    depend on all other settings: if one differs, its key is logged, with the need of a restart. Invalid settings change
    nothing.
    """
    try:
        given = read()
    except ConfigError as error:
        log.error("reload_failed", reason=str(error), remedy="correct the settings and reload; nothing has changed")
        return before
    now = dataclasses.replace(before, **{section: getattr(given, section) for section in _AT_ONCE + _OTHERS})
    configure(now.log.level, now.log.format)
    log.info("settings_reloaded", changed=list(_differing(before, now)))
    if waiting := list(_differing(now, given)):
        log.warning("restart_needed", keys=waiting, reason="these hold from the daemon's next start on")
    return now


def _differing(one: Settings, other: Settings) -> Iterator[str]:
    """Yield keys with different values, such as ``archive.retention_days``; user-named tables only as a whole."""
    for section in dataclasses.fields(Settings):
        before, after = getattr(one, section.name), getattr(other, section.name)
        if before != after and dataclasses.is_dataclass(before):
            keys = (key.name for key in dataclasses.fields(before))
            yield from (f"{section.name}.{key}" for key in keys if getattr(before, key) != getattr(after, key))
        elif before != after:
            yield section.name


_EVERY_S = 2.0
_SHOWN_ELSEWHERE = ("no_leader", "late", "writes")  # problems that the line expresses itself


def status_line(supervisor: Supervisor, reader: Reader, health: DaemonHealth, id: str) -> Loop:
    """
    Return the thread of the line that ``systemctl status`` shows: the role of daemon *id* (or the reason for none), the
    backlog, and the lateness. *supervisor* gets it.

    It reads Redis every few seconds with *reader*, as `zsched status` does, so the daemon's own loops need not.
    """

    def tell() -> float:
        try:
            text = text_of(reader.overview(), id, health)
        except ZschedError as error:
            text = unseen_text(error, health)
        supervisor.status(text)
        return _EVERY_S

    return Loop("status", tell, Failures(health.failing))


def text_of(overview: Overview, id: str, health: DaemonHealth) -> str:
    """Summarise *overview* for daemon *id*, with the worst problem; refused writes come first."""
    own = next(iter(judge_health(health).problems), None)
    found = judge_health(overview.server, overview).problems
    refused = next((problem.text for problem in found if problem.name == "writes"), None)
    others = [problem.text for problem in found if problem.name not in _SHOWN_ELSEWHERE]
    if refused:
        role = refused
    elif overview.leader == id:
        role = f"leading in epoch {overview.epoch}" + (f", but {own.text}" if own else "")
    elif own:
        role = own.text
    elif overview.leader is None:
        role = check_no_leader.alert
    else:
        role = f"standing by for {overview.leader}"
    held = f", held for {duration_text(overview.held_ms)}" if overview.held_ms else ""
    due, waiting = sum(overview.overdue.values()), sum(overview.waiting.values())
    late = f", the oldest {duration_text(overview.late_ms)} late" if due else ""
    return "; ".join([f"{role}{held}", f"{due:,} due{late}", f"{waiting:,} waiting", *others[:1]])


def unseen_text(error: ZschedError, health: DaemonHealth) -> str:
    """Return the reason why Redis could not be read, or why the daemon does not work."""
    if isinstance(error, RedisUnavailable):
        return str(error)
    return next((own.text for own in judge_health(health).problems), f"cannot read the status: {error}")
