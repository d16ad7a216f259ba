"""Output beside the result: remarks and progress; and JSON that streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import click

from zsched.cli.lines import printable
from zsched.cli.terminal import Terminal
from zsched.core.clock import Clock, SystemClock


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
    say_lines(f"zsched: {text}")


def say_lines(*lines: str) -> None:
    """Write *lines* to stderr, within the width of its terminal."""
    for line in Terminal.of(sys.stderr, os.environ).shown(map(printable, lines)):
        click.echo(line, err=True)


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


@contextmanager
def stoppable(progress: Progress, told: Callable[[Progress], str]) -> Iterator[Progress]:
    """Show *progress* of the block. After a Ctrl-C in it, say what *told* returns: how far it came."""
    try:
        with progress:
            yield progress
    except KeyboardInterrupt:
        say(told(progress))
        raise
