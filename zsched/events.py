"""
Log events of zsched, written to stderr through structlog.

Modules get theirs by ``log = structlog.get_logger()`` and write ``log.info("run_fired", late_ms=3)``;
a program calls :func:`configure` once. A terminal gets readable lines; any other output gets one
JSON object per line: ``timestamp`` (ISO 8601, UTC), ``level``, ``event``, the fields, and ``exception``
with its traceback.

Logging never fails: if the reader is gone, an event is lost and the program continues. Long values are cut, because
names and errors come from other programs. Of an event of one schedule, a line a second is written; the next one says in
``left_out`` how many were not. Counters and the log in Redis have them all.
"""

import contextlib
import os
import sys
from itertools import islice
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, Processor

from zsched.core.clock import Clock, SystemClock
from zsched.core.wording import truncated

_MOST: Final = 100  # elements of a list
_LONGEST_TRACEBACK: Final = 20_000  # characters
_APART_MS: Final = 1000.0  # two lines of the same event and schedule
_REMEMBERED: Final = 10_000  # events of schedules; then they are forgotten, with the numbers of what was left out


def configure(level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """
    Set up structlog for this process; a later call replaces the setup, for existing loggers too.

    *level* is the lowest level written, *format* auto, console or json (auto: console if *stream* is a
    terminal), *stream* stderr unless given. Colours only on a terminal, and not if NO_COLOR is set.
    """
    sink, is_terminal = _Sink(target := stream or sys.stderr), False
    with contextlib.suppress(ValueError):  # it is closed
        is_terminal = target.isatty()
    console = format == "console" or (format == "auto" and is_terminal)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _Thinned(SystemClock()),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_rendering(console, colors=is_terminal and not os.environ.get("NO_COLOR")),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=False,  # so that configure() reaches loggers that were used already
    )


def _rendering(console: bool, *, colors: bool) -> list[Processor]:
    if console:
        plain = structlog.dev.plain_traceback  # not rich's, whatever is installed: the same text everywhere
        return [_cut, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, _cut, structlog.processors.JSONRenderer()]


class _Thinned:
    """Lets an event of a schedule through once a second, with the number of those ``left_out`` before."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._told = clock, dict[tuple[str, str], tuple[float, int]]()  # until when, and left out

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        if "schedule_id" not in event:
            return event
        name, now_ms = (event["event"], event["schedule_id"]), self._clock.monotonic_ms()
        until_ms, left_out = self._told.get(name, (now_ms, 0))
        if now_ms < until_ms:
            self._told[name] = until_ms, left_out + 1
            raise structlog.DropEvent
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told[name] = now_ms + _APART_MS, 0
        return {**event, "left_out": left_out} if left_out else event


def _cut(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Cut long texts and lists to their beginnings; of a traceback, whose message may be long, more is left."""
    traceback, cut = event.get("exception"), {name: _short(value) for name, value in event.items()}
    return cut | ({"exception": truncated(traceback, _LONGEST_TRACEBACK)} if isinstance(traceback, str) else {})


def _short(value: object) -> object:
    if isinstance(value, str):
        return truncated(value)
    if isinstance(value, bytes):
        return truncated(repr(value[:_LONGEST_TRACEBACK]))
    if isinstance(value, dict):
        return {_short(name): _short(value[name]) for name in islice(value, _MOST)}
    if isinstance(value, list | tuple | set | frozenset):
        return [_short(each) for each in islice(value, _MOST)]
    return value


class _Sink(structlog.WriteLogger):
    """
    The output of rendered events, the same for all loggers of a process. Lines of several threads do not mix.

    A line that cannot be written (broken pipe, full disk, closed file) is dropped.
    """

    def msg(self, message: str) -> None:
        """Write *message*, a line."""
        with contextlib.suppress(OSError, ValueError):
            try:
                super().msg(message)
            except BrokenPipeError:
                self._discard()

    debug = info = warning = error = critical = msg

    def _discard(self) -> None:
        """Redirect the stream to /dev/null. The rest of its buffer would make the interpreter exit with 120."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._file.fileno())
        finally:
            os.close(nowhere)
