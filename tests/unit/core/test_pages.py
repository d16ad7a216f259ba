"""Pages of many items: all of them, in order, and read no sooner than requested."""

from __future__ import annotations

from itertools import count

import pytest

from zsched.core.pages import pages_of


@pytest.mark.parametrize(
    ("items", "pages"), [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3], [[1, 2], [3]])], ids=str
)
def test_pages_hold_all_items_in_order(items: list[int], pages: list[list[int]]) -> None:
    assert pages == list(pages_of(items, 2))


def test_pages_of_an_endless_source_are_read_one_at_a_time() -> None:
    source = count()

    assert [0, 1, 2] == next(pages_of(source, 3))
    assert 3 == next(source)


def test_pages_grow_from_a_short_first_page() -> None:
    assert [[0], [1, 2], [3, 4, 5], [6]] == list(pages_of(range(7), 3, first=1))
    assert [[0, 1], [2]] == list(pages_of(range(3), 2, first=5))
    assert [[0]] == list(pages_of(range(1), 2, first=0))
