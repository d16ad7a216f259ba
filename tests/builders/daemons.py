"""Daemons as child processes and in threads of the test, and their events."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import structlog

from tests.waiting import WITHIN_S, eventually
from zsched.config.settings import ArchiveSettings, DaemonSettings, Settings
from zsched.core.clock import SystemClock
from zsched.daemon.archivist import Archivist
from zsched.daemon.daemon import Daemon
from zsched.daemon.running import facts
from zsched.embedded.guard import Guard
from zsched.health.facts import DaemonHealth
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

STEADY_MS = 60_000  # a lease that does not lapse by itself, however busy the machine is
NAP_MS = 60_000  # a lease and an idle time with which nothing but a wake-up ends a sleep
_MAIN = """
import sys
from zsched.config.settings import load_settings
from zsched.daemon.process import run_daemon

sys.exit(run_daemon(load_settings))
"""


def archive_of_its_own() -> str:
    """
    Return the path of an archive that no other daemon has; tests/conftest.py removes it at the end of the session.
    """
    return str(Path(os.environ["XDG_STATE_HOME"], f"{uuid.uuid4().hex}.db"))


class Telling:
    """The events of a daemon, in their order."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        with self._changed:
            self.events.append(dict(event))
            self._changed.notify_all()

    def of(self, name: str) -> list[dict[str, Any]]:
        """
        Return the events of that name that have arrived. Events of a process come through a pipe, maybe later than the
        effect of the process in Redis. So wait for a required event, or for the end of the process.
        """
        return [event for event in list(self.events) if event["event"] == name]

    def wait_for(self, name: str, number: int = 1, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Wait for the event number *number* of that name, and return it."""
        with self._changed:
            told = self._changed.wait_for(lambda: len(self.of(name)) >= number, within_s)
        last = [event["event"] for event in self.events[-20:]]
        assert told, f"no {name} ({number}) within {within_s} s; told: {last}"
        return self.of(name)[number - 1]


class DaemonProcess(Telling):
    """
    A daemon started like by systemd, with *settings* as its environment (``DAEMON_IDLE_MS="500"``). Its lease is
    steady, and it has a separate archive, unless they say otherwise (``DAEMON_LEASE_MS``; ``ARCHIVE_PATH``, "": none is
    configured). *code*: the folder from which its zsched is imported, by default ours.
    """

    def __init__(self, guard: Guard, url: str, *, code: Path | None = None, **settings: str) -> None:
        super().__init__()
        env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        ours = {"REDIS_URL": url, "LOG_FORMAT": "json", "ARCHIVE_PATH": archive_of_its_own()}
        ours |= {"DAEMON_LEASE_MS": str(STEADY_MS)} | settings
        ours.setdefault("DAEMON_RENEW_MS", str(int(ours["DAEMON_LEASE_MS"]) // 3))
        env |= {f"ZSCHED_{name}": value for name, value in ours.items() if value}
        env["PYTHONPATH"] = os.pathsep.join(str(path) for path in (code, *sys.path) if path)
        reading, writing = os.pipe()
        try:
            with os.fdopen(writing, "wb") as stderr:
                self._process = guard.spawn([sys.executable, "-c", _MAIN], stderr=stderr, env=env, cwd=code)
        except BaseException:
            os.close(reading)
            raise
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(reading, "rb"),), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The pid of the daemon."""
        return self._process.pid

    @property
    def archivist_pid(self) -> int:
        """The pid of its archivist."""
        return _child_of(self.pid)

    @property
    def pids(self) -> tuple[int, ...]:
        """The pids of all its processes."""
        return self.pid, self.archivist_pid

    @property
    def has_ended(self) -> bool:
        """Return True if the process has ended."""
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process and no other."""
        self._process.send_signal(number)

    def send_to_all(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, like systemd or a terminal; do nothing after the first has ended."""
        if not self.has_ended:
            os.killpg(self.pid, number)

    def stop(self) -> None:
        """Stop the daemon like systemd, and check its exit code."""
        self.wait_for("daemon_started")  # a signal before the handlers are installed would kill it
        self.send(signal.SIGTERM)
        assert 0 == self.wait()

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Wait for the end, and until all of its events are in ``events``. Return the exit code."""
        code = self._process.wait(within_s)
        self._reader.join(within_s)
        return code

    def _read(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                try:
                    self.add(json.loads(line))
                except ValueError:  # a traceback
                    self.add({"event": "no_json", "text": line.decode(errors="replace")})


class DaemonThread(Telling):
    """
    A daemon and its archivist, in threads, which run inside the block; structlog belongs to them alone. *settings* are
    of [daemon]: without them its lease is steady. *archive*, of [archive], names an archive, by default a separate one;
    *notify* has sinks.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 5.0,
        archive: ArchiveSettings | None = None,
        notify: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        settings = {"lease_ms": STEADY_MS} | settings
        chosen = DaemonSettings(**{"renew_ms": settings["lease_ms"] // 3} | settings)
        archive = archive or ArchiveSettings(path=archive_of_its_own())
        all_settings, link, clock = (
            Settings(daemon=chosen, archive=archive, notify=notify or {}),
            Link.from_url(url, timeout_s),
            SystemClock(),
        )
        self._health = DaemonHealth(clock)
        self.daemon = Daemon(all_settings, link, clock, health=self._health, on_pass=self._tell)
        self._facts = facts(self.daemon.id, clock)
        self.archivist = Archivist(all_settings, link, clock, self._facts)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_running(self) -> bool:
        """Return True if ``run`` has not returned."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the daemon; return when it has ended."""
        self.daemon.stop()
        self._thread.join(WITHIN_S)
        assert not self.is_running

    def __enter__(self) -> DaemonThread:
        structlog.configure(processors=[self._hear], cache_logger_on_first_use=False)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        structlog.reset_defaults()
        if self.error is not None and error is None:
            raise self.error

    def _tell(self) -> None:
        """Tell the archivist what a child would hear."""
        health = self._health
        objection = {} if health.may_not_lead is None else {"may_not_lead": health.may_not_lead}
        part = self._facts | objection | {"failing": health.failing.copy()}
        if part != self.archivist.archiver.daemon:
            self.archivist.archiver.daemon = part

    def _run(self) -> None:
        try:
            self.archivist.archiver.open()
            self.archivist.start()
            try:
                self.daemon.run()
            finally:
                self.archivist.stop()
        except BaseException as error:
            self.error = error
            self.add({"event": "died", "error": repr(error)})

    def _hear(self, logger: Any, level: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        self.add({**event, "level": level})
        raise structlog.DropEvent


@contextmanager
def leading_daemon(url: str, path: Path | str | None = None, **archive: Any) -> Iterator[DaemonThread]:
    """A daemon that leads inside the block, with an archive (at *path*) that follows."""
    chosen = ArchiveSettings(path=str(path or archive_of_its_own()), **archive)
    link = Link.from_url(url, WITHIN_S)
    with DaemonThread(url, archive=chosen) as daemon:
        daemon.wait_for("term_began")
        eventually(Archivers(link, Keys("default")).alive)
        link.pool.disconnect()
        yield daemon


class HeldArchivist:
    """The present archivist of a daemon, held by a descriptor."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.pid = daemon.archivist_pid
        self._held = os.pidfd_open(self.pid)

    def has_ended(self) -> bool:
        """Return True if it has ended, even if its parent did not wait for it yet."""
        return bool(select.select([self._held], (), (), 0)[0])


def _child_of(pid: int) -> int:
    """Return the only child of process *pid*, as soon as it exists."""
    return int(eventually(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split())[0])


Start = Callable[..., DaemonProcess]  # what the fixture start_daemon is
