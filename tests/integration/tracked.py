"""What the tests of the tracker share: which runs an archive has as open, and which ends the log tells."""

from __future__ import annotations

from pathlib import Path

from tests.faults.leader import KEYS
from zsched.archive.openruns import OpenRuns
from zsched.core.entries import ended
from zsched.core.log import Entry
from zsched.core.runs import Run, of_row
from zsched.storage.connection import Link
from zsched.storage.log import Log

FUNC = "app.tasks.run"
ALL = 1_000_000


def opened(path: str | Path) -> set[str]:
    """Ids of the schedules whose runs the archive has as open."""
    with OpenRuns(Path(path)) as runs:
        return {run.id for run in runs.next(None, ALL, ALL)[0]}


def ends(link: Link) -> list[str]:
    """``<run id> <status>`` of every line of every ``end`` entry in the log."""
    return [f"{run.id} {run.status.value}" for run in recorded(link)]


def recorded(link: Link) -> list[Run]:
    """What every line of every ``end`` entry tells."""
    return [of_row(*row) for entry in entries(link) for row in ended(entry)]


def entries(link: Link) -> list[Entry]:
    return [entry for entry in Log(link, KEYS).entries() if entry.kind == "end"]
