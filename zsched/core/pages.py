"""Pages: many items are read, sent or written in small lists, so that pauses stay short; groups; and progress."""

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")
OnProgress = Callable[[int, int], None]  # is called with the number that is done, and the number of all


def pages_of(items: Iterable[T], size: int, first: int | None = None) -> Generator[list[T], None, None]:
    """
    Yield *items* in order, in lists of at most *size*. *items* may be endless: it is read one page at a time. With
    *first*, the first page has at most *first* items, and each further page at most twice as many as the one before.
    """
    source, length = iter(items), size if first is None else min(max(first, 1), size)
    while page := list(islice(source, length)):
        yield page
        length = min(2 * length, size)


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the second parts of *pairs* by the first, in order."""
    found: dict[K, list[T]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found


def unnoticed(done: int, total: int) -> None:
    """Take no notice of the progress."""
