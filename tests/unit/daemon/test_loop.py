"""Threads of a daemon: the loop of each, their failures, the bell that wakes them, and the heap that they share."""

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.waiting import WITHIN_S, eventually
from zsched.core.clock import ManualClock
from zsched.daemon.loop import Bell, Failures, Loop
from zsched.errors import ArchiveFailed, RedisRefused, RedisUnavailable


class Step:
    """A step that raises the given errors, each once; from the tenth success on, ``is_done`` is set."""

    def __init__(self, *raises: Exception) -> None:
        self.raises, self.done, self.is_done = list(raises), 0, threading.Event()

    def __call__(self) -> float:
        if self.raises:
            raise self.raises.pop(0)
        self.done += 1
        if self.done >= 10:
            self.is_done.set()
        return 0.001


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def run(clock: ManualClock, failures: Failures) -> Iterator[Callable[[Step], Loop]]:
    """A function that starts a loop, which is stopped in the end."""
    loops: list[Loop] = []

    def started(step: Step) -> Loop:
        loop = Loop("worker", step, failures, retry_s=0.001, clock=clock)
        loops.append(loop)
        loop.start()
        return loop

    yield started
    for loop in loops:
        loop.stop()
        assert loop.join(WITHIN_S)


Run = Callable[[Step], Loop]


def events(told: list[Any]) -> list[str]:
    return [each["event"] for each in told]


def test_a_step_that_raises_is_logged_once_with_its_traceback_and_repeated(run: Run, failures: Failures) -> None:
    step = Step(*[KeyError("a bug")] * 5)

    with capture_logs() as told:
        run(step)
        assert step.is_done.wait(WITHIN_S)

    assert [("thread_failed", "worker", "'a bug'")] == [(one["event"], one["thread"], one["reason"]) for one in told]
    assert isinstance(told[0]["exc_info"], KeyError)


def test_a_thread_counts_as_failing_until_it_was_well_long(run: Run, clock: ManualClock, failures: Failures) -> None:
    step = Step(KeyError("a bug"))
    with capture_logs() as told:
        loop = run(step)
        assert step.is_done.wait(WITHIN_S)
        assert {"thread worker": "'a bug'"} == failures.shown

        loop.stop()
        assert loop.join(WITHIN_S)  # else both threads may say so
        clock.advance(10_000)
        loop.well()

    assert ["thread_failed", "thread_back"] == events(told)
    assert {} == failures.shown


def test_a_thread_that_fails_now_and_then_is_not_logged_each_time(run: Run) -> None:
    step = Step(KeyError("a bug"))
    with capture_logs() as told:
        run(step)
        for _ in range(5):
            assert step.is_done.wait(WITHIN_S)
            step.raises = [KeyError("a bug")]
            eventually(lambda: not step.raises)
            step.is_done.clear()
        assert step.is_done.wait(WITHIN_S)

    assert ["thread_failed"] == events(told)


@pytest.mark.parametrize(
    ("errors", "reasons"), [([RedisUnavailable("gone")] * 3, []), ([RedisRefused("NOPERM")], [("NOPERM", None)])]
)
def test_a_refusal_of_redis_is_logged_without_a_traceback_and_its_loss_is_not_a_failure(
    run: Run, failures: Failures, errors: list[Exception], reasons: list[Any]
) -> None:
    step = Step(*errors)

    with capture_logs() as told:
        run(step)
        assert step.is_done.wait(WITHIN_S)

    assert reasons == [(each["reason"], each["exc_info"]) for each in told]
    assert bool(reasons) == bool(failures.shown)


@pytest.mark.parametrize(
    ("given", "expected"), [({"retry_s": 1.0}, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]), ({}, [1.0])]
)
def test_pauses_grow_while_a_step_keeps_failing(given: dict[str, float], expected: list[float]) -> None:
    pauses: list[float] = []
    loop = Loop("worker", Step(*[KeyError("a bug")] * len(expected)), clock=ManualClock(), **given)  # type: ignore[arg-type]
    loop.pause = pauses.append  # type: ignore[method-assign]

    with capture_logs():
        for _ in expected:
            loop._do()

    assert expected == pauses


def test_a_finishing_loop_does_a_last_step_when_it_is_stopped() -> None:
    step = Step()
    loop = Loop("worker", step, finishes=True)
    loop.stop()

    loop.start()

    assert loop.join(WITHIN_S)
    assert 1 == step.done


ERROR = ArchiveFailed("the disk is full")


def test_an_ended_failure_is_not_shown() -> None:
    shown: dict[str, str] = {}
    failures = Failures(shown)
    failures.begin("chore", "auditor", ERROR)

    failures.end("chore", "auditor")

    assert {} == shown == failures.shown


def test_a_bell_that_is_closed_twice_closes_no_other_descriptor() -> None:
    bell = Bell()

    bell.close()
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
    bell.close()
    bell.ring()

    for fd in (0, 1, 2, *taken):
        os.fstat(fd)
    for fd in taken:
        os.close(fd)


_THREADS = """
import ctypes, threading
from zsched.daemon import running

if {is_limited}:
    running.share_heap()
have_allocated = threading.Barrier(5)
def allocate():
    held = [bytes(100_000) for _ in range(10)]  # too large for Python's own allocator, too small for mmap
    have_allocated.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for each in threads:
    each.start()
have_allocated.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no arenas")
@pytest.mark.parametrize(("is_limited", "expected"), [(True, True), (False, False)])
def test_the_threads_of_a_daemon_share_one_heap(is_limited: bool, expected: bool) -> None:
    program = _THREADS.format(is_limited=is_limited)

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout

    assert expected == (told.count("<heap nr=") == 1)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such function")
def test_a_trimmed_heap_returns_freed_memory_before_its_end() -> None:
    program = """
from pathlib import Path
from zsched.daemon import running

def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
running.share_heap()
held = [b"x" * (100_000 + n) for n in range(500)]
last = held[-1]  # at the end of the heap
full_kib = resident_kib()
del held
running.trim_heap()
print(full_kib - resident_kib())
"""
    freed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout

    assert int(freed) > 40_000
