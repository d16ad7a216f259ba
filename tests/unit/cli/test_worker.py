"""A worker with a name waits for a killed one of its name; options that do not fit are refused with the remedy."""

from collections.abc import Iterator
from typing import Any

import click
import pytest

from tests.builders.command_line import Zsched
from zsched.cli.program import USAGE
from zsched.cli.worker import await_name


class Redis:
    """The worker's key as *looks* show it, one after the other: (exists, last sign of life, ms left)."""

    def __init__(self, *looks: tuple[int, bytes | None, int]) -> None:
        self._looks: Iterator[tuple[int, bytes | None, int]] = iter(looks)
        self.waited_s: list[float] = []

    def execute(self, verb: str, *_: Any) -> Any:
        if verb == "EXISTS":
            self._look = next(self._looks)
            return self._look[0]
        return {"HEXISTS": 0, "HGET": self._look[1], "PTTL": self._look[2]}[verb]

    def pause(self, seconds: float) -> None:
        self.waited_s.append(seconds)


GONE = (0, None, -2)


def wait(*looks: tuple[int, bytes | None, int]) -> list[float]:
    """Wait for the name; return the pauses."""
    server = Redis(*looks)
    await_name(server, server, "rq:worker:w", "w")  # type: ignore[arg-type]  # all that it calls
    return server.waited_s


def test_a_name_is_free_when_redis_has_forgotten_the_silent_worker() -> None:
    assert [1.0, 0.3] == wait((1, b"12:00", 5000), (1, b"12:00", 300), GONE)


def test_a_worker_that_redis_forgets_during_a_look_is_dead() -> None:
    assert [1.0, 0.0] == wait((1, b"12:00", 5000), (1, None, -2), GONE)


@pytest.mark.parametrize("second", [(1, b"12:15", 90_000), (1, b"12:00", -1)], ids=["a sign of life", "a key for ever"])
def test_a_name_of_a_worker_that_works_is_refused(second: tuple[int, bytes, int]) -> None:
    with pytest.raises(click.BadParameter, match="a worker named 'w' is running; give another name"):
        wait((1, b"12:00", 5000), second)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--with-scheduler"], "RQ's scheduler is not needed: a daemon moves RQ's delayed jobs; give --with-daemon"),
        (["--with-daemon", "--burst"], "--burst ends the worker, and a daemon must stay: leave one of them out"),
        (["--daemon-config", "x.toml", "--burst"], "--burst ends the worker, and a daemon must stay"),
    ],
)
def test_options_that_do_not_fit_a_daemon_are_refused_with_the_remedy(options: list[str], told: str) -> None:
    assert told in Zsched("redis://127.0.0.1:1/0", "worker").refusal(*options, code=USAGE)
