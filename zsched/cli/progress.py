"""Progress of something long, told on stderr while it goes on."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Final

import click

from zsched.cli.invocation import say
from zsched.core.clock import Clock, SystemClock

_EVERY_MS: Final = 3000.0  # between two lines where there is no bar


class Progress:
    """
    Inside the block ``at`` shows how far it has come: on a terminal as a bar called *label*, if it is *least* or more
    in all. Elsewhere nothing is shown, or of *counted* ("schedules compared") a line every few seconds. If *is_quiet*
    nothing is shown anywhere. ``done`` and ``total`` are what it was told last, also behind the block.
    """

    def __init__(
        self, label: str, *, is_quiet: bool, least: int = 0, counted: str = "", clock: Clock | None = None
    ) -> None:
        self._label, self._least, self._counted, self._is_quiet = label, least, counted, is_quiet
        self._is_terminal = sys.stderr.isatty()
        self._stack = ExitStack()
        self._bar: Any = None
        self._clock = clock or SystemClock()
        self._told_ms = self._clock.monotonic_ms()
        self.done = self.total = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def at(self, done: int, total: int) -> None:
        """So many of *total* are done."""
        self.done, self.total = done, total
        if self._is_quiet:
            return
        if self._is_terminal:
            self._show_bar()
        elif self._counted and self._clock.monotonic_ms() - self._told_ms >= _EVERY_MS:
            say(f"{done:,} of {total:,} {self._counted}")
            self._told_ms = self._clock.monotonic_ms()

    def _show_bar(self) -> None:
        if self._bar is None and self.total >= self._least:
            bar = click.progressbar(length=self.total, label=self._label, file=sys.stderr, show_pos=True)
            self._bar = self._stack.enter_context(bar)
        if self._bar is not None:
            self._bar.length = self.total
            self._bar.update(self.done - self._bar.pos)
