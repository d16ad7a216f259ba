"""Processor time and memory of processes and of single threads, by proc(5)."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")  # the grain of /proc/<pid>/stat


def family(pid: int) -> list[int]:
    """Return *pid* and the processes below it: a daemon is several."""
    pids = [pid]
    for each in pids:  # which grows meanwhile
        for task in Path(f"/proc/{each}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return pids


def processes_s(pid: int) -> float:
    """User and system time of the family of *pid*."""
    return sum(_spent_s(Path(f"/proc/{each}/stat")) for each in family(pid))


def thread_s(tid: int) -> float:
    """User and system time of one thread, of any process."""
    return _spent_s(Path(f"/proc/{tid}/task/{tid}/stat"))


def memory_mb(pid: int) -> float:
    """Memory of the family of *pid*, in MB; what its processes share counts once."""
    lines = [line for each in family(pid) for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def _spent_s(stat: Path) -> float:
    """Fields 14 and 15."""
    fields = stat.read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
