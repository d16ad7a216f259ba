"""
Child processes that cannot outlive their owner.

A :class:`Guard` is a small process beside its owner, at the reading end of a pipe. Only the owner has the writing end.
So the pipe closes when the owner closes the guard, returns, raises, or is killed with -9. Then the guard kills the
remaining children and removes the announced folders. The owner need not do anything at its end.

The guard recognizes the children by their leash: each of them inherits the pipe's reading end, and passes it on to the
processes that it forks. No child can be missed: between fork and exec it still has the owner's writing end, so the
guard sees the pipe close only when that child has the leash. No child reads from its leash.

Each child leads its own session. So Ctrl-C in a terminal reaches only the owner, which decides on the order of the
stops, and the guard also kills processes without the leash in the session of one that has it.

Not guaranteed: children survive if the guard is killed together with its owner; so do processes that a child started
without the leash in another session. If an owner forked without exec, the copy keeps the pipe open.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

_UNWANTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # of a terminal, or of who ends its owner
_ROUNDS = 20  # searches for survivors; each kills all that it finds
_DEATH_S = 1.0  # how long a killed process may take to end before the next one's turn
_STOP_S = 10.0  # how long close() waits for the guard process, which has nothing left to do by then


class Guard(contextlib.AbstractContextManager["Guard"]):
    """
    Owner's side: starts children. They and the named folders are removed when the owner ends.

    Use it as a context manager or call :meth:`close`; one thread at a time.
    """

    def __init__(self) -> None:
        self._leash, self._pipe = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _UNWANTED)  # the guard inherits this, and is deaf at once
        try:
            self._process = subprocess.Popen(
                _WATCH, stdin=self._leash, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except BaseException:
            os.close(self._pipe)
            os.close(self._leash)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.pid = self._process.pid  # of the guard process
        self._children: list[subprocess.Popen[bytes]] = []
        self._folders: list[Path] = []

    def remove_at_end(self, folder: Path) -> None:
        """Remove *folder* with its contents when the owner is gone or the guard is closed."""
        self._folders.append(folder)
        os.write(self._pipe, os.fsencode(folder) + b"\0")

    def spawn(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """
        Start *command* as a guarded child, in its own session; it is running when this returns.

        The *options* are those of ``Popen``; stdin is empty unless given.

        Raises:
            OSError: the command cannot be executed, or the guard is gone. Nothing was started.
        """
        if self._process.poll() is not None:
            raise OSError(f"cannot start {command[0]}: its guard is gone")
        options = {"stdin": subprocess.DEVNULL, **options}
        try:
            child = subprocess.Popen(command, **options, pass_fds=(self._leash,), start_new_session=True)
        except OSError as error:
            raise OSError(f"cannot start {command[0]}: {error.strerror}") from error
        self._children = [known for known in self._children if known.returncode is None] + [child]
        return child

    def close(self) -> None:
        """Kill the children that still run, remove the folders, end the guard. Idempotent."""
        if self._pipe < 0:
            return
        _kill({child.pid for child in self._children if child.poll() is None})
        for child in self._children:
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unsent input of a dead child
                        stream.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(self._leash)  # before the pipe: the guard ends what has the leash when the pipe closes
        os.close(self._pipe)
        self._pipe = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)

    def __exit__(self, *_: object) -> None:
        self.close()


# The interpreter without site-packages and user settings: this file needs the standard library only.
_WATCH = (sys.executable, "-I", "-S", str(Path(__file__).resolve()))


def _watch() -> None:
    """Guard's side: read the names of folders, each with a final NUL, until the pipe closes; then kill and remove."""
    os.chdir("/")
    owners = os.getsid(os.getppid())
    with open(0, "rb", closefd=False) as pipe:
        *folders, _ = pipe.read().split(b"\0")
    _kill(set(), os.readlink("/proc/self/fd/0"), but={os.getsid(0), owners})
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _kill(sessions: set[int], leash: str = "", but: Collection[int] = ()) -> None:
    """
    Kill every process of these *sessions*, and of those with a process that has the *leash*, and wait until they have
    ended; none of the sessions *but*.

    Stopped processes die too. A process forked during the search is found in the next round.
    """
    for _ in range(_ROUNDS):
        found = {int(name): _session(name) for name in os.listdir("/proc") if name.isdigit()}
        ours = {pid: session for pid, session in found.items() if session is not None and session not in but}
        sessions |= {session for pid, session in ours.items() if leash and _has(pid, leash)}
        if not (members := [pid for pid, session in ours.items() if session in sessions]):
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError), open(os.pidfd_open(pid), "rb", buffering=0) as held:
                signal.pidfd_send_signal(held.fileno(), signal.SIGKILL)
                select.select([held], [], [], _DEATH_S)


def _has(pid: int, leash: str) -> bool:
    """Return True if the process has the pipe *leash*; False also if it has ended, or is of another user."""
    with contextlib.suppress(OSError):
        return any(_link(entry.path) == leash for entry in os.scandir(f"/proc/{pid}/fd"))
    return False


def _link(path: str) -> str | None:
    """Return the target of a link; None if it is gone, as that of a descriptor that was closed meanwhile."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return None


def _session(pid: str) -> int | None:
    """Return the session of *pid*; None if it has ended or is a zombie, which cannot be killed."""
    with contextlib.suppress(OSError):
        state, _, _, session = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:4]
        return None if state in b"ZX" else int(session)
    return None


if __name__ == "__main__":
    _watch()
