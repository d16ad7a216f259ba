"""How far something long has come, told on stderr, and ending it well by Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final

import click

from zsched.cli.tables import printable
from zsched.core.clock import SystemClock

_EVERY_MS: Final = 3000.0  # between two lines where stderr is no terminal


class Progress:
    """Inside the block ``at`` tells of *total* schedules: a bar on a terminal, else a line every few seconds."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._is_quiet, self._is_bar = total, is_quiet, sys.stderr.isatty() and not is_quiet
        self._clock, self._stack, self._at = SystemClock(), ExitStack(), 0
        self._told_ms = self._clock.monotonic_ms()

    def __enter__(self) -> Progress:
        if self._is_bar:
            bar: Any = click.progressbar(length=self._total, label="recovering", file=sys.stderr, show_pos=True)
            self._bar = self._stack.enter_context(bar)
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def at(self, number: int) -> None:
        """So many are done."""
        if self._is_bar:
            self._bar.update(number - self._at)
            self._at = number
        elif not self._is_quiet and self._clock.monotonic_ms() - self._told_ms >= _EVERY_MS:
            say(f"{number:,} of {self._total:,} schedules compared")
            self._told_ms = self._clock.monotonic_ms()


class Stopping:
    """Inside the block the first Ctrl-C only sets ``is_asked``; the second one is as always."""

    def __init__(self) -> None:
        self.is_asked = False

    def __enter__(self) -> Stopping:
        self._is_main = threading.current_thread() is threading.main_thread()  # no other may handle signals
        if self._is_main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def say(text: str) -> None:
    """One line to stderr."""
    click.echo(f"zsched: {printable(text)}", err=True)
