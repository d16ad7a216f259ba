"""
The output of commands for people: lines and tables, each with a style.

They are whole: unwrapped, with full times. ``terminal`` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


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

    def __init__(self, colour: str, is_bold: bool) -> None:
        self.colour, self.is_bold = colour, is_bold


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
