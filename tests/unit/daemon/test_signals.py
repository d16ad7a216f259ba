"""A daemon's signals are heard whatever its main thread does."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, NamedTuple

import pytest

from tests.waiting import ENDS_S

# A mutex that is locked twice: a call that the system does not end for a signal.
_DEAF = """
import ctypes, os
from zsched.daemon.running import Signals

signals = Signals()
os.write(1, b"ready\\n")
input()
signals.start(lambda: os.write(1, b"stop\\n"), lambda: os.write(1, b"reload\\n"))
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
lock(mutex), lock(mutex)
"""


class Deaf(NamedTuple):
    """A process whose main thread no signal interrupts, from a line of input on."""

    child: subprocess.Popen[str]
    stdin: IO[str]
    stdout: IO[str]


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    """A deaf process that holds signals back already."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _DEAF], text=True, bufsize=1, **pipes) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert "ready\n" == child.stdout.readline()
        yield Deaf(child, child.stdin, child.stdout)
        child.kill()


def test_a_signal_is_heard_while_the_main_thread_hears_none(deaf: Deaf) -> None:
    deaf.stdin.write("\n")

    for number, word in ((signal.SIGHUP, "reload"), (signal.SIGHUP, "reload"), (signal.SIGINT, "stop")):
        deaf.child.send_signal(number)
        assert f"{word}\n" == deaf.stdout.readline()

    deaf.child.send_signal(signal.SIGHUP)
    assert "reload\n" == deaf.stdout.readline(), "too late to matter, and harmless"
    deaf.child.send_signal(signal.SIGTERM)
    assert -signal.SIGTERM == deaf.child.wait(ENDS_S), "the second one ends it at once"


def test_a_signal_before_the_start_waits_for_it(deaf: Deaf) -> None:
    deaf.child.send_signal(signal.SIGTERM)
    deaf.stdin.write("\n")

    assert "stop\n" == deaf.stdout.readline()
