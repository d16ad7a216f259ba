"""Terminals of another encoding, full disks and closed streams: a command says what it can, and has no traceback."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.builders.command_line import Zsched
from tests.integration.test_cli import COMMANDS, FUNC, command_line
from tests.waiting import WITHIN_S
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, PIPE_CLOSED
from zsched.embedded.guard import Guard

READING = (
    ("status",), ("ls",), ("show", "günther"), ("why", "a"), ("history",), ("log",), ("next", "a"), ("doctor",),
    ("export",), ("add", "a", FUNC, "--every", "1h", "--description", "Größe → 日本 🎂"),
    ("pause", "a", "--note", "日本"), ("resume", "a"), ("set", "a", "--description", "日本"),
    ("cancel", "b", "--if-version", "ü"), ("tasks", "app.日本"), ("apply", "日本.toml"), ("tokens", "list"),
    ("import", "crontab", "日本", "--func", FUNC), ("users", "list"), ("archive", "recover", "--dry-run"),
    ("run", "a", "--json"), ("files", "users.acl"), ("keys",), ("ls", "--match", "日本"),
    ("add", "日本", FUNC, "--every", "1h"),
)  # fmt: skip
FULL = "No space left on device; make room, or write it elsewhere"


@pytest.fixture
def some(zsched: Zsched) -> Zsched:
    zsched("add", "a", FUNC, "--every", "1h", "--description", "Größe → 日本 🎂")
    zsched("add", "b", FUNC, "--after", "1h", "--tag", "日本")
    zsched("pause", "b", "--note", "日本…")
    return zsched


def _run(arguments: tuple[str, ...], stdout: str | int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command whose stdout is the file *stdout*, and return its exit code."""
    with monkeypatch.context() as patch, open(stdout, "w", encoding=encoding) as out:
        patch.setattr(sys, "stdout", out)
        return int(program.main(list(arguments), prog_name="zsched", standalone_mode=False))


@pytest.mark.parametrize("encoding", ["latin-1", "euc-kr"])
@pytest.mark.parametrize("arguments", [*READING, *((name, "--help") for name in COMMANDS)], ids=" ".join)
def test_a_command_writes_to_a_terminal_of_another_encoding(
    some: Zsched,
    redis_url: str,
    arguments: tuple[str, ...],
    encoding: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)
    code = _run(arguments, str(tmp_path / "out"), encoding, monkeypatch)

    assert code in range(5)
    (tmp_path / "out").read_text(encoding)
    assert "help" not in arguments[-1] or (DONE, True) == (code, (tmp_path / "out").stat().st_size > 0)


def test_a_missing_character_is_an_escape_there_so_that_an_exported_file_keeps_its_texts(
    some: Zsched, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)
    out = tmp_path / "out"

    _run(("status",), str(out), "latin-1", monkeypatch)
    assert r"  \u2192 start one" in out.read_text("latin-1")
    _run(("export",), str(out), "latin-1", monkeypatch)
    exported = tomllib.loads(out.read_text("latin-1"))
    assert "Größe → 日本 🎂" == exported["schedules"]["a"]["description"]


@pytest.mark.parametrize("arguments", [("ls",), ("ls", "--json"), ("status",), ("export",), ("--help",)], ids=" ".join)
def test_a_full_disk_is_one_line_and_exit_code_1(
    some: Zsched,
    redis_url: str,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)

    code = _run(arguments, "/dev/full", "utf-8", monkeypatch)

    told = capsys.readouterr().err
    assert FAILED == code
    assert "cannot write the output: No space left on device" in told
    assert 1 == told.count("\n")


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_closed_pipe_ends_each_command_without_a_word(
    some: Zsched,
    redis_url: str,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)
    reading, writing = os.pipe()
    os.close(reading)

    code = _run(arguments, writing, "utf-8", monkeypatch)

    assert code in (PIPE_CLOSED, *range(1, 5))
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.true_start
@pytest.mark.parametrize(
    ("redirected", "code", "told"),
    [
        (">/dev/full", FAILED, f"zsched: cannot write the output: {FULL}\n"),
        (">&-", DONE, ""),
        ("<&- >/dev/null", DONE, ""),
        (">/dev/full 2>/dev/full", FAILED, ""),
        (">&- 2>&-", DONE, ""),
    ],
)
def test_a_process_with_odd_streams_ends_with_its_code(
    redis_url: str, zsched: Zsched, guard: Guard, redirected: str, code: int, told: str
) -> None:
    zsched("add", "beat", FUNC, "--every", "1h")
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url}

    child = guard.spawn(["sh", "-c", f'"$@" {redirected}', "sh", *command_line("ls")], stderr=subprocess.PIPE, env=env)
    _, found = child.communicate(timeout=WITHIN_S)

    assert (code, told) == (child.returncode, found.decode())
