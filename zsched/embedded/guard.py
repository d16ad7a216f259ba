"""
Child processes that cannot outlive their owner.

A :class:`Guard` is a small process beside its owner, at the reading end of a pipe. It learns the pid of every child
before that child runs its command. The pipe closes when the owner closes the guard, returns, raises, or is killed with
-9. Then the guard kills the remaining children and removes the announced folders. The owner need not do anything at its
end.

The guard knows a child before it runs: the owner starts a launcher (this file). The launcher inherits the pipe's
writing end, writes its own pid into it, and becomes the command by exec. The pipe cannot close before that pid is in
it, so no child ever runs unknown. The owner sees an ordinary ``Popen`` with the command's own pid, pipes and exit
status.

Each child leads its own session. So Ctrl-C in a terminal reaches only the owner, which decides on the order of the
stops, and the guard finds grandchildren (a worker's work-horse) by their session.

Not guaranteed: children survive if the guard is killed together with its owner; so do processes that a child moved into
another session. If an owner forked without exec, the copy keeps the pipe open.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

_ROUNDS = 20  # searches for survivors; each kills all that it finds
_DEATH_S = 1.0  # how long a killed process may take to end before the next one's turn
_STOP_S = 10.0  # how long close() waits for the guard process, which has nothing left to do by then


class Guard:
    """
    Owner's side: starts children. They and the named folders are removed when the owner ends.

    Use it as a context manager or call :meth:`close`; one thread at a time.
    """

    def __init__(self) -> None:
        reading, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*_SCRIPT, "watch"], stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)
        self._children: list[subprocess.Popen[bytes]] = []
        self._folders: list[Path] = []

    @property
    def pid(self) -> int:
        """Return the pid of the guard process."""
        return self._process.pid

    def remove_at_end(self, folder: Path) -> None:
        """Remove *folder* with its contents when the owner is gone or the guard is closed."""
        self._folders.append(folder)
        os.write(self._pipe, f"folder {folder}\n".encode())

    def spawn(
        self,
        command: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """
        Start *command* as a guarded child, in its own session; it is running when this returns.

        The arguments are as for ``Popen``; stdin is empty unless given.

        Raises:
            OSError: the command cannot be executed, or the guard is gone. Nothing was started.
        """
        started, starting = os.pipe()  # closed by exec; a text in it is the reason why exec failed
        with open(started, "rb") as report:
            try:
                child = subprocess.Popen(
                    [*_SCRIPT, "launch", str(self._pipe), str(starting), *command],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    env=env,
                    cwd=cwd,
                    pass_fds=(self._pipe, starting),
                    start_new_session=True,
                )
            finally:
                os.close(starting)
            # It also keeps the owner's signals from a launcher that is not the command yet: if it were stopped then,
            # it would hold the pipe open.
            problem = report.read().decode(errors="replace")
        self._children = [known for known in self._children if known.returncode is None] + [child]
        if problem:
            child.wait()
            raise OSError(f"cannot start {command[0]}: {problem}")
        return child

    def close(self) -> None:
        """Kill the children that still run, remove the folders, end the guard. Idempotent."""
        if self._pipe < 0:
            return
        _kill_sessions(child.pid for child in self._children if child.poll() is None)
        for child in self._children:
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unsent input of a dead child
                        stream.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(self._pipe)
        self._pipe = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


# The interpreter without site-packages and user settings: this file needs the standard library only.
_SCRIPT = (sys.executable, "-I", "-S", str(Path(__file__).resolve()))


def _launch(pipe: int, report: int, command: Sequence[str]) -> None:
    """Announce this process to the guard, then become *command*. Returns only after a failure that was reported."""
    for descriptor in (pipe, report):
        os.set_inheritable(descriptor, False)
    try:
        os.write(pipe, f"child {os.getpid()}\n".encode())
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        os.execvp(command[0], list(command))
    except BrokenPipeError:
        os.write(report, b"its guard is gone")
    except OSError as error:
        os.write(report, str(error.strerror).encode())


def _watch(pipe: int) -> None:
    """
    Guard's side: read announcements until the pipe closes, then kill and remove.

    Each child is held by a pidfd, so a pid that the system reused for another process is never killed.
    """
    for unwanted in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(unwanted, signal.SIG_IGN)
    os.chdir("/")
    alive: dict[int, int] = {}  # pidfd -> pid
    folders: list[str] = []
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    rest = b""
    while True:
        for ready, _ in poll.poll():
            if ready != pipe:  # a pidfd: this child has ended
                poll.unregister(ready)
                os.close(ready)
                del alive[ready]
                continue
            read = os.read(pipe, 65536)
            if not read:
                _kill_sessions(alive.values())
                for folder in folders:
                    shutil.rmtree(folder, ignore_errors=True)
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                word, _, value = os.fsdecode(line).partition(" ")
                if word == "folder":
                    folders.append(value)
                else:
                    with contextlib.suppress(ProcessLookupError):  # it ended already
                        held = os.pidfd_open(int(value))
                        alive[held] = int(value)
                        poll.register(held, select.POLLIN)


def _kill_sessions(leaders: Iterable[int]) -> None:
    """
    Kill every process of the sessions that *leaders* lead, and wait until they have ended.

    Stopped processes die too. A process forked during the search is found in the next round.
    """
    wanted = set(leaders)
    for _ in range(_ROUNDS):
        members = [pid for pid in _processes() if _session(pid) in wanted]
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                held = os.pidfd_open(pid)
                try:
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                    select.select([held], [], [], _DEATH_S)
                finally:
                    os.close(held)


def _processes() -> list[int]:
    """Return the pids of this machine, from /proc."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _session(pid: int) -> int | None:
    """Return the session of *pid*; None if it has ended or is a zombie, which cannot be killed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, _, _, session = stat.rpartition(b")")[2].split()[:4]
    return None if state in b"ZX" else int(session)


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        _launch(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
        sys.exit(1)
    _watch(0)
