"""The bell that wakes a daemon's thread: the return of its descriptor."""

from __future__ import annotations

import os

from zsched.daemon.bell import Bell


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
