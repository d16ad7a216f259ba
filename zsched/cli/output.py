"""Output for people: texts without control characters, remarks, tables, times, runs, and progress."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

import click

from zsched.core.clock import Clock, SystemClock
from zsched.core.pages import pages_of
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import local_text, note_text, shortened
from zsched.core.wording import relative_text, rough_duration


def printable(text: str) -> str:
    """Return *text* without control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def jsonable(value: Any, text: Callable[[Any], str] = str) -> Any:
    """Return *value* for JSON; a type that JSON does not know is converted by *text*."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return text(value)


def echo_array(values: Iterable[Any]) -> None:
    """Write one JSON array to stdout, an element per line, as *values* come. An interrupted array is not valid JSON."""
    separator = "[\n"
    for value in values:
        click.echo(separator + json.dumps(value), nl=False)
        separator = ",\n"
    click.echo("[]" if separator == "[\n" else "\n]")


def say(text: str) -> None:
    """Write a remark beside the result: one line to stderr."""
    click.echo(f"zsched: {printable(text)}", err=True)


# -- tables -----------------------------------------------------------------------------------------


_PAGE = 200  # rows that are aligned together; later rows may widen a column, but never narrow it
_GAP = "  "


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Write *rows* under *header*, page by page, so that a long listing is not kept in memory."""
    widths = [0] * len(header)
    for page in pages_of(([printable(cell) for cell in row] for row in chain([header], rows)), _PAGE):
        widths = [max(width, *(len(row[n]) for row in page)) for n, width in enumerate(widths)]
        for row in page:
            yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def pairs(fields: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return ``name value`` lines with the values aligned."""
    known = [(name, printable(text)) for name, text in fields]
    width = max((len(name) for name, _ in known), default=0)
    return (f"{name.ljust(width)}{_GAP}{text}" for name, text in known)


# -- times ------------------------------------------------------------------------------------------


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


def run_lines(runs: Iterable[Run], tz: str) -> Iterator[str]:
    """Return a line per run; times are local in *tz*."""
    return aligned(_RUNS, ((run.id, _fired(run, tz), *cells(run), _worker(run), remark(run)) for run in runs))


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


# -- progress ---------------------------------------------------------------------------------------


_EVERY_MS: Final = 3000.0  # between two lines, without a bar


class Progress:
    """
    Progress of a block, reported by ``at``. A terminal shows a bar called *label* if the total is *least* or more.
    Otherwise a line with *counted* ("schedules compared") is shown every few seconds, or nothing without *counted*.
    With *is_quiet* nothing is shown at all. ``done`` and ``total`` are the last reported numbers, also after the block.
    """

    def __init__(
        self, label: str, *, is_quiet: bool, least: int = 0, counted: str = "", clock: Clock | None = None
    ) -> None:
        self._label, self._least, self._counted, self._is_quiet = label, least, counted, is_quiet
        self._is_terminal = sys.stderr.isatty()
        self._stack = ExitStack()
        self._bar: Any = None
        self._clock = clock or SystemClock()
        self._shown_ms = self._clock.monotonic_ms()
        self.done = self.total = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def at(self, done: int, total: int) -> None:
        """Report that *done* of *total* are done."""
        self.done, self.total = done, total
        if self._is_quiet:
            return
        if self._is_terminal:
            self._show_bar()
        elif self._counted and self._clock.monotonic_ms() - self._shown_ms >= _EVERY_MS:
            say(f"{done:,} of {total:,} {self._counted}")
            self._shown_ms = self._clock.monotonic_ms()

    def _show_bar(self) -> None:
        if self._bar is None and self.total >= self._least:
            bar = click.progressbar(length=self.total, label=self._label, file=sys.stderr, show_pos=True)
            self._bar = self._stack.enter_context(bar)
        if self._bar is not None:
            self._bar.length = self.total
            self._bar.update(self.done - self._bar.pos)
