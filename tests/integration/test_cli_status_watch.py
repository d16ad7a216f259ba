"""``zsched status --watch``: live on a real terminal until Ctrl-C, with any size and any state of Redis."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterable
from io import StringIO

import pytest
import redis
from click.testing import CliRunner
from rich.console import Console

from zsched.cli import program
from zsched.cli.program import DONE, USAGE
from zsched.cli.status_screen import ScreenLine, Style, watch
from zsched.embedded.guard import Guard
from zsched.errors import ConfigError, RedisUnavailable
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

KEYS = Keys("default")
WITHIN_S = 20.0  # deadline of every wait
GIVEN_BACK = "\x1b[?1049l"  # the terminal's usual screen
_COMMAND = [sys.executable, "-m", "zsched.cli", "status", "--watch", "--every", "0.2"]
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal of *columns* by *rows*, and all of its output."""

    def __init__(self, columns: int, rows: int) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text, self._changed = "", threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Return as soon as *text* is written behind the text awaited before."""
        with self._changed:
            found = self._changed.wait_for(lambda: text in self.text, WITHIN_S)
            assert found, f"no {text!r} in {self.text[-2000:]!r}"
            self.text = self.text.partition(text)[2]

    def close(self) -> str:
        """Return the output since the last wait; the child has ended."""
        os.close(self.slave)
        self._reader.join(WITHIN_S)
        return self.text

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._master, 65_536)
            except OSError:  # nobody writes any more
                read = b""
            if not read:
                os.close(self._master)
                return
            with self._changed:
                self.text += read.decode(errors="replace")
                self._changed.notify_all()


@pytest.mark.parametrize(("columns", "rows"), [(120, 50), (30, 8)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_shows_changes_and_restores_the_terminal(
    redis_url: str, redis_client: redis.Redis, guard: Guard, columns: int, rows: int, number: signal.Signals
) -> None:
    terminal = Terminal(columns, rows)
    env = {**os.environ, "ZSCHED_REDIS_URL": redis_url, "TERM": "xterm-256color"}
    child = guard.spawn(_COMMAND, stdin=terminal.slave, stdout=terminal.slave, stderr=subprocess.PIPE, env=env)

    terminal.wait_for("UNHEALTHY")
    redis_client.set(KEYS.lease(), "somebody:3:2000:x", px=600_000)
    Archivers(Link.adopt(redis_client), KEYS).report("archive", None, ArchiveState.FOLLOWING, {})
    terminal.wait_for("healthy: one daemon")
    redis_client.delete(KEYS.lease())
    terminal.wait_for("UNHEALTHY")
    child.send_signal(number)
    _, told = child.communicate(timeout=WITHIN_S)

    assert (DONE, b"") == (child.returncode, told)
    assert GIVEN_BACK in terminal.close()


def shown(
    *looks: Callable[[], Iterable[ScreenLine]] | list[ScreenLine], width: int = 80, height: int = 20
) -> list[str]:
    """Return the pictures of a watch that gets *looks* in turn, and then Ctrl-C."""
    queue = [*looks]
    screen = StringIO()

    def look() -> Iterable[ScreenLine]:
        if not queue:
            raise KeyboardInterrupt
        given = queue.pop(0)
        return given() if callable(given) else given

    console = Console(file=screen, force_terminal=True, width=width, height=height, highlight=False)
    watch(look, 0.0, console)
    return [_STYLE.sub("", picture) for picture in screen.getvalue().split("\x1b[H")[1:]]


def no_redis() -> Iterable[ScreenLine]:
    raise RedisUnavailable("cannot reach Redis at box:6379: refused")


LONG = "a" * 50 + " " + "b" * 50


def test_watch_cuts_table_lines_and_wraps_problems() -> None:
    last = shown(
        [
            ScreenLine(LONG, Style.BAD),
            ScreenLine(LONG, Style.REMEDY),
            ScreenLine(LONG),
            ScreenLine(LONG, Style.HEADING),
        ],
        width=40,
    )[-1]

    lines = last.splitlines()
    assert {40} >= {len(line) for line in lines}
    assert 2 * LONG.count("b") == "".join(lines).count("b")
    assert 2 == "".join(lines).count("…")


def test_watch_keeps_the_verdict_in_a_low_terminal() -> None:
    last = shown(
        [ScreenLine("healthy: all is well", Style.GOOD), *(ScreenLine(f"row {n}") for n in range(100))], height=5
    )[-1]

    lines = last.splitlines()
    assert lines[0].startswith("healthy: all is well")
    assert len(lines) <= 5


def test_watch_reports_an_outage_of_redis_and_continues() -> None:
    pictures = shown(
        [ScreenLine("healthy: all is well", Style.GOOD)], no_redis, [ScreenLine("healthy: again", Style.GOOD)]
    )

    gone = next(picture for picture in pictures if "UNHEALTHY" in picture)
    assert "UNHEALTHY: cannot reach Redis at box:6379: refused" in gone
    assert "healthy: all is well" in gone
    assert "healthy: again" in pictures[-1]
    assert "UNHEALTHY" not in pictures[-1]


def test_watch_does_not_interpret_text_as_markup() -> None:
    assert "[bold]job[/bold] [red" in shown([ScreenLine("[bold]job[/bold] [red")])[-1]


def test_watch_without_rich_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)

    with pytest.raises(ConfigError, match=r"--watch needs rich.*pip install 'zsched\[ops\]'"):
        watch(list, 1.0)


@pytest.mark.parametrize(("option", "says"), [([], "stdout is no terminal"), (["--json"], "--json is not")])
def test_watch_is_refused_without_a_terminal_or_with_json(option: list[str], says: str) -> None:
    result = CliRunner().invoke(program, ["status", "--watch", *option], env={"ZSCHED_REDIS_URL": "redis://nowhere"})

    assert USAGE == result.exit_code
    assert says in result.stderr
