"""Number of entries in one read of the log, by the size of entries."""

from __future__ import annotations

from zsched.core.log import Entry, Position
from zsched.storage.log import Pages


def entry(size: int) -> Entry:
    return Entry(Position(1, 1, 1), "fire", [b"runs", b"x" * size])


def test_the_first_page_is_one_entry_and_light_entries_double_the_next() -> None:
    pages, sizes = Pages(100, 4 << 20), []
    for _ in range(9):
        sizes.append(pages.size)
        pages.learn([entry(500)])

    assert [1, 2, 4, 8, 16, 32, 64, 100, 100] == sizes


def test_a_heavy_entry_makes_the_next_page_short() -> None:
    pages = Pages(100, 4 << 20)
    for _ in range(9):
        pages.learn([entry(500)])

    pages.learn([entry(500), entry(30_000_000), entry(500)])
    assert 1 == pages.size

    pages.learn([entry(2 << 20)])
    assert 1 == pages.size

    pages.learn([])
    assert 2 == pages.size
