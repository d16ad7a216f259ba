"""A warm start is, for the test and for the command, as a true one."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.suite.starts import WarmPopen

# What a command can see of its start, as JSON; with its first words it is one that the fork server may start.
PROBE = """  # zsched.cli import
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "folder": os.getcwd(), "env": dict(os.environ),
    "descriptors": sorted(os.listdir("/proc/self/fd")), "leads": os.getsid(0) == os.getpid(), "name": __name__,
    "handlers": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)],
    "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])], "stdin": sys.stdin.read(),
    "streams": [[s.encoding, s.errors, s.line_buffering, s.isatty()] for s in (sys.stdin, sys.stdout, sys.stderr)],
    "parent": os.getppid(), "zone": __import__("time").tzname, "globals": sorted(globals()),
}))
sys.exit(7)
"""


def start(is_warm: bool, *command: str, **options: Any) -> subprocess.Popen[bytes]:
    before, WarmPopen.is_warm = WarmPopen.is_warm, is_warm
    try:
        return subprocess.Popen([sys.executable, *command], **options)
    finally:
        WarmPopen.is_warm = before


@pytest.mark.parametrize("command", [("-c", PROBE, "a", "-b", ""), ("-m", "zsched.cli", "--version")])
def test_a_command_sees_the_same_after_a_warm_start(command: tuple[str, ...], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    options = {
        "cwd": tmp_path, "start_new_session": True, "pass_fds": [writing], "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
        "env": os.environ | {"PYTHONPATH": "/a:/b", "TZ": "Asia/Tokyo", "ZSCHED_REDIS_URL": "ü"},
    }  # fmt: skip
    seen = []
    for is_warm in (True, False):
        process = start(is_warm, *command, **options)
        out, _ = process.communicate(b"hello")
        seen.append((process.returncode, json.loads(out) if out.startswith(b"{") else out))
    os.close(reading)
    os.close(writing)

    assert seen[1] == seen[0]


@pytest.mark.parametrize(
    ("command", "env", "is_warm"),
    [
        (("-m", "zsched.cli", "ls"), {}, True),
        (("-m", "rq.cli", "worker"), {}, True),
        (("-c", "from zsched.cli import main"), {"ZSCHED_REDIS_URL": "redis://x"}, True),
        (("-m", "zsched.cli", "ls"), {"PYTHONWARNINGS": "error"}, False),
        (("-m", "zsched.cli", "ls"), {"LD_PRELOAD": "/lib/clock.so"}, False),
        (("-m", "zsched.cli", "ls"), {"RQ_KEY_PREFIX": "other"}, False),
        (("-m", "pip", "--version"), {}, False),
        (("-c", "import zsched"), {}, False),
    ],
)
def test_only_a_command_for_which_imports_make_no_difference_starts_warm(
    command: tuple[str, ...], env: dict[str, str], is_warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WarmPopen, "starter", Mock(wraps=WarmPopen.starter))
    reading, writing = os.pipe()
    os.close(reading)
    process = start(True, *command, env=os.environ | env, stdout=writing, stderr=writing, stdin=subprocess.DEVNULL)
    os.close(writing)
    process.kill()
    process.wait()

    assert is_warm is WarmPopen.starter.start.called  # type: ignore[attr-defined]  # a mock's


def test_another_zsched_on_the_path_gets_a_true_start(tmp_path: Path) -> None:
    (tmp_path / "zsched").mkdir()
    (tmp_path / "zsched" / "__init__.py").write_text("")
    (tmp_path / "zsched" / "cli.py").write_text("print('the other one')")

    command = [sys.executable, "-m", "zsched.cli"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert "the other one\n" == done.stdout


def test_a_warm_start_is_waited_for_signalled_and_reports_its_exit_status() -> None:
    process = start(True, "-c", "# zsched.cli import\nimport signal; print(1, flush=True); signal.pause()", stdout=-1)
    assert process.stdout is not None
    with process.stdout as stdout:
        assert b"1\n" == stdout.readline()

    assert process.poll() is None
    process.send_signal(signal.SIGTERM)

    assert -signal.SIGTERM == process.wait()


@pytest.mark.true_start
def test_the_mark_true_start_switches_warm_starts_off() -> None:
    assert not WarmPopen.is_warm


def test_commands_that_threads_start_at_once_have_their_own_pids() -> None:
    def is_right(_: int) -> bool:
        process = start(True, "-c", "import os  # zsched.cli import\nprint(os.getpid())", stdout=subprocess.PIPE)
        return int(process.communicate()[0]) == process.pid

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(is_right, range(80)))
