"""Times and runs as people and programs read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from zsched.cli.lines import Table
from zsched.core.clock import Clock, SystemClock
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import local_text, note_text, shortened
from zsched.core.wording import relative_text, rough_duration


def due_text(ms: int, tz: str, clock: Clock | None = None) -> str:
    """Return the local and the relative time: ``2026-12-24 18:00:00+09:00 (in 3d 4h)``."""
    return f"{local_text(ms, tz)} ({relative_text(ms, (clock or SystemClock()).now_ms())})"


def iso_text(at: datetime) -> str:
    """Return ``2026-12-24T18:00:00+09:00``, with milliseconds if they are not zero."""
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def utc_text(at: datetime) -> str:
    """Return the same instant in UTC: ``2026-12-24T09:00:00Z``."""
    return iso_text(at.astimezone(UTC)).replace("+00:00", "Z")


# -- runs -------------------------------------------------------------------------------------------


CELLS: Final = ("STATE", "WAITED", "TOOK")
_RUNS: Final = ("RUN", "FIRED", *CELLS, "WORKER", "ERROR OR NOTE")
_WIDTH: Final = 80  # characters of an error or note
_WORKER: Final = re.compile(r"\bworker ([0-9a-f]{8})[0-9a-f]{24}\b")  # RQ gives a worker without a name 32 digits


def run_table(runs: Iterable[Run], tz: str, indent: int = 0) -> Table:
    """Return a table with a row per run; times are local in *tz*."""
    rows = ((run.id, _fired(run, tz), *cells(run), _worker(run), remark(run)) for run in runs)
    return Table(_RUNS, rows, indent)


def cells(run: Run | None) -> tuple[str, str, str]:
    """Return the state, the attempt if it is not the first, the waiting time and the duration."""
    if run is None:
        return "", "", ""
    state = run.status.value + (f", attempt {run.attempt}" if run.attempt > 1 else "")
    took = _took(run.duration_ms)
    at_least = "≥ " if took and run.status is RunStatus.LOST else ""
    return state, _took(run.queue_wait_ms), at_least + took


def remark(run: Run | None) -> str:
    """Return the run's error, and its task's note."""
    if run is None:
        return ""
    mark = "uncertain" if run.is_uncertain else ""
    parts = "; ".join(text for text in (run.error, note_text(run.note), mark) if text)
    return shortened(with_short_workers(parts), _WIDTH)


def with_short_workers(text: str) -> str:
    """Return *text* with RQ's generated worker names cut to eight digits."""
    return _WORKER.sub(r"worker \1…", text)


def _worker(run: Run) -> str:
    return with_short_workers(f"worker {run.worker}").removeprefix("worker ")


def _fired(run: Run, tz: str) -> str:
    return "-" if run.fired_us is None else local_text(run.fired_us // 1000, tz, has_ms=True)


def _took(ms: int | None) -> str:
    return "" if ms is None else rough_duration(ms)
