"""
The common parts of both processes of a daemon: their interpreter, memory, facts, signals and exit codes.

**Memory.** By default the C library (glibc: mallopt(3), malloc_trim(3)) gives each thread a heap of its own, and memory
that it freed is of no use to the others. So all threads share one heap here. The system gets freed memory back only
from the heap's end; ``trim_heap`` returns all of it. With another library, or without /proc, nothing is done.

**Facts** of a daemon are its name, host, start time and versions. Every archive report contains them, from leader and
standby. `zsched status` shows them, `zsched doctor` compares them, and ``storage.overview`` reads them back.

**Signals** are heard by a thread of their own. Python runs a signal's handler in the main thread, between two
instructions. When a signal comes in the moment before the main thread blocks in ``select``, the handler runs only after
that sleep. (The system interrupts a sleep only once it has begun.) So signals are blocked here, and a thread waits for
them with sigwait(3).
"""

import ctypes
import gc
import importlib
import mmap
import os
import platform
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from zsched.config.settings import LogSettings
from zsched.core.clock import Clock
from zsched.daemon.loop import Failures, Loop
from zsched.errors import ArchiveForeign, OlderFormat, OtherPrefix, ZschedError
from zsched.events import configure
from zsched.zone_rules import installed

DONE, FAILED, UNUSABLE = 0, 1, 2  # systemd restarts the unit after FAILED, not after UNUSABLE
# Seconds for which a thread may keep the interpreter while other threads wait. Firing must not wait for a page of
# metrics, nor archiving for the audit. Python's default is 0.005.
_SWITCH_S: Final = 0.0001


def prepare(settings: LogSettings) -> None:
    """Set up the interpreter of this process, and its events by *settings*, before it has threads."""
    sys.setswitchinterval(_SWITCH_S)
    share_heap()
    gc.freeze()  # the collector skips objects that stay, such as modules: every thread waits for it
    configure(settings.level, settings.format)


def exit_code_of(error: ZschedError) -> int:
    """Return UNUSABLE if an operator must act on *error* before another start can succeed, else FAILED."""
    return UNUSABLE if isinstance(error, ArchiveForeign | OlderFormat | OtherPrefix) else FAILED


_M_ARENA_MAX: Final = -8  # malloc.h
_ABSENT: Final = (AttributeError, OSError)  # another C library lacks the function


def share_heap() -> None:
    """Let all threads of this process, and of its forks, allocate from one heap."""
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def trim_heap() -> None:
    """Return freed memory to the system: some ms for a hundred MB."""
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def resident_bytes(*pids: int) -> int:
    """Return the resident memory of the processes *pids*, in bytes: a page that two of them share counts twice."""
    pages = 0
    for pid in set(pids):
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * mmap.PAGESIZE


def facts(daemon: str | None, clock: Clock, worker: str | None = None) -> dict[str, Any]:
    """
    Return the facts of the daemon called *daemon*, which starts now; None: of an archivist without one. *worker*: RQ's
    name of the worker that it is inside of, if any. An unknown fact is None. ``started``: ms, by the clock of its
    machine.
    """
    process = {"host": socket.gethostname(), "pid": os.getpid(), "started": clock.now_ms()}
    return {"daemon": daemon, "worker": worker, **process, **versions()}


def versions() -> dict[str, str | None]:
    """Return the versions of a daemon's parts; None if a version is unknown."""
    return {
        "version": importlib.import_module("zsched").__version__,  # by name: no layer imports the root
        "python": platform.python_version(),
        "redis_py": _version("redis"),
        "rq": _version("rq"),
        "tzdata": installed().version,
    }


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):  # the files were copied here without pip's metadata
        return version(package)
    return None


ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
HEARD: Final = ENDING | {signal.SIGHUP}


class Signals:
    """SIGTERM, SIGINT and SIGHUP of this process: held back from the beginning, and heard from ``start`` on."""

    def __init__(self, *, has_parent: bool = False) -> None:
        """
        Hold signals back. Call it in the main thread before threads or children start: they inherit what is blocked.
        *has_parent*: leave SIGTERM and SIGINT to it; they do nothing here.
        """
        for each in HEARD:
            signal.signal(each, signal.SIG_DFL)  # sigwait may miss a signal that is ignored or has a handler
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        self._awaited = HEARD - ENDING if has_parent else HEARD

    def start(self, stop: Callable[[], None], reload: Callable[[], None], failures: Failures | None = None) -> None:
        """
        Call *stop* at the first SIGTERM or SIGINT, and *reload* at each SIGHUP, in the thread of the signals. A second
        SIGTERM or SIGINT ends the process at once.
        """
        Loop("signals", partial(self._hear, stop, reload), failures).start()

    def _hear(self, stop: Callable[[], None], reload: Callable[[], None]) -> None:
        if signal.sigwait(self._awaited) == signal.SIGHUP:
            reload()
            return
        self._awaited = HEARD - ENDING
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # in this thread: the next one ends the process
        stop()
