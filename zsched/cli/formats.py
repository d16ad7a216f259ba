"""Times and runs as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from zsched.cli.lines import Table
from zsched.core.clock import SystemClock
from zsched.core.runs.cells import CELLS, cells, remark, with_short_workers
from zsched.core.runs.run import Run
from zsched.core.story.sentences import local_text
from zsched.core.wording import relative_text


def due_text(ms: int, tz: str) -> str:
    """Return the local and the relative time: ``2026-12-24 18:00:00+09:00 (in 3d 4h)``."""
    return f"{local_text(ms, tz)} ({relative_text(ms, SystemClock().now_ms())})"


def iso_text(at: datetime) -> str:
    """Return ``2026-12-24T18:00:00+09:00``, with milliseconds if they are not zero."""
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def utc_text(at: datetime) -> str:
    """Return the same instant in UTC: ``2026-12-24T09:00:00Z``."""
    return iso_text(at.astimezone(UTC)).replace("+00:00", "Z")


# -- runs -------------------------------------------------------------------------------------------


_RUNS: Final = ("RUN", "FIRED", *CELLS, "WORKER", "ERROR OR NOTE")


def run_table(runs: Iterable[Run], tz: str, indent: int = 0) -> Table:
    """Return a table with a row per run; times are local in *tz*."""
    rows = ((run.id, _fired(run, tz), *cells(run), _worker(run), remark(run)) for run in runs)
    return Table(_RUNS, rows, indent)


def _worker(run: Run) -> str:
    return with_short_workers(f"worker {run.worker}").removeprefix("worker ")


def _fired(run: Run, tz: str) -> str:
    return "-" if run.fired_us is None else local_text(run.fired_us // 1000, tz, has_ms=True)
