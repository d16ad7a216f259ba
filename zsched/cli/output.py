"""
The output of commands. Results go to stdout: lines and tables, or JSON that streams; remarks and progress to stderr.

Commands make lines that are whole: unwrapped, with full times, each with a style. A terminal shows them in another way:
wrapped with a hanging indent, times of today without their date, and the offset of the zone only where it differs.
A table that is wider continues below: columns that do not fit on a line stand on the next one, indented, in the same
place for each row. The last column of a line is wrapped within itself. No cell is cut, so that an id can be copied.
Output for a file or another program stays whole, so that scripts see the same whatever the width is.
"""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple, Self, TextIO

import click

from zsched.core.clock import Clock, SystemClock, from_ms
from zsched.core.pages import pages_of
from zsched.core.triggers.zones import shown_zone


def printable(text: str) -> str:
    """Return *text* without control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class Style(Enum):
    """The kind of a line: its colour, and True for a bold line."""

    GOOD = ("green", True)  # the verdict
    BAD = ("red", True)  # a problem
    WARNING = ("yellow", False)
    HEADING = ("", True)
    PLAIN = ("", False)


class StyledLine(NamedTuple):
    """One line without control characters."""

    text: str
    style: Style = Style.PLAIN


class TableRow(NamedTuple):
    """The cells of a row in a table, and its style."""

    cells: Sequence[str]
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """
    Rows under a header, both indented by *indent* columns; *nothing* if there are no rows. The rows are read once.
    *goes_on*: the header was shown with earlier rows.
    """

    header: Sequence[str]
    rows: Iterable[Sequence[str] | TableRow]
    indent: int = 0
    nothing: str = ""
    goes_on: bool = False


Shown = str | StyledLine | Table


def with_remedy(text: str, remedy: str, style: Style = Style.PLAIN) -> Iterator[Shown]:
    """Yield *text*, and its remedy below if there is one."""
    yield StyledLine(printable(text), style)
    if remedy:
        yield printable(f"  → {remedy}")


def cut(lines: Sequence[str], most: int, more: str = "; --json lists them") -> Iterator[str]:
    """Yield the first *most* of *lines*, and a count of the others, followed by *more*."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"… and {len(lines) - most:,} more{more}"


def pairs(fields: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield ``name  value`` lines with the values aligned."""
    known = [(name, printable(text)) for name, text in fields]
    width = max((len(name) for name, _ in known), default=0)
    return (f"{name.ljust(width)}  {text}" for name, text in known)


# -- the terminal -------------------------------------------------------------------------------------


_NARROWEST: Final = 40  # columns; a terminal that claims less is taken for so wide
_DEEPEST: Final = 26  # columns of a hanging indent, at most
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{3})?)([+-]\d\d:\d\d)")  # of sentences.local_text
_SHORT_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(?![+-]\d\d:)")
_COLUMN: Final = re.compile(r" *\S+(?: \S+)*  +")  # the first column of a line that has more


@dataclass(frozen=True, slots=True)
class Terminal:
    """
    The place where a command writes. ``width`` in columns, None: not a terminal. ``now_ms`` decides which times are
    today's.
    """

    width: int | None = None
    has_colour: bool = False
    now_ms: int = 0

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str]) -> Self:
        """
        Return the terminal behind *stream*. COLUMNS sets the width. TERM=dumb and a NO_COLOR that is not empty
        (no-color.org) switch colours off.
        """
        if not stream.isatty():
            return cls()
        has_colour = not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        return cls.live(shutil.get_terminal_size().columns, has_colour=has_colour)

    @classmethod
    def live(cls, width: int, *, has_colour: bool) -> Self:
        """Return a terminal of *width* columns, at this moment."""
        return cls(max(width, _NARROWEST), has_colour, SystemClock().now_ms())

    def shown(self, lines: Iterable[Shown], tz: str | None = None) -> Iterator[str]:
        """
        Yield *lines* as this terminal shows them. *tz*: the zone of their times, which is then named once, at the end.
        """
        has_times = False
        for line in lines:
            for text, style in self._fitting(line, tz):
                has_times = has_times or _SHORT_TIME.search(text) is not None
                yield self.painted(text, style)
        if has_times and self.width is not None and tz is not None:
            yield f"times in {tz}"

    def _fitting(self, line: Shown, tz: str | None) -> Iterator[StyledLine]:
        if isinstance(line, Table):
            given = (row if isinstance(row, TableRow) else TableRow(row) for row in line.rows)
            rows = (TableRow([self.short(cell, tz) for cell in cells], style) for cells, style in given)
            first = list(islice(rows, 1))
            if first or not line.nothing:
                yield from _aligned(line, chain(first, rows), self.width)
            else:
                yield StyledLine(line.nothing)
            return
        text, style = (line, Style.PLAIN) if isinstance(line, str) else line
        yield from (StyledLine(part, style) for part in self.wrapped(self.short(text, tz)))

    def short(self, text: str, tz: str | None = None) -> str:
        """Return *text* with short times: without today's date, and without the offset of *tz*."""
        return text if self.width is None else _TIME.sub(lambda found: self._short(found, tz), text)

    def wrapped(self, text: str) -> list[str]:
        """Return the lines of *text*, wrapped below its second column or its indent. Words are never cut."""
        if self.width is None or len(text) <= self.width:
            return [text]
        column = _COLUMN.match(text)
        hang = column.end() if column and column.end() <= _DEEPEST else len(text) - len(text.lstrip()) + 2
        return textwrap.wrap(
            text, self.width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
        )

    def painted(self, text: str, style: Style) -> str:
        """Return *text* in the colour of *style*."""
        colour, is_bold = style.value
        if not self.has_colour or not (colour or is_bold):
            return text
        return click.style(text, fg=colour or None, bold=is_bold or None)

    def _short(self, found: re.Match[str], tz: str | None) -> str:
        date, time, offset = found.groups()
        at = datetime.fromisoformat(f"{date}T{time}{offset}")
        is_today = from_ms(self.now_ms).astimezone(at.tzinfo).date() == at.date()
        is_known = tz is not None and at.astimezone(shown_zone(tz)).utcoffset() == at.utcoffset()
        return f"{'' if is_today else f'{date} '}{time}{'' if is_known else offset}"


# -- tables -------------------------------------------------------------------------------------------


_PAGE: Final = 200  # rows that are aligned together; later rows may widen a column, but never narrow it
_GAP: Final = "  "
_INDENT: Final = 4  # columns, of the lines that go on below
_LEAST: Final = 24  # columns in which a text is wrapped; with less it begins on a line of its own
_LONG: Final = 40  # columns; a last column with longer cells is a text, which is wrapped


def _aligned(table: Table, rows: Iterable[TableRow], width: int | None = None) -> Iterator[StyledLine]:
    """
    Yield *rows* under the header of *table*, page by page, so that a long listing is not kept in memory. *width*: of
    the terminal.
    """
    header, indent = table.header, table.indent
    least = [len(name) if table.goes_on else 0 for name in header]
    for page in pages_of(chain([] if table.goes_on else [TableRow(header, Style.HEADING)], rows), _PAGE):
        page = [TableRow([printable(cell) for cell in cells], style) for cells, style in page]
        least = [max(known, *(len(row.cells[n]) for row in page)) for n, known in enumerate(least)]
        lines = _lines_of(least, indent, width)
        for cells, style in page:
            for number, columns in enumerate(lines):
                for text in _line(cells, least, columns, indent + _INDENT * (number > 0), width):
                    yield StyledLine(text, style)


def _lines_of(widths: Sequence[int], indent: int, most: int | None) -> list[list[int]]:
    """Divide the columns, by their *widths*, into lines of at most *most* characters."""
    lines, end = [list[int]()], 0
    for column, width in enumerate(widths):
        start = end + len(_GAP) if lines[-1] else indent
        needed = min(width, _LEAST) if column == len(widths) - 1 and width > _LONG else width
        if most is not None and lines[-1] and start + needed > most:
            lines.append([])
            start = indent + _INDENT
        lines[-1].append(column)
        end = start + width
    return lines


def _line(
    cells: Sequence[str], widths: Sequence[int], columns: Sequence[int], indent: int, width: int | None
) -> Iterator[str]:
    """Yield the line of *cells* with these *columns*, its last one wrapped; none if all are empty."""
    *first, last = columns
    lead = " " * indent + "".join(cells[column].ljust(widths[column]) + _GAP for column in first)
    texts = [cells[last]]
    if width is not None and len(lead) + len(cells[last]) > width:
        texts = textwrap.wrap(
            cells[last], max(width - len(lead), 1), break_long_words=False, break_on_hyphens=False
        ) or [""]
    for start, text in zip_longest([lead], texts, fillvalue=" " * len(lead)):
        if line := f"{start}{text}".rstrip():
            yield line


# -- JSON, remarks --------------------------------------------------------------------------------


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


class Progress(ExitStack):
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
        super().__init__()
        self._bar: Any = None
        self._clock = clock or SystemClock()
        self._shown_ms = self._clock.monotonic_ms()
        self.done = self.total = 0

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
            self._bar = self.enter_context(bar)
            self.callback(setattr, self, "_bar", None)  # after ``close``, another one begins
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
