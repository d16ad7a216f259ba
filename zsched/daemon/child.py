"""
The archivist as a child of the daemon: its start, its streams and its end.

::

    zsched daemon ── exec ──► zsched archivist          two processes
          └─────── both use Redis ───────┘

In one process, firing and archiving would share Python's interpreter lock. So the daemon's main thread starts ``zsched
archivist`` as a new process (``ArchivistChild``), and another one when it dies, at most one a second. Meanwhile the
daemon fires.

**They meet in Redis.** The archivist reads from the lease whether its daemon leads, and takes the token from there: the
fence of each script is the same for both. The daemon reads from the archive's report whether the archive has followed
the log into the present term (``Report.has_followed``), and asks for names as it asks every archive (``naming``). The
holds are the leader's: ``acquire`` sets one for a new or restarted Redis, and the leader waits beyond it for its own
archive's report, for a limited time. So an archivist that is dead or stopped can delay the first run, and never hasten
it. The log settings are read from the same file and environment, again at each SIGHUP.

**Two things are not in Redis**, and go through the child's standard streams, a line of JSON for each change:

====== =================== ==================================================================================
stdin  daemon → archivist  the daemon's part of the archive's reports: its facts, what fails, why it may not lead
stdout archivist → daemon  that the archive is open, or why it is refused; what fails; counts for /metrics
====== =================== ==================================================================================

Each line replaces the one before. Nobody waits for a reader: the daemon keeps the rest of a line that does not fit, and
a thread of the archivist does nothing else but write. The end of stdin orders the archivist to archive the log up to
now, and to end. It leaves SIGTERM and SIGINT, which come to all processes, to the daemon.

**The daemon's end.** The archivist asks for a signal at the death of its parent (PR_SET_PDEATHSIG), SIGKILL: it also
ends an archivist that is stopped. Then it looks whether its parent still lives. The kernel sends the signal when the
*thread* that started the process ends, so it is the main thread that starts it. The lock of the archive is then free
for the next daemon, whose archivist tries for a second.

**A refused archive.** The first archivist opens the archive before its daemon tries to lead. If it is refused, the
daemon ends with the reason. A later archivist reports the refusal, and tries again.

Not guaranteed: an archivist that does not end within some seconds may not have archived the last entries; the next one
archives them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import structlog

from zsched.core.clock import Clock
from zsched.daemon.about import facts
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter
from zsched.daemon.running import UNUSABLE
from zsched.errors import ArchiveError, ArchiveForeign
from zsched.health.facts import DaemonHealth

log = structlog.get_logger(__name__)

COMMAND: Final = ("-P", "-m", "zsched.cli", "archivist", "--child")  # for this Python; then one of the next two
FIRST, AGAIN = "first", "again"
_OPEN_S: Final = 10.0  # for an archive to be opened, before the daemon continues without it
_LOOK_S: Final = 0.05  # between two looks meanwhile
_APART_MS: Final = 1000.0  # between two starts
_STOP_S: Final = 7.0  # for an archivist to end in order; its archiver alone may take 5
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)


class ArchivistChild:
    """
    The archivist of the daemon called *daemon*: the daemon's side. All methods are for the main thread.

    *command*: the arguments of Python. *env*: the environment's variables to change. *health*: that of the daemon. Set
    ``meter``, which gets the archivist's counts; ``wake``, which another thread calls when ``watch`` has work; and
    ``end``, which is called when the daemon must end because of its archivist: ``check`` then raises the reason.
    """

    def __init__(
        self,
        daemon: str,
        health: DaemonHealth,
        clock: Clock,
        env: Mapping[str, str],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._facts, self._health, self._clock = facts(daemon, clock), health, clock
        self._command = [sys.executable, *command]
        self._env = {**os.environ, **env, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
        self.meter = Meter()
        self.wake: Callable[[], None] = lambda: None
        self.end: Callable[[], None] = lambda: None
        self._was_opened, self._refusal = threading.Event(), ""
        self._next_start_ms = 0.0
        self._told, self._unsent = dict[str, Any](), b""
        self._start(FIRST)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def __enter__(self) -> ArchivistChild:
        return self

    def __exit__(self, *_: object) -> None:
        """
        Order it to archive the log up to now, if that is quick, and to end. Kill it if it does not.
        """
        if self._process.poll() is not None and not self._refusal:
            self._restart()  # it ends after its first pass
        self._stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raise ArchiveForeign or ArchiveError if the first archivist refused its archive."""
        if self._refusal and (code := self._process.wait()):
            raise (ArchiveForeign if code == UNUSABLE else ArchiveError)(self._refusal)

    def wait_until_open(self) -> None:
        """Wait until the archive is open, for some seconds at most. Raises as ``check``."""
        until_ms = self._clock.monotonic_ms() + _OPEN_S * 1000
        while not self._was_opened.wait(_LOOK_S):
            self.check()
            self.watch()
            if self._clock.monotonic_ms() > until_ms:
                log.warning("archive_awaited", waited_s=_OPEN_S)
                return

    def watch(self) -> None:
        """
        Send what is new, and start another archivist if it has died. Call this after each pass of the main loop.
        """
        if self._refusal:
            self.end()
        elif (code := self._process.poll()) is not None and self._clock.monotonic_ms() >= self._next_start_ms:
            log.error("archivist_died", exit_code=code)
            self._restart()
        self._tell()

    def reload(self) -> None:
        """Let it read the log settings again."""
        self._process.send_signal(signal.SIGHUP)

    def _restart(self) -> None:
        self._stdin.close()
        with suppress(OSError):  # no memory, for example: tried again a second later
            self._start(AGAIN)

    def _start(self, word: str) -> None:
        self._next_start_ms = self._clock.monotonic_ms() + _APART_MS
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*self._command, word], stdin=pipe, stdout=pipe, env=self._env)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._told, self._unsent = {}, b""
        self._tell()
        loop = Loop("archivist", lambda: self._hear(stdout, loop), clock=self._clock)
        loop.start()

    def _tell(self) -> None:
        """Send the daemon's part of the reports if it is new, or the rest of the last one."""
        health = self._health
        part = {**self._facts, "failing": health.failing.copy()}
        if health.may_not_lead is not None:
            part["may_not_lead"] = health.may_not_lead
        if not self._unsent and part != self._told:
            self._told, self._unsent = part, json.dumps(part).encode() + b"\n"
        with suppress(BlockingIOError, BrokenPipeError):  # it hangs, or has ended
            if self._unsent and not self._stdin.closed:
                self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]

    def _hear(self, stdout: IO[bytes], loop: Loop) -> None:
        """Note the next line of the archivist. At the end, wake the main thread when it may start another."""
        line = stdout.readline()
        if not line.endswith(b"\n"):
            loop.stop()
            stdout.close()
            self._health.archivist_failing = {}
            threading.Event().wait(max(self._next_start_ms - self._clock.monotonic_ms(), 0.0) / 1000)
            self.wake()
            return
        state = json.loads(line)
        self._refusal, self._health.archivist_failing = state["refused"], state["failing"]
        if state["counts"] is not None:
            self.meter.counted(state["counts"])
        if not self._refusal:
            self._was_opened.set()


class Parent:
    """
    The daemon of this archivist: the archivist's side. ``facts``: the daemon's part of the reports.

    Make it before there are threads: from then on this process ends with its daemon.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        self.facts = self.hear() or {}
        if os.getppid() != self.facts.get("pid"):  # it ended before the kernel knew of the wish
            os._exit(1)
        self._told = ""

    def hear(self) -> dict[str, Any] | None:
        """Wait for the next part of the reports. Return None if the daemon orders the end."""
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def tell(self, failing: Mapping[str, str], counts: object, refused: str = "") -> None:
        """Send the state of this archivist if it is new. This may wait for the daemon."""
        state = json.dumps({"refused": refused, "failing": failing, "counts": counts})
        if state != self._told:
            self._told = state
            sys.stdout.write(state + "\n")
            sys.stdout.flush()
