"""Cells of a table of runs, for the command line and the console: state, waiting time, duration, error and note."""

import re
from typing import Final

from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import note_text, shortened
from zsched.core.wording import rough_duration

CELLS: Final = ("STATE", "WAITED", "TOOK")
_WIDTH: Final = 80  # characters of an error or note
_WORKER: Final = re.compile(r"\bworker ([0-9a-f]{8})[0-9a-f]{24}\b")  # RQ gives a worker without a name 32 digits


def cells(run: Run | None) -> tuple[str, str, str]:
    """Return the state, the attempt if it is not the first, the waiting time and the duration."""
    if run is None:
        return "", "", ""
    state = run.status.value + (f", attempt {run.attempt}" if run.attempt > 1 else "")
    took = _took(run.duration_ms)
    return state, _took(run.queue_wait_ms), ("≥ " if took and run.status is RunStatus.LOST else "") + took


def lasting(run: Run, now_ms: int) -> str:
    """Return the state of an open run, and for how long: ``running for 33 s on worker w``, ``queued for 2 min``."""
    for_long = "" if run.since_ms is None else f" for {rough_duration(max(now_ms - run.since_ms, 0))}"
    on = f" on worker {run.worker}" if run.status is RunStatus.RUNNING and run.worker else ""
    return f"{run.status.value}{for_long}{on}"


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


def _took(ms: int | None) -> str:
    return "" if ms is None else rough_duration(ms)
