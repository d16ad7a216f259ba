"""Pages of whatever is many: read, sent or written together, so that no reply and no pause is long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def pages_of(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield *items* in order, *size* at a time; *items* may be endless, and what was not asked for is not read."""
    source = iter(items)
    while page := list(islice(source, size)):
        yield page
