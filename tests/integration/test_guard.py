"""Child processes end with their owner, whatever its end. Real processes; the waits are for their pidfds."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import WITHIN_S
from zsched.embedded.guard import Guard

# An owner: starts a child with a grandchild of its own process group, one that is stopped, one whose descriptors
# change all the time, and one that left a copy in a session of its own; tells pids; waits.
OWNER = """
import os, signal, subprocess, sys
from pathlib import Path
from zsched.embedded.guard import Guard

GRANDCHILD = '''
import os, signal
os.setpgrp()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
signal.pause()
'''
LEAVING = '''
import os, signal
left = os.fork()
if left:
    print(left, flush=True)
    os._exit(0)
os.setsid()
signal.pause()
'''
CHILD = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {GRANDCHILD!r}]))"

folder = Path(sys.argv[1])
with Guard() as guard:
    guard.remove_at_end(folder)
    folder.mkdir()
    (folder / "inside").write_text("x")
    child = guard.spawn([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    grandchild = int(child.stdout.readline())
    stopped = guard.spawn(["sleep", "600"])
    stopped.send_signal(signal.SIGSTOP)
    leaving = guard.spawn([sys.executable, "-c", LEAVING], stdout=subprocess.PIPE)
    left = int(leaving.stdout.readline())
    leaving.wait()
    busy = guard.spawn([sys.executable, "-c", "import os; all(os.close(os.dup(0)) is None for _ in iter(int, 1))"])
    print(guard.pid, child.pid, grandchild, stopped.pid, busy.pid, left, flush=True)
    command = sys.stdin.readline().strip()
    if command == "raise":
        raise RuntimeError("on purpose")
    if command == "exit":
        os._exit(3)
"""


class Held:
    """A process of another program, by a descriptor that tells when it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def has_ended(self, within_s: float) -> bool:
        return bool(select.select([self._descriptor], [], [], within_s)[0])

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        os.close(self._descriptor)


class Owner:
    """The program above, and its children."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.guard, *self.children = (Held(int(pid)) for pid in self.process.stdout.readline().split())

    def close(self) -> None:
        for held in (*self.children, self.guard):
            held.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "owned"


@pytest.fixture
def owner(folder: Path) -> Iterator[Owner]:
    owner = Owner(folder)
    assert folder.exists()
    assert len(owner.children) == 5
    yield owner
    owner.close()


@pytest.mark.parametrize("ending", ["kill -9", "ctrl-c", "term", "return", "raise", "exit", "terminal"])
def test_children_grandchildren_and_folders_end_with_their_owner(owner: Owner, folder: Path, ending: str) -> None:
    match ending:
        case "kill -9":
            owner.process.kill()
        case "ctrl-c":
            os.killpg(owner.process.pid, signal.SIGINT)
        case "term":
            owner.process.terminate()
        case "terminal":  # the guard survives its signals
            for terminal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                os.kill(owner.guard.pid, terminal)
            owner.process.kill()
        case word:
            owner.process.communicate(word.encode() + b"\n", timeout=WITHIN_S)

    assert all(child.has_ended(within_s=WITHIN_S) for child in owner.children)
    assert owner.guard.has_ended(within_s=WITHIN_S)
    assert not folder.exists()


def test_an_owner_cleans_up_itself_when_its_guard_was_killed(owner: Owner, folder: Path) -> None:
    owner.guard.kill()
    assert owner.guard.has_ended(within_s=WITHIN_S)

    owner.process.communicate(b"return\n", timeout=WITHIN_S)

    assert all(child.has_ended(within_s=WITHIN_S) for child in owner.children[:4])  # nobody knows the copy
    assert not folder.exists()


def test_a_child_has_the_pid_pipes_and_exit_status_of_its_command() -> None:
    with Guard() as guard:
        child = guard.spawn(["sh", "-c", "echo $$; cat; exit 7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        told, _ = child.communicate(b"hello\n", timeout=WITHIN_S)

    assert (f"{child.pid}\nhello\n".encode(), 7) == (told, child.returncode)


def test_a_child_gets_its_leash_and_neither_the_owners_pipe_nor_pythons_ignored_signals() -> None:
    script = "ls /proc/self/fd | wc -l; grep SigIgn /proc/self/status"
    with Guard() as guard:
        child = guard.spawn(["sh", "-c", script], stdout=subprocess.PIPE)
        told, _ = child.communicate(timeout=WITHIN_S)

    descriptors, ignored = told.split(b"\n")[:2]
    assert int(descriptors) == 5  # 0, 1, 2, the leash, and the folder that ls reads
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert int(ignored.split()[1], 16) & python_ignores == 0


def test_a_command_that_does_not_exist_is_an_error() -> None:
    with Guard() as guard, pytest.raises(OSError, match="cannot start /no/such/program: No such file or directory"):
        guard.spawn(["/no/such/program"])


def test_a_killed_guard_refuses_to_spawn() -> None:
    with Guard() as guard:
        held = Held(guard.pid)
        held.kill()
        assert held.has_ended(within_s=WITHIN_S)

        with pytest.raises(OSError, match="its guard is gone"):
            guard.spawn(["echo", "started"])

        held.close()


def test_closing_a_guard_twice_does_no_harm() -> None:
    guard = Guard()
    guard.spawn(["sleep", "600"])

    guard.close()
    guard.close()
