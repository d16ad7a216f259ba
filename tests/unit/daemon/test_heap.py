"""The heap of a daemon's threads, and its return to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_THREADS = """
import ctypes, threading
from zsched.daemon import heap

if {is_limited}:
    heap.share_one()
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
from zsched.daemon import heap

def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
heap.share_one()
held = [b"x" * (100_000 + n) for n in range(500)]
last = held[-1]  # at the end of the heap
full_kib = resident_kib()
del held
heap.trim()
print(full_kib - resident_kib())
"""
    freed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout

    assert int(freed) > 40_000
