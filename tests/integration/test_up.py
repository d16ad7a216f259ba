"""``zsched up``: real processes, of which none remains. Waits are for output and for ends of processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.faults.processes import ENDS_S
from zsched import Client
from zsched.cli import program
from zsched.demo.play import TASKS
from zsched.embedded import find_server

pytestmark = pytest.mark.once
ENDS = ("SIGINT", "SIGTERM", "SIGKILL")


class Up:
    """One ``zsched up`` in a separate session, and its children."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zsched.cli", "up", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        self._held: dict[int, int] = {}

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
        """Hold every descendant by a descriptor that tells its end; return their number."""
        for pid in descendants(self.process.pid):
            self._held.setdefault(pid, os.pidfd_open(pid))
        return len(self._held)

    def pid_of(self, word: str) -> int:
        """
        Return the descendant with *word* as an argument of its command; a daemon has several, of which the first
        counts.
        """
        return next(pid for pid in self._held if word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"))

    def has_left_nobody(self) -> bool:
        return all(select.select([held], [], [], ENDS_S)[0] for held in self._held.values())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        for held in self._held.values():
            os.close(held)


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
        up.line_with("fired     orphan")
        up.process.send_signal(signal.SIGINT)
        told = "".join(iter(up.next_line, ""))

    assert "no worker listens to queue emial: 1 run (orphan-" in told
    assert "not waited for any longer" not in told


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
        [archive] = temporary.glob("zsched-*/archive.db")
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


def test_the_demo_refuses_the_queue_option() -> None:
    refused = CliRunner().invoke(program, ["up", "--demo", "--queue", "email"])

    assert 2 == refused.exit_code
    assert "--demo uses its own queues" in refused.stderr
