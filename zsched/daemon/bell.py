"""A bell that ends a thread's sleep on file descriptors."""

from __future__ import annotations

import contextlib
import os
import select
import threading


class Bell:
    """
    An eventfd: rung at any time by any thread or signal handler, heard once by who waits for it.

    The kernel keeps the ring, so one that comes between looking and sleeping is not lost. (A handler that
    notifies a condition in that moment is: nobody waits yet, and the sleeper goes to sleep.)
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.RLock()  # re-entrant: a handler may run in the thread that holds it

    def fileno(self) -> int:
        """For select."""
        return self._fd

    def ring(self) -> None:
        """Be heard; after ``close``, nothing."""
        with self._lock:
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)

    @property
    def is_rung(self) -> bool:
        """True if it was rung and nobody hushed it."""
        return bool(select.select([self], (), (), 0)[0])

    def hush(self) -> None:
        """Forget what was rung until now."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)
