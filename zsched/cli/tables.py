"""
The layout of a table: rows under a header, in a given width.

A table that is wider than the terminal continues below: columns that do not fit on a line stand on the next one,
indented, in the same place for each row. The last column of a line is wrapped within itself. No cell is cut, so that an
id can be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final

from zsched.cli.lines import Style, StyledLine, Table, TableRow, printable
from zsched.core.pages import pages_of

_PAGE: Final = 200  # rows that are aligned together; later rows may widen a column, but never narrow it
_GAP: Final = "  "
_INDENT: Final = 4  # columns, of the lines that go on below
_LEAST: Final = 24  # columns in which a text is wrapped; with less it begins on a line of its own
_LONG: Final = 40  # columns; a last column with longer cells is a text, which is wrapped


def aligned(table: Table, rows: Iterable[TableRow], width: int | None = None) -> Iterator[StyledLine]:
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
