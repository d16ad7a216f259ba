"""
A background thread of the daemon: it repeats a step, survives every exception in it, and is woken by a bell.

Signals, waker, archiver, chores, status line, metrics server and the receiver of the archivist's messages each have one
thread, the answerer has two. All threads are started this way, except those for metrics requests (at most eight). An
exception is logged once, with its traceback unless it is an expected one. The step is tried again after a growing
pause. Meanwhile ``Failures`` holds the reason, which the daemon reports. RedisUnavailable is not a failure of a thread:
the main loop reports that Redis is away.
"""

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from zsched.core.clock import Clock, SystemClock
from zsched.core.wording import in_a_line
from zsched.errors import RedisUnavailable, ZschedError

log = structlog.get_logger(__name__)


class Failures:
    """
    The present failures of threads, chores and questions about history, each with its reason. A failure is logged when
    it begins, when its reason changes, and when it ends. Thread-safe.
    """

    def __init__(self, shown: dict[str, str] | None = None) -> None:
        """Start without failures. *shown* is a dict to update for readers: ``<kind> <name>`` → a reason of one line."""
        self._shown: dict[str, str] = {} if shown is None else shown

    @property
    def shown(self) -> dict[str, str]:
        """Return a copy of the present failures: ``<kind> <name>`` → reason."""
        return self._shown.copy()

    def begin(self, kind: str, name: str, error: Exception) -> None:
        """Note that the *kind* (thread, chore, question) called *name* failed with *error*."""
        reason = in_a_line(str(error) or repr(error))
        if self._shown.get(f"{kind} {name}") != reason:
            self._shown[f"{kind} {name}"] = reason
            is_foreseen = isinstance(error, ZschedError)  # its text says all; any other error is a bug
            log.error(f"{kind}_failed", **{kind: name}, reason=reason, exc_info=None if is_foreseen else error)

    def end(self, kind: str, name: str) -> None:
        """Note that the *kind* called *name* works again."""
        if (reason := self._shown.pop(f"{kind} {name}", None)) is not None:
            log.info(f"{kind}_back", **{kind: name}, after=reason)

    def forget(self, kind: str) -> None:
        """Forget all failures of *kind*, because this daemon no longer does this kind of work."""
        for each in self.shown:
            if each.startswith(f"{kind} "):
                self._shown.pop(each, None)


_LONGEST_S: Final = 30.0  # longest pause between two attempts of a failing step
# Without a failure: healthy again; so a bug in every second message does not fill the journal.
_STEADY_MS: Final = 10_000.0


class Loop:
    """
    A thread called *name* that repeats *step* from ``start`` to ``stop``. The step returns the pause in seconds, or
    None. A long step, over one connection, must end when ``is_stopping``, and must call ``well`` when it made progress.
    *finishes*: do one more step after ``stop``.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float | None],
        failures: Failures | None = None,
        *,
        retry_s: float = 1.0,
        finishes: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Make a thread. *retry_s*: the pause after RedisUnavailable, and the first pause after another error."""
        self._name, self._step, self._failures = name, step, failures or Failures()
        self._retry_s, self._finishes, self._clock = retry_s, finishes, clock or SystemClock()
        self._failed, self._failed_ms = 0, 0.0  # failures since it was well; time of the last one
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"zsched-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after this step, and after one more if it *finishes*. This call does not wait for it."""
        self._stopping.set()

    def join(self, within_s: float) -> bool:
        """Wait at most *within_s* until the thread has ended. Return True if it has, or never started."""
        if self._thread.is_alive():
            self._thread.join(within_s)
        return not self._thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        """Return True after ``stop``."""
        return self._stopping.is_set()

    def pause(self, for_s: float) -> None:
        """Wait *for_s*, or until ``stop``."""
        self._stopping.wait(for_s)

    def well(self) -> None:
        """Note that the step makes progress."""
        if self._failed and self._clock.monotonic_ms() - self._failed_ms >= _STEADY_MS:
            self._failed = 0
            self._failures.end("thread", self._name)

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.is_stopping:
            self._do()
        if self._finishes:
            self._do()

    def _do(self) -> None:
        try:
            pause_s = self._step()
            self.well()
        except RedisUnavailable:  # the main loop reports it
            pause_s = self._retry_s
        except Exception as error:  # no error may end the thread without a report
            pause_s = min(self._retry_s * 2 ** min(self._failed, 10), _LONGEST_S)
            self._failed, self._failed_ms = self._failed + 1, self._clock.monotonic_ms()
            self._failures.begin("thread", self._name, error)
        if pause_s:
            self.pause(pause_s)


class Bell:
    """
    An eventfd: any thread may ring it at any time, and the waiting thread wakes up once.

    The kernel keeps the ring, so a ring between the check and the sleep is not lost. (A condition variable would lose
    it: no thread waits yet, and then the thread goes to sleep.)
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """For select."""
        return self._fd

    def ring(self) -> None:
        """Wake the waiting thread. After ``close``, do nothing."""
        with self._lock:
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)

    @property
    def is_rung(self) -> bool:
        """Return True if it was rung since the last ``hush``."""
        return bool(select.select([self], (), (), 0)[0])

    def hush(self) -> None:
        """Forget all rings until now."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)
