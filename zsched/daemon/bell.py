"""A bell that ends a thread's sleep on file descriptors."""

from __future__ import annotations

import contextlib
import os
import select
import threading


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
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)
