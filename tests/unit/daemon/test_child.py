"""The archivist as a child: its start, its streams and its end. Here another program is in its place."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.waiting import WITHIN_S, eventually
from zsched.core.clock import ManualClock
from zsched.daemon import child as module
from zsched.daemon.child import ArchivistChild
from zsched.daemon.running import facts
from zsched.errors import ArchiveError, ArchiveForeign
from zsched.health.facts import DaemonHealth

SAYS = """
import json, sys
def say(refused="", failing={}, counts=None):
    print(json.dumps({"refused": refused, "failing": failing, "counts": counts}), flush=True)
"""
REPEATS = SAYS + "for line in sys.stdin: say(failing=json.loads(line)['failing'])"  # what the daemon says
FAILING = {"thread waker": "the disk is full"}
Begin = Callable[[str], ArchivistChild]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def health(clock: ManualClock) -> DaemonHealth:
    return DaemonHealth(clock)


@pytest.fixture
def begin(health: DaemonHealth, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Start a child with a program, which ends with the test."""
    with ExitStack() as stack:

        def child(program: str) -> ArchivistChild:
            monkeypatch.setattr(module, "_COMMAND", ("-c", program, "again"))
            first = partial(os.execv, sys.executable, [sys.executable, "-c", program, "first"])
            return stack.enter_context(ArchivistChild(facts("d1", clock), health, clock, first, {}))

        yield child


def test_a_child_hears_what_fails_in_its_daemon_and_tells_what_fails_there(begin: Begin, health: DaemonHealth) -> None:
    child = begin(REPEATS)
    child.wait_until_open()

    health.failing.update(FAILING)
    child.watch()

    eventually(lambda: health.archivist_failing == FAILING)


@pytest.mark.parametrize(("code", "kind"), [(2, ArchiveForeign), (1, ArchiveError)])
def test_a_refused_archive_ends_the_daemon_with_the_reason(begin: Begin, code: int, kind: type[ArchiveError]) -> None:
    ended: list[bool] = []
    child = begin(SAYS + f"say(refused='it is not ours'); sys.exit({code})")
    child.end = lambda: ended.append(True)

    with pytest.raises(kind, match="it is not ours"):
        child.wait_until_open()

    child.watch()
    assert [True] == ended


def test_a_dead_child_is_replaced_once_a_second(
    begin: Begin, health: DaemonHealth, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_APART_MS", 1.0)  # the thread of the dead child waits by the system's clock
    woken: list[bool] = []
    child = begin(SAYS + "say(failing={'word': sys.argv[1]}); sys.stdin.read()")
    child.wait_until_open()
    child.wake = lambda: woken.append(True)
    first = child.pid
    eventually(lambda: health.archivist_failing == {"word": "first"})

    os.kill(first, signal.SIGKILL)
    eventually(lambda: woken)
    child.watch()
    assert first == child.pid
    with capture_logs() as events:
        clock.advance(1)
        eventually(lambda: child.watch() or first != child.pid)  # its pipes close a moment before it is dead

    assert [("archivist_died", -signal.SIGKILL)] == [(one["event"], one["exit_code"]) for one in events]
    eventually(lambda: health.archivist_failing == {"word": "again"})


def test_a_child_that_hears_nothing_does_not_stop_its_daemon(begin: Begin, health: DaemonHealth) -> None:
    child = begin(SAYS + "say(); import signal; signal.pause()")
    child.wait_until_open()

    for number in range(100):
        health.failing["thread waker"] = f"{number}" * 1000
        child.watch()  # returns

    os.kill(child.pid, signal.SIGKILL)


def test_the_rest_of_a_long_line_follows(begin: Begin, health: DaemonHealth) -> None:
    child = begin(REPEATS)
    child.wait_until_open()
    long = {"thread waker": "x" * 500_000}  # longer than a pipe

    health.failing.update(long)

    def is_heard() -> bool:
        child.watch()
        return health.archivist_failing == long

    eventually(is_heard)


def heard_by(facts: dict[str, Any]) -> int:
    """Return the exit code of an archivist that hears *facts* of its daemon."""
    program = "from zsched.daemon.child import Parent; Parent()"
    given = json.dumps(facts).encode() + b"\n"
    return subprocess.run([sys.executable, "-c", program], input=given, timeout=WITHIN_S).returncode


def test_an_archivist_ends_if_its_daemon_ended_before_the_kernel_knew_of_it() -> None:
    assert 0 == heard_by({"pid": os.getpid()})
    assert 1 == heard_by({"pid": 1})
