"""
The signals of a daemon, heard by a thread of their own.

Python runs a signal's handler in the main thread, between two instructions. When a signal comes in the moment before
the main thread blocks in ``select``, the handler runs only after that sleep. (The system interrupts a sleep only once
it has begun.) So signals are blocked here, and a thread waits for them with sigwait(3).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Final

from zsched.daemon.loop import Failures, Loop

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
