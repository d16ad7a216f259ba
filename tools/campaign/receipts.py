"""
The runs that workers really received: each executed job writes one line, and only these lines count as received. A run
of a schedule with ``overlap="queue"`` also writes when it ends.

RQ imports this module before it forks (``--config``), so that a run does not pay for the import.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

from rq import get_current_job

PATH_VARIABLE = "CAMPAIGN_RECEIPTS"
FUNC, LINGER, FAIL = (f"tools.campaign.receipts.{name}" for name in ("receive", "linger", "fail"))
_LINGERS_S = 0.1


class Receipt(NamedTuple):
    """A run that a worker received, with the time (epoch µs) and the process."""

    run_id: str
    t_us: int
    pid: int


def receive(*words: str) -> None:
    """Write a receipt. Every schedule of the campaign runs this function."""
    job = get_current_job()
    assert job is not None
    write(Path(os.environ[PATH_VARIABLE]), [job.id])


def linger(*words: str) -> None:
    """Write a receipt at the begin of a run that takes a moment, and another one at its end, elsewhere."""
    receive(*words)
    time.sleep(_LINGERS_S)
    job = get_current_job()
    assert job is not None
    write(ends_beside(Path(os.environ[PATH_VARIABLE])), [job.id])


def fail(*words: str) -> None:
    """Write a receipt, and fail: the notifier has to report it."""
    receive(*words)
    raise ValueError("as the campaign wants it")


def ends_beside(path: Path) -> Path:
    """Return the file of ends for the file of receipts *path*."""
    return path.with_name("ends.txt")


def write(path: Path, run_ids: list[str]) -> None:
    """Append a line per run in one write, which O_APPEND keeps whole beside those of other processes."""
    tail = f" {time.time_ns() // 1000} {os.getpid()}\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, "".join(run_id + tail for run_id in run_ids).encode())
    finally:
        os.close(file)


def read(path: Path) -> list[Receipt]:
    """Return all receipts in their order."""
    if not path.exists():
        return []
    rows = (line.split(" ") for line in path.read_text().splitlines())
    return [Receipt(run_id, int(t_us), int(pid)) for run_id, t_us, pid in rows]
