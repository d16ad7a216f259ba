"""Aligned columns for people, of cells that cannot steer their terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from zsched.cli.texts import printable

_PAGE = 200  # rows that are aligned together; later ones widen a column but never narrow it
_GAP = "  "


def lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """*rows* under *header*, page by page, so that a long listing need not be held."""
    rest = chain([header], rows)
    widths = [0] * len(header)
    while page := [[printable(cell) for cell in row] for row in islice(rest, _PAGE)]:
        widths = [max(width, *(len(row[n]) for row in page)) for n, width in enumerate(widths)]
        for row in page:
            yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def pairs(fields: Iterable[tuple[str, str]]) -> Iterator[str]:
    """``name  value`` lines with the values aligned."""
    known = [(name, printable(text)) for name, text in fields]
    width = max((len(name) for name, _ in known), default=0)
    return (f"{name.ljust(width)}{_GAP}{text}" for name, text in known)
