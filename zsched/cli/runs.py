"""Runs for people: the cells of a table, here and in ``zsched history``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from zsched.cli.tables import lines
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import local_text, note_text, rough_duration, shortened

CELLS: Final = ("STATE", "WAITED", "TOOK")
_HEADER: Final = ("RUN", "FIRED", *CELLS, "WORKER", "ERROR OR NOTE")
_WIDTH: Final = 80  # characters of an error or note
_WORKER: Final = re.compile(r"\bworker ([0-9a-f]{8})[0-9a-f]{24}\b")  # RQ names by 32 digits whom nobody named


def table(runs: Iterable[Run], tz: str) -> Iterator[str]:
    """Lines, one per run; times are local in *tz*."""
    return lines(_HEADER, ((run.id, _fired(run, tz), *cells(run), _worker(run), remark(run)) for run in runs))


def cells(run: Run | None) -> tuple[str, str, str]:
    """State (and the attempt, of one that was tried again), how long it waited for a worker, how long it took."""
    if run is None:
        return "", "", ""
    state = run.status.value + (f", attempt {run.attempt}" if run.attempt > 1 else "")
    took = _duration(run.duration_ms)
    at_least = "≥ " if took and run.status is RunStatus.LOST else ""
    return state, _duration(run.queue_wait_ms), at_least + took


def remark(run: Run | None) -> str:
    """Its error, and what its task noted."""
    if run is None:
        return ""
    mark = "uncertain" if run.is_uncertain else ""
    told = "; ".join(text for text in (run.error, note_text(run.note), mark) if text)
    return shortened(with_short_workers(told), _WIDTH)


def with_short_workers(text: str) -> str:
    """*text* with the first eight digits of the workers in it that nobody gave a name."""
    return _WORKER.sub(r"worker \1…", text)


def _worker(run: Run) -> str:
    return with_short_workers(f"worker {run.worker}").removeprefix("worker ")


def _fired(run: Run, tz: str) -> str:
    return "-" if run.fired_us is None else local_text(run.fired_us // 1000, tz, has_ms=True)


def _duration(ms: int | None) -> str:
    return "" if ms is None else rough_duration(ms)
