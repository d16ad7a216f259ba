"""``zsched status --watch``: live on a real terminal until Ctrl-C, with any size and any state of Redis."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from io import StringIO

import pytest
import redis
from click.testing import CliRunner
from rich.console import Console

from tests.integration.terminals import WITHIN_S, PseudoTerminal
from zsched.cli import program
from zsched.cli.output import Shown, Style, StyledLine, Table
from zsched.cli.program import DONE, USAGE
from zsched.cli.status_screen import watch
from zsched.embedded.guard import Guard
from zsched.errors import ConfigError, RedisUnavailable
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

KEYS = Keys("default")
GIVEN_BACK = "\x1b[?1049l"  # the terminal's usual screen
_COMMAND = [sys.executable, "-m", "zsched.cli", "status", "--watch", "--every", "0.2"]
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.parametrize(("columns", "rows"), [(120, 50), (30, 8)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_shows_changes_and_restores_the_terminal(
    redis_url: str, redis_client: redis.Redis, guard: Guard, columns: int, rows: int, number: signal.Signals
) -> None:
    terminal = PseudoTerminal(columns, rows)
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


def shown(*looks: Callable[[], Iterable[Shown]] | list[Shown], width: int = 80, height: int = 20) -> list[str]:
    """Return the pictures of a watch that gets *looks* in turn, and then Ctrl-C."""
    queue = [*looks]
    screen = StringIO()

    def look() -> Iterable[Shown]:
        if not queue:
            raise KeyboardInterrupt
        given = queue.pop(0)
        return given() if callable(given) else given

    console = Console(file=screen, force_terminal=True, width=width, height=height, highlight=False)
    watch(look, 0.0, "UTC", console)
    return [_STYLE.sub("", picture) for picture in screen.getvalue().split("\x1b[H")[1:]]


def no_redis() -> Iterable[Shown]:
    raise RedisUnavailable("cannot reach Redis at box:6379: refused")


LONG = "a" * 50 + " " + "b" * 50


def test_watch_wraps_lines_and_tables_at_the_width_of_the_terminal() -> None:
    last = shown([StyledLine(LONG, Style.BAD), LONG, Table(("A", "B"), [("a" * 30, "b" * 30)])], width=60)[-1]

    lines = last.splitlines()
    assert {60} >= {len(line) for line in lines}
    assert 130 == "".join(lines).count("b")


def test_watch_keeps_the_verdict_in_a_low_terminal() -> None:
    last = shown(
        [StyledLine("healthy: all is well", Style.GOOD), *(StyledLine(f"row {n}") for n in range(100))], height=5
    )[-1]

    lines = last.splitlines()
    assert lines[0].startswith("healthy: all is well")
    assert len(lines) <= 5


def test_watch_reports_an_outage_of_redis_and_continues() -> None:
    pictures = shown(
        [StyledLine("healthy: all is well", Style.GOOD)], no_redis, [StyledLine("healthy: again", Style.GOOD)]
    )

    gone = next(picture for picture in pictures if "UNHEALTHY" in picture)
    assert "UNHEALTHY: cannot reach Redis at box:6379: refused" in gone
    assert "healthy: all is well" in gone
    assert "healthy: again" in pictures[-1]
    assert "UNHEALTHY" not in pictures[-1]


def test_watch_does_not_interpret_text_as_markup() -> None:
    assert "[bold]job[/bold] [red" in shown([StyledLine("[bold]job[/bold] [red")])[-1]


def test_watch_without_rich_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)

    with pytest.raises(ConfigError, match=r"--watch needs rich.*pip install 'zsched\[ops\]'"):
        watch(list, 1.0, "UTC")


@pytest.mark.parametrize(("option", "says"), [([], "is not a terminal"), (["--json"], "contradict")])
def test_watch_is_refused_without_a_terminal_or_with_json(option: list[str], says: str) -> None:
    result = CliRunner().invoke(program, ["status", "--watch", *option], env={"ZSCHED_REDIS_URL": "redis://nowhere"})

    assert USAGE == result.exit_code
    assert says in result.stderr
