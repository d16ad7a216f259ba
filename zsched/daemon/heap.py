"""
Memory of processes, where the system has /proc; and the heap of the C library, where that is glibc (mallopt(3),
malloc_trim(3)). Elsewhere nothing is done.

By default each thread gets a heap of its own, and memory that it freed is of no use to the others. So ``share_one``
gives all threads one heap. The system gets freed memory back only from the heap's end; ``trim`` returns all of it.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from pathlib import Path
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


def resident(*pids: int) -> int:
    """Return the resident memory of the processes *pids*, in bytes: a page that two of them share counts twice."""
    pages = 0
    for pid in set(pids):
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * mmap.PAGESIZE
