"""
The terminal of a command: its width, its colours, and lines that fit into it.

Commands make lines that are whole: unwrapped, with full times, each with a style. A terminal shows them in another way:
wrapped with a hanging indent, times of today without their date, and the offset of the zone only where it differs.
A table that is wider continues below: columns that do not fit on a line stand on the next one, indented, in the same
place for each row. The last column of a line is wrapped within itself. No cell is cut, so that an id can be copied.
Output for a file or another program stays whole, so that scripts see the same whatever the width is.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice, zip_longest
from typing import Final, TextIO

import click

from zsched.cli.lines import Shown, Style, StyledLine, Table, TableRow, printable
from zsched.core.clock import SystemClock, from_ms
from zsched.core.pages import pages_of
from zsched.core.triggers.zones import shown_zone

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
    def of(cls, stream: TextIO, env: Mapping[str, str]) -> Terminal:
        """
        Return the terminal behind *stream*. COLUMNS sets the width. TERM=dumb and a NO_COLOR that is not empty
        (no-color.org) switch colours off.
        """
        if not stream.isatty():
            return cls()
        has_colour = not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        return cls.live(shutil.get_terminal_size().columns, has_colour=has_colour)

    @classmethod
    def live(cls, width: int, *, has_colour: bool) -> Terminal:
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
        for part in self.wrapped(self.short(text, tz)):
            yield StyledLine(part, style)

    def short(self, text: str, tz: str | None = None) -> str:
        """Return *text* with short times: without today's date, and without the offset of *tz*."""
        return text if self.width is None else _TIME.sub(lambda found: self._short(found, tz), text)

    def wrapped(self, text: str) -> list[str]:
        """Return the lines of *text*, wrapped below its second column or its indent. Words are never cut."""
        if self.width is None or len(text) <= self.width:
            return [text]
        column = _COLUMN.match(text)
        indent = len(text) - len(text.lstrip()) + 2
        hang = column.end() if column and column.end() <= _DEEPEST else indent
        return textwrap.wrap(
            text, self.width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
        )

    def painted(self, text: str, style: Style) -> str:
        """Return *text* in the colour of *style*."""
        if not self.has_colour or not (style.colour or style.is_bold):
            return text
        return click.style(text, fg=style.colour or None, bold=style.is_bold or None)

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
