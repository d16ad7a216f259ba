"""Times and runs as people and programs read them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from zsched.cli.output import Table, pairs, printable
from zsched.cli.program import Invocation
from zsched.core.clock import SystemClock
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.cells import CELLS, cells, remark, with_short_workers
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import attempt_text, local_text, note_text
from zsched.core.story.source import Source
from zsched.core.wording import relative_text, rough_duration


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


# -- one run, with its attempts and the last lines of their tracebacks --------------------------------


_UTC: Final = "UTC"  # the zone is the schedule's, which may be gone
_PLAIN: Final = "no traceback: plain RQ worker"


def show_run(invocation: Invocation, run: Run, source: Source) -> None:
    """Show *run*, and the source if that is not an archive."""
    attempts = run.every_attempt
    value = run.to_dict() | {"attempts": [one.to_dict() for one in attempts], "source": source.to_dict()}
    lines = [*pairs(_facts(run)), "", *_attempts(run, attempts)]
    invocation.answer(value, *lines, tz=_UTC)
    if source.archive is None:
        invocation.tell_source(source)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    state, waited, took = cells(run)
    yield "run", run.id
    yield "schedule", run.schedule_id
    yield "status", state
    instants = {
        "nominal_at": run.nominal_ms,
        "fired_at": None if run.fired_us is None else run.fired_us // 1000,
        "started_at" if run.attempt == 1 else "first_started_at": None if run.first is None else run.first.started_ms,
        "ended_at": run.ended_ms,
    }
    for name, ms in instants.items():
        if ms is not None:
            yield name, local_text(ms, _UTC, has_ms=True)
    texts = {
        "late": "" if run.lateness_ms is None else rough_duration(run.lateness_ms),
        "waited": waited,
        "took": took,
        "queue": run.queue,
        "worker": run.worker,
        "error": run.error,
        "note": note_text(run.note),
        "uncertain": "a lost Redis may have pushed it already" if run.is_uncertain else "",
    }
    yield from ((name, text) for name, text in texts.items() if text)


def _attempts(run: Run, attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield the lines of each attempt, the oldest first, and of unrecorded ones."""
    yield "attempts:"
    number = 0
    for one in attempts:
        if one.number > number + 1:
            unknown = f"attempt {number + 1}"
            if one.number > number + 2:
                unknown = f"attempts {number + 1} to {one.number - 1}"
            yield f"  {unknown}: {'not recorded' if run.attempts[:-1] else _PLAIN}"
        number = one.number
        yield "  " + printable(with_short_workers(_told(run, one)))
        if not one.error and one.number < run.attempt:
            yield f"    {_PLAIN}"
        yield from (f"    {printable(line)}" for line in one.traceback.split("\n") if line)


def _told(run: Run, attempt: Attempt) -> str:
    start = "" if attempt.started_ms is None else f"{local_text(attempt.started_ms, _UTC, has_ms=True)}  "
    if attempt.number < run.attempt or run.status in (RunStatus.FAILED, RunStatus.LOST):
        return start + attempt_text(attempt, _UTC)
    return start + attempt_text(attempt._replace(error="", next_ms=None), _UTC, run.status)
