"""Pages: many items are read, sent or written in small lists, so that no reply and no pause is long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def pages_of(items: Iterable[T], size: int, first: int | None = None) -> Iterator[list[T]]:
    """
    Yield *items* in order, in lists of at most *size*. *items* may be endless: it is read one page at a time. With
    *first*, the first page has so many at most, and each further page may be twice as long as the one before.
    """
    source, length = iter(items), size if first is None else min(max(first, 1), size)
    while page := list(islice(source, length)):
        yield page
        length = min(2 * length, size)
