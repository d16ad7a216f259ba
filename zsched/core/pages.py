"""Pages: many items are read, sent or written in small lists, so that no reply and no pause is long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def pages_of(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield *items* in order, in lists of at most *size*. *items* may be endless: it is read one page at a time."""
    source = iter(items)
    while page := list(islice(source, size)):
        yield page
