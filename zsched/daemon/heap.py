"""
The heap of the C library, where that is glibc (mallopt(3), malloc_trim(3)); elsewhere nothing is done.

By default each thread gets a heap of its own, and memory that it freed is of no use to the others. So ``share_one``
gives all threads one heap. The system gets freed memory back only from the heap's end; ``trim`` returns all of it.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

_M_ARENA_MAX: Final = -8  # malloc.h
_ABSENT: Final = (AttributeError, OSError)  # another C library lacks the function


def share_one() -> None:
    """Let all threads of this process, and of its forks, allocate from one heap."""
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def trim() -> None:
    """Return freed memory to the system: some ms for a hundred MB."""
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
