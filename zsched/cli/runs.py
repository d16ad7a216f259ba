"""How runs are shown to people: the cells of a table, here and in ``zsched history``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from zsched.cli.tables import lines
from zsched.core.runs import Run
from zsched.core.sentences import duration_text, local_text, note_text, shortened

CELLS: Final = ("STATE", "WAITED", "TOOK")
_HEADER: Final = ("RUN", "FIRED", *CELLS, "WORKER", "ERROR OR NOTE")
_WIDTH: Final = 80  # characters of an error or note


def table(runs: Iterable[Run], tz: str) -> Iterator[str]:
    """Lines, one per run; times are local in *tz*."""
    return lines(_HEADER, ((run.id, _fired(run, tz), *cells(run), run.worker, remark(run)) for run in runs))


def cells(run: Run | None) -> tuple[str, str, str]:
    """State (and the attempt, of one that was tried again), how long it waited for a worker, how long it took."""
    if run is None:
        return "", "", ""
    state = run.status.value + (f", attempt {run.attempt}" if run.attempt > 1 else "")
    return state, _duration(run.queue_wait_ms), _duration(run.duration_ms)


def remark(run: Run | None) -> str:
    """Its error, and what its task noted."""
    if run is None:
        return ""
    mark = "uncertain" if run.is_uncertain else ""
    return shortened("; ".join(text for text in (run.error, note_text(run.note), mark) if text), _WIDTH)


def _fired(run: Run, tz: str) -> str:
    return "-" if run.fired_us is None else local_text(run.fired_us // 1000, tz, has_ms=True)


def _duration(ms: int | None) -> str:
    return "" if ms is None else duration_text(ms)
