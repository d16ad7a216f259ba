"""No process remains: children end with their owner, whatever its end; so do those of ``zsched up``."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.cli import program
from zsched.demo.play import TASKS
from zsched.embedded import find_server
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
    os.kill(guard.pid, signal.SIGTERM)  # it survives signals from its first moment
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
ENDS = ("SIGINT", "SIGTERM", "SIGKILL")


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
        command = [sys.executable, "-c", OWNER, str(folder)]
        streams = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self.process = subprocess.Popen(command, **streams, stderr=subprocess.DEVNULL, start_new_session=True)
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


# -- zsched up ----------------------------------------------------------------------------------------


# `zsched up`, which gets SIGTERM at the moment when `Popen.poll` has its lock, as soon as it got SIGUSR1.
INTERRUPTED = """
import os, signal, subprocess, threading
from zsched.cli import program

class Lock:
    is_armed = False

    def __init__(self):
        self.lock = threading.Lock()
        self.release = self.lock.release

    def acquire(self, *arguments):
        is_held = self.lock.acquire(*arguments)
        if Lock.is_armed:
            Lock.is_armed = False
            os.kill(os.getpid(), signal.SIGTERM)
        return is_held

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()

subprocess.threading = type("Threads", (), {"Lock": Lock})
signal.signal(signal.SIGUSR1, lambda *_: setattr(Lock, "is_armed", True))
program(["up", "--json"])
"""


class Up:
    """One ``zsched up`` in a separate session, and its children."""

    def __init__(self, *arguments: str, program: Sequence[str] = ("-m", "zsched.cli", "up")) -> None:
        command = [sys.executable, *program, *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, text=True
        )
        self._held: dict[int, Held] = {}

    def next_line(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], ENDS_S)[0], "it says nothing"
        return self.process.stdout.readline()

    def line_with(self, text: str) -> str:
        """Return the next line with *text*."""
        while text not in (line := self.next_line()):
            assert line, f"it ended without {text!r}"
        return line

    def hold_children(self) -> int:
        """Hold every descendant; return their number."""
        self._held = {pid: Held(pid) for pid in descendants(self.process.pid)}
        return len(self._held)

    def pid_of(self, word: str) -> int:
        """
        Return the descendant with *word* as an argument of its command; a daemon has several, of which the first
        counts.
        """
        return self.pids_of(word)[0]

    def pids_of(self, word: str) -> list[int]:
        """Return all descendants with *word* as an argument of their commands."""
        return [pid for pid in self._held if word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]

    def has_left_nobody(self) -> bool:
        return all(held.has_ended(ENDS_S) for held in self._held.values())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        for held in self._held.values():
            held.close()


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in descendants(child)]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate folder for temporary files; short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="z", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_the_demo_executes_every_run_and_cleans_up(temporary: Path) -> None:
    with closing(Up("--demo", "--for", "6", "--json")) as up:
        told, _ = up.process.communicate(timeout=ENDS_S)
    summary = json.loads(told)

    assert 0 == up.process.returncode
    assert summary["fired"] == summary["executed"] >= 1000
    assert 0 == summary["failed"]
    assert 0 <= summary["late_s"]["p50"] <= summary["late_s"]["p99"] <= summary["late_s"]["max"]
    assert [] == list(temporary.iterdir())


def test_the_demo_names_runs_that_no_worker_takes_and_does_not_wait_for_them(temporary: Path) -> None:
    with closing(Up("--demo")) as up:
        url = up.line_with("export ZSCHED_REDIS_URL=").split("'")[1]
        Client.from_url(url, serializer="json").schedule(f"{TASKS}.heartbeat", id="orphan", after=1, queue="emial")
        up.line_with("orphan: fired for ")
        up.process.send_signal(signal.SIGINT)
        told = "".join(iter(up.next_line, ""))

    assert "no worker listens to queue emial: 1 run (orphan-" in told
    assert "no longer waiting for" not in told


@pytest.mark.parametrize("end", ENDS)
def test_up_leaves_no_process_or_file_however_it_ends(temporary: Path, end: str) -> None:
    with closing(Up("--json", "--queue", "email")) as up:
        place = json.loads(up.next_line())
        started = up.hold_children()
        os.kill(up.process.pid, signal.Signals[end])
        code = up.process.wait(ENDS_S)

        assert ("default", ["email"]) == (place["namespace"], place["queues"])
        assert started >= 4  # the guard, Redis, the daemon, the worker
        assert code == (-signal.SIGKILL if end == "SIGKILL" else 0)
        assert up.has_left_nobody()
        assert [] == list(temporary.iterdir())


def test_a_signal_while_up_looks_at_a_child_ends_it_too(temporary: Path) -> None:
    with closing(Up(program=("-c", INTERRUPTED))) as up:
        up.next_line()
        up.hold_children()
        up.process.send_signal(signal.SIGUSR1)

        assert 0 == up.process.wait(ENDS_S)
        assert up.has_left_nobody()
        assert [] == list(temporary.iterdir())


def test_up_ends_by_itself_after_its_time(temporary: Path) -> None:
    with closing(Up("--for", "1")) as up:
        told, _ = up.process.communicate(timeout=ENDS_S)

    assert 0 == up.process.returncode
    assert "export ZSCHED_REDIS_URL='unix://" in told
    assert f"{find_server()} is a test server here" in told
    assert [] == list(temporary.iterdir())


def test_up_leaves_the_users_archives_alone(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "service"))
    monkeypatch.setenv("ZSCHED_ARCHIVE_PATH", str(tmp_path / "mine.db"))
    with closing(Up("--json")) as up:
        up.next_line()
        [archive] = eventually(lambda: [*temporary.glob("zsched-*/archive.db")])
        up.process.terminate()

        assert 0 == up.process.wait(ENDS_S)
        assert not archive.exists()
        assert [] == list(tmp_path.iterdir())


def test_up_ends_when_one_of_its_processes_ends(temporary: Path) -> None:
    with closing(Up("--json")) as up:
        up.next_line()
        up.hold_children()
        os.kill(up.pid_of("daemon"), signal.SIGKILL)

        assert 1 == up.process.wait(ENDS_S)
        assert up.has_left_nobody()
        assert [] == list(temporary.iterdir())


def test_the_demo_says_that_a_second_ctrl_c_does_not_wait_for_the_workers(temporary: Path) -> None:
    with closing(Up("--demo")) as up:
        url = up.line_with("export ZSCHED_REDIS_URL=").split("'")[1]
        up.hold_children()
        workers = up.pids_of("worker")
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        Client.from_url(url, serializer="json").schedule(f"{TASKS}.heartbeat", id="mine", after=0, queue="push")
        assert "fired" in up.line_with("mine")
        up.process.send_signal(signal.SIGINT)
        up.line_with("waiting for the workers (Ctrl-C ends at once)")
        up.process.send_signal(signal.SIGINT)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)

        assert 130 == up.process.wait(ENDS_S)
        assert up.has_left_nobody()
        assert [] == list(temporary.iterdir())


def test_the_demo_refuses_the_queue_option() -> None:
    refused = CliRunner().invoke(program, ["up", "--demo", "--queue", "email"])

    assert 2 == refused.exit_code
    assert "--demo uses its own queues" in refused.stderr
