"""The memory of a daemon's process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_THREADS = """
import ctypes, threading
from zsched.daemon.process import _use_one_arena

if {is_limited}:
    _use_one_arena()
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
