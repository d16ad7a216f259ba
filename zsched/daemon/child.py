"""
The archivist as a child of the daemon: its start, its streams and its end.

::

    zsched daemon ── fork, later exec ──► zsched archive keep          two processes
          └──────── both use Redis ──────────────┘

In one process, firing and archiving would share Python's interpreter lock. So the daemon's main thread starts an
archivist as a child (``ArchivistChild``), and another one when it dies, at most one a second. Meanwhile the daemon
fires. The first one is a fork: the modules are loaded once, and shared in memory. By then there are no threads and no
connections. A process with threads cannot fork safely, so a later one is a new process, ``zsched archive keep``.

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
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any, Final, NamedTuple

import structlog

from zsched.core.clock import Clock
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter
from zsched.daemon.running import UNUSABLE
from zsched.errors import ArchiveError, ArchiveForeign
from zsched.health.facts import DaemonHealth

log = structlog.get_logger(__name__)

_COMMAND: Final = ("-P", "-m", "zsched.cli")  # for this Python
_OPEN_S: Final = 10.0  # for an archive to be opened, before the daemon continues without it
_LOOK_S: Final = 0.05  # between two looks meanwhile
_APART_MS: Final = 1000.0  # between two starts
_STOP_S: Final = 7.0  # for an archivist to end in order; its archiver alone may take 5
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)


class ArchivistChild:
    """
    The archivist of the daemon with these *facts*: the daemon's side. All methods are for the main thread.

    *run*: runs the first one, and returns its exit code. *env*: changes to the environment's variables for a later one,
    so that it has the same settings. *health*: that of the daemon. Set ``meter``, which gets the archivist's counts;
    ``wake``, which another thread calls when ``watch`` has work; and ``end``, which is called when the daemon must end
    because of its archivist: ``check`` then raises the reason.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        health: DaemonHealth,
        clock: Clock,
        run: Callable[[], int],
        env: Mapping[str, str],
    ) -> None:
        self._facts, self._health, self._clock = facts, health, clock
        self._env = os.environ | env
        self.meter = Meter()
        self.wake: Callable[[], None] = lambda: None
        self.end: Callable[[], None] = lambda: None
        self._was_opened, self._refusal = threading.Event(), ""
        self._next_start_ms = 0.0
        self._told, self._unsent = dict[str, Any](), b""
        self._start(partial(_fork, run))

    def __enter__(self) -> ArchivistChild:
        return self

    def __exit__(self, *_: object) -> None:
        """
        Order it to archive the log up to now, if that is quick, and to end. Kill it if it does not.
        """
        if self._process.exit_code() is not None and not self._refusal:
            self._restart()  # it ends after its first pass
        self._stdin.close()
        self._process.end(_STOP_S)

    @property
    def pid(self) -> int:
        """The id of the present archivist."""
        return self._process.pid

    def check(self) -> None:
        """Raise ArchiveForeign or ArchiveError if the first archivist refused its archive."""
        if self._refusal:
            raise (ArchiveForeign if self._process.exit_code(None) == UNUSABLE else ArchiveError)(self._refusal)

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
        elif (code := self._process.exit_code()) is not None and self._clock.monotonic_ms() >= self._next_start_ms:
            log.error("archivist_died", exit_code=code)
            self._restart()
        self._tell()

    def reload(self) -> None:
        """Let it read the log settings again."""
        self._process.send(signal.SIGHUP)

    def _restart(self) -> None:
        self._stdin.close()
        with suppress(OSError):  # no memory, for example: tried again a second later
            self._start(partial(_spawn, self._env))

    def _start(self, start: Callable[[_Pipes], int]) -> None:
        """Start an archivist by *start*, which returns its id."""
        self._next_start_ms = self._clock.monotonic_ms() + _APART_MS
        pipes = _Pipes(*os.pipe(), *os.pipe())
        try:
            self._process = ChildProcess(start(pipes))
        except BaseException:
            os.close(pipes.stdin)
            os.close(pipes.stdout)
            raise
        finally:
            os.close(pipes.their_stdin)
            os.close(pipes.their_stdout)
        os.set_blocking(pipes.stdin, False)
        self._stdin, heard = os.fdopen(pipes.stdin, "wb", 0), os.fdopen(pipes.stdout, "rb")
        self._told, self._unsent = {}, b""
        self._tell()
        loop: Loop = Loop("archivist", lambda: self._hear(heard, loop), clock=self._clock)
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


class ChildProcess:
    """The child of this process with the id ``pid``, until its end was noted."""

    def __init__(self, pid: int) -> None:
        self.pid, self._held = pid, os.pidfd_open(pid)
        self._code: int | None = None

    def exit_code(self, within_s: float | None = 0) -> int | None:
        """Return its exit code if it ends *within_s* (None: whenever that is), else None."""
        if self._code is None and select.select([self._held], (), (), within_s)[0]:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._held)
        return self._code

    def send(self, number: signal.Signals) -> None:
        """Send the signal *number*, unless it has ended."""
        if self.exit_code() is None:
            os.kill(self.pid, number)

    def end(self, within_s: float) -> None:
        """Wait *within_s* for its end, and kill it if it has not ended."""
        if self.exit_code(within_s) is None:
            os.kill(self.pid, signal.SIGKILL)
            self.exit_code(None)


class _Pipes(NamedTuple):
    """The descriptors of two pipes: the archivist reads ``their_stdin``, and writes ``their_stdout``."""

    their_stdin: int
    stdin: int
    stdout: int
    their_stdout: int


def _fork(run: Callable[[], int], pipes: _Pipes) -> int:
    """Fork this process, which has no threads yet, and *run* an archivist there. Return its id."""
    if pid := os.fork():
        return pid
    try:
        os.dup2(pipes.their_stdin, 0)
        os.dup2(pipes.their_stdout, 1)
        for each in pipes:
            os.close(each)
        os._exit(run())
    except BaseException:
        log.exception("archivist_crashed")
        os._exit(1)


def _spawn(env: Mapping[str, str], pipes: _Pipes) -> int:
    """Start ``zsched archive keep`` with the environment *env*. Return its id."""
    streams = [(os.POSIX_SPAWN_DUP2, pipes.their_stdin, 0), (os.POSIX_SPAWN_DUP2, pipes.their_stdout, 1)]
    return spawn(("archive", "keep", "--child"), env, streams)


def spawn(arguments: Sequence[str], env: Mapping[str, str], streams: Sequence[tuple[Any, ...]], **options: Any) -> int:
    """Start zsched with *arguments*, the environment *env*, and this process's modules. Return its id."""
    command = [sys.executable, *_COMMAND, *arguments]
    env = {**env, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    return os.posix_spawn(sys.executable, command, env, file_actions=streams, **options)


def end_with(parent: int | None) -> None:
    """
    Let the kernel kill this process when its *parent* ends, and end now if it has ended already. Call this before there
    are threads.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Parent:
    """
    The daemon of this archivist: the archivist's side. ``facts``: the daemon's part of the reports.

    Make it before there are threads: from then on this process ends with its daemon.
    """

    def __init__(self) -> None:
        self._stdin, self._stdout = os.fdopen(0, "rb", closefd=False), os.fdopen(1, "w", closefd=False)
        self.facts = self.hear() or {}
        end_with(self.facts.get("pid"))
        self._told = ""

    def hear(self) -> dict[str, Any] | None:
        """Wait for the next part of the reports. Return None if the daemon orders the end."""
        line = self._stdin.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def tell(self, failing: Mapping[str, str], counts: object, refused: str = "") -> None:
        """Send the state of this archivist if it is new. This may wait for the daemon."""
        state = json.dumps({"refused": refused, "failing": failing, "counts": counts})
        if state != self._told:
            self._told = state
            self._stdout.write(state + "\n")
            self._stdout.flush()
