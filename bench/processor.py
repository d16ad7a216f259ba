"""Processor time of processes and of single threads, by proc(5)."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")  # the grain of /proc/<pid>/stat


def process_s(pid: int) -> float:
    """User and system time of a process."""
    return _spent_s(Path(f"/proc/{pid}/stat"))


def thread_s(pid: int, tid: int) -> float:
    """User and system time of one of its threads."""
    return _spent_s(Path(f"/proc/{pid}/task/{tid}/stat"))


def _spent_s(stat: Path) -> float:
    """Fields 14 and 15."""
    fields = stat.read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
